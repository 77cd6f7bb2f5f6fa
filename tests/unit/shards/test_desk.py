"""The desk: who stays, who comes and who leaves, and what they take along."""

from typing import Any

import msgpack

from shoal.core.events.guard import Guard
from shoal.core.events.window import DEREGISTERED, ERASED, GONE, PATCH, PRESENT, PUT, PUT_ANEW, REGISTER, Delta
from shoal.core.person import FORGOTTEN, Person
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.shards.cuts import Cuts
from shoal.core.shards.desk import RecordedHistories, Resident, gather, may_move, present
from shoal.core.shards.moves import ShardWindow, SignedEntry, Traveller, joined
from shoal.core.signatures.bonds import Bond
from shoal.core.signatures.entries import CURRENT, HELD, PLAIN, STARRED
from shoal.core.signatures.signature import SignatureRecord

BOTH = HELD | CURRENT


def policy() -> Policy:
    document = {
        "table": "desk",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
        "sensitive": {"name": "d", "values": list("abcdefgh"), "permanent": ["h"]},
        "privacy": {"k": 2, "l": 2},
        "scale": {"shards": 2},
    }
    return build_policy(document, {}, b"")


POLICY = policy()
CUTS = Cuts.read(POLICY, [(0, 0, 50, 1, 2)])  # shard 0 is younger than 50
HISTORIES = RecordedHistories(
    [{0: SignatureRecord((0, 1, 2, 3))}, {}], [{1: Bond(7, ("ann", "bob")), 2: Bond(7, ("eve",))}, {}]
)


def resident(age: int, *, shard: int = 0, **fields: Any) -> Resident:
    person = Person(PRESENT, 0, (age,), (1,), -1, (), 1, entries=((1, 0, 5, BOTH, 0), (4, PLAIN, 6, STARRED, 3)))
    return Resident(shard, person._replace(**fields))


def desk(residents: dict[str, Resident], deltas: dict[int, dict[str, Delta]], cuts: Cuts | None = CUTS) -> Any:
    return gather(POLICY, cuts, 2, residents, deltas, HISTORIES)


def patch(age: int | None = None, values: tuple[int, ...] | None = None) -> Delta:
    return (PATCH, (age,), values, None, None)


def test_somebody_who_moves_takes_along_what_was_shown_of_them() -> None:
    found = desk({"ann": resident(20)}, {0: {"ann": patch(70, (2,))}})
    assert found.windows[0] == ShardWindow({}, ("ann",))
    (traveller,) = found.windows[1].arrivals.values()
    assert (traveller.person.qid, traveller.person.values, traveller.person.since) == ((70,), (2,), 2)
    assert traveller.person.trail == ((20,),)
    assert traveller.entries == (SignedEntry(1, (0, 1, 2, 3), 0, BOTH), SignedEntry(4, (), PLAIN, STARRED))
    assert (traveller.bound, traveller.is_erased) == ((7,), False)


def test_somebody_who_changes_or_moves_within_their_shard_stays() -> None:
    deltas: dict[str, Delta] = {"ann": patch(30), "bob": patch(None, (3,)), "eve": (GONE, None, None, None, None)}
    found = desk({name: resident(20) for name in deltas}, {0: deltas})
    assert found.windows == {0: ShardWindow({0: deltas})}


def test_histories_are_asked_for_everybody_who_moves_and_nobody_who_cannot() -> None:
    """Everybody lives with the old, where nobody is who is erased, and each delta is tried as if it took them away."""
    deltas: dict[str, Delta] = {
        "moved": patch(20),
        "changed": patch(None, (3,)),
        "gone": (GONE, None, None, None, None),
        "put": (PUT, (20,), (1,), None, None),
        "put anew": (PUT_ANEW, (20,), (1,), None, None),
        "registered": (REGISTER, (20,), None, None, None),
        "deregistered": (DEREGISTERED, None, None, None, None),
        "erased": (ERASED, None, None, None, None),
    }
    residents = {name: resident(70, shard=1, entries=()) for name in deltas}
    departures = desk(residents, {0: deltas}).windows[1].departures
    assert set(departures) == set(may_move(residents, {0: deltas}))
    assert set(departures) == {"moved", "put", "put anew", "registered", "erased"}
    assert set(may_move(residents, {0: {"gone": patch(20)}, 1: deltas})) == {*departures, "gone"}, "by any partition"


def test_there_and_back_again_is_no_move() -> None:
    put: Delta = (PUT, (20,), (1,), None, None)
    assert desk({"ann": resident(20)}, {0: {"ann": put}}).windows == {0: ShardWindow({0: {"ann": put}})}


def test_somebody_absent_moves_with_their_registration_and_somebody_erased_to_nowhere() -> None:
    register: Delta = (REGISTER, (60,), None, None, None)
    found = desk({"ann": resident(20)}, {0: {"ann": register}})
    assert found.windows[1].arrivals["ann"].person.status == 2
    erased: Delta = (ERASED, None, None, None, None)
    home = resident(70, shard=1, entries=(), guard=Guard(3), held=(7,), trail=((10,),))
    found = desk({"bob": home}, {0: {"bob": erased}})
    assert found.windows[1].departures == ("bob",)
    assert found.windows[0].lost == found.windows[1].lost == {"bob"}, "who may be in cliques of either"
    traveller = found.windows[0].arrivals["bob"]
    assert traveller.is_erased
    assert traveller.person == Person(4, 0, (0,), (), -1, (), FORGOTTEN, trail=((),))


def test_somebody_erased_who_comes_back_elsewhere_counts_as_having_been_everywhere() -> None:
    anew: Delta = (PUT_ANEW, (70,), (2,), None, None)
    found = desk({"ann": resident(20, trail=((5,),))}, {0: {"ann": anew}})
    assert found.windows[1].arrivals["ann"].person.trail == ((),)
    again = resident(70, shard=1, entries=(), trail=((),))
    assert desk({"ann": again}, {0: {"ann": patch(10)}}).windows[0].arrivals["ann"].person.trail == ((),)


def test_newcomers_go_to_the_shard_where_they_live() -> None:
    deltas: dict[str, Delta] = {
        "ann": (PUT, (20,), (1,), (4,), None),
        "bob": (PUT, (80,), (1,), (5,), None),
        "eve": (DEREGISTERED, None, None, (6,), None),
    }
    found = desk({}, {3: deltas})
    assert {shard: set(window.deltas[3]) for shard, window in found.windows.items()} == {0: {"ann", "eve"}, 1: {"bob"}}


def test_events_that_do_not_come_by_somebodys_home_are_misrouted() -> None:
    put: Delta = (PUT, (20,), (1,), (4, 9), None)
    found = desk({"ann": resident(20)}, {0: {"bob": put}, 1: {"ann": put, "bob": put}, 2: {"bob": put}})
    assert found.windows == {0: ShardWindow({0: {"bob": put}})}
    assert found.misrouted == ((1, 4), (1, 4), (1, 9), (1, 9), (2, 4), (2, 9))


def test_until_there_are_cuts_everybody_is_in_the_first_shard_and_then_moves() -> None:
    people = {"ann": resident(20, entries=()), "bob": resident(80, entries=())}
    put: Delta = (PUT, (90,), (1,), None, None)
    assert desk(people, {0: {"eve": put}}, None).windows == {0: ShardWindow({0: {"eve": put}})}
    found = desk(people, {0: {"eve": put}})
    assert found.windows[0] == ShardWindow({}, ("bob",))
    assert set(found.windows[1].arrivals) == {"bob"}
    assert found.windows[1].deltas == {0: {"eve": put}}
    gone: Delta = (GONE, None, None, None, None)
    here = dict(present(POLICY, 2, people, {0: {"eve": put, "ann": gone}}))
    assert here == {"bob": (80,), "eve": (90,)}


def test_a_window_is_packed_and_unpacked() -> None:
    guarded = resident(20, guard=Guard(3, 0.25), held=(7,), trail=((1,), (2,)))
    people = {"ann": guarded, "bob": resident(30), "eve": resident(10)}
    erased: Delta = (ERASED, None, None, None, None)
    deltas = {0: {"ann": patch(70), "bob": patch(31, (1, 2)), "eve": patch(99)}}
    windows = [
        *desk(people, deltas).windows.values(),
        *desk({"eve": resident(80, shard=1, entries=())}, {0: {"eve": erased}}).windows.values(),
    ]
    for window in windows:
        packed = msgpack.unpackb(msgpack.packb(window.pack()), use_list=False, strict_map_key=False)
        assert ShardWindow.unpack(packed) == window
    first, last = windows[0], windows[1]
    whole = joined([first, last], ())
    assert set(whole.arrivals) == {"ann", "eve"}
    assert whole.departures == ("ann", "eve")
    assert isinstance(whole.arrivals["ann"], Traveller)
