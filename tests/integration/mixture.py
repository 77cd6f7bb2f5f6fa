"""Events as a careless world sends them: mostly good, in every form, with bad ones of every kind among them.

Whether an event is good is known by how it was made, not by asking Shoal: the generator keeps its own simple record of
who is present, absent or gone for good.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgpack
from confluent_kafka import Producer

from tests.support.services.table import Table, insert

RARE = "lupus"  # where nothing is permanent; redrawn tables protect nothing else
_GUARDED_SHARE = 0.03  # of inserts and updates; each one costs the groups around it something
# Every form that a guard may have, and what a person takes it back with.
GUARDS: dict[str, tuple[Any, ...]] = {
    "a node": ("lupus", "flu", "gout"),
    "everything": ("*",),
    "empty": ("",),
    "an object": ({"node": "lupus"}, {"node": "angina"}),
    "a bound": ({"node": "lupus", "bound": 0.25}, {"node": "gout", "bound": 0.5}, {"node": "flu", "bound": 0.1}),
    "taken back": ({"node": None},) * 2,
    "no preference": (None,),
}
JSON, MSGPACK = b"application/json", b"application/msgpack"


@dataclass(frozen=True)
class Sent:
    """A record to be sent: whose it is, how, and whether it must take effect."""

    person: str
    value: bytes | None
    headers: Mapping[str, bytes] = field(default_factory=dict)
    is_good: bool = True
    partition: int | None = None
    """Where to send it, if not to its person's partition."""


class _Crowd:
    """People of one status; anybody of them is picked in constant time."""

    def __init__(self) -> None:
        self._people: list[str] = []
        self._places: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._people)

    def __contains__(self, person: str) -> bool:
        return person in self._places

    def add(self, person: str) -> None:
        self._places[person] = len(self._people)
        self._people.append(person)

    def remove(self, person: str) -> None:
        place, last = self._places.pop(person), self._people.pop()
        if last != person:
            self._people[place], self._places[last] = last, place

    def __iter__(self) -> Iterator[str]:
        return iter(self._people)

    def pick(self, dice: random.Random) -> str | None:
        return self._people[int(dice.random() * len(self._people))] if self._people else None


class Mixture:
    """An endless mixture of events about at most so many people, the same for the same seed."""

    def __init__(self, seed: int, people: int, sensitive: Mapping[str, Any], bad_share: float = 0.03) -> None:
        """`sensitive` is that section of the table's policy."""
        self._random = random.Random(seed)
        self._most, self._bad_share = people, bad_share
        self._permanent = frozenset(sensitive.get("permanent", ()))
        self._rare = sorted(self._permanent) or [RARE]
        self._open = list(sensitive["open"])
        self._common = [value for value in sensitive["values"] if value not in self._rare]
        # Redrawn: no group could hide more of what is protected, and releases would be slow. Lasting: enough of several
        # permanent values for signatures of their own.
        self._rare_share = 0.02 if len(self._rare) == 1 else 0.25
        self._held: dict[str, frozenset[str]] = {}  # the permanent values people have
        self._next = 0
        self.present, self.absent, self.gone, self.erased = _Crowd(), _Crowd(), _Crowd(), _Crowd()
        self.counts: Counter[str] = Counter()
        self.guards: Counter[str] = Counter()  # how often each form of a guard was sent in a good event

    def take(self, count: int) -> Iterator[Sent]:
        """The next events."""
        for _ in range(count):
            made = self._bad() if self._random.random() < self._bad_share else self._good()
            self.counts["good" if made.is_good else "bad"] += 1
            yield made

    def leave(self, count: int) -> Iterator[Sent]:
        """So many of those who are present, deleted."""
        for _ in range(count):
            self.counts["good"] += 1
            yield self._delete()

    def come(self, count: int) -> Iterator[Sent]:
        """So many people, inserted."""
        for _ in range(count):
            self.counts["good"] += 1
            yield self._insert()

    def stray(self, partitions: int, home: Callable[[str], int], person: str | None = None) -> Sent:
        """An insert of somebody a release has known, sent to a partition that is not theirs."""
        person = person or self._one_present()
        self.counts["bad"] += 1
        elsewhere = (home(person) + 1 + self._random.randrange(partitions - 1)) % partitions
        return self._sent(person, self._record(person), is_good=False, partition=elsewhere)

    def publication(self) -> bytes:
        """What another publisher has released of people under 60 and over 90, in each group every disease some times.

        Of the young, four diseases at a time are shown equally often, so that a lasting table finds blocks beside them;
        of the old, each as often as it likes.
        """
        step = self._random.choice((20, 30, 60))
        regions = [(low, low + step - 1, 4) for low in range(0, 60, step)] + [(91, 120, 1)]
        groups = [
            {"region": {"age": {"min": low, "max": high}}, "sensitive": self._counted(alike)}
            for low, high, alike in regions
        ]
        publisher = self._random.choice(("north", "south"))
        self.counts["publications"] += 1
        return json.dumps({"op": "external", "publisher": publisher, "groups": groups}).encode()

    def _counted(self, alike: int) -> dict[str, int]:
        """How often each disease is shown; those that need protection, and those that last, so many alike."""
        shown: dict[str, int] = {}
        for diseases in (self._open, [value for value in self._common if value not in self._open], self._rare):
            counts = [self._random.randrange(1, 4) for _ in range(max(1, len(diseases) // alike))]
            shown |= {disease: counts[min(place // alike, len(counts) - 1)] for place, disease in enumerate(diseases)}
        return shown

    # -- good ---------------------------------------------------------------------------------------------------------

    def _good(self) -> Sent:
        dice = self._random.random()
        is_full = self._next >= self._most
        if len(self.present) < 20 or (dice < 0.25 and (self.absent or not is_full)):
            return self._insert()
        if dice < 0.70 or (len(self.present) < self._most // 3 and is_full):
            return self._update()
        if dice < 0.91:
            return self._delete()
        if dice < 0.93:
            return self._erase()
        if is_full and self.absent and len(self.gone) < self._most // 4:
            return self._deregister()
        return self._register()

    def _insert(self) -> Sent:
        back = self.absent.pick(self._random) if self._next >= self._most or self._random.random() < 0.2 else None
        if back is not None:
            self.absent.remove(back)
        elif (back := self.erased.pick(self._random)) is not None:
            self.erased.remove(back)
        person = back or self._newcomer()
        self.present.add(person)
        event = self._record(person)
        if self._random.random() < 0.1:
            event["at"] = "2026-01-02T03:04:05Z"
        return self._sent(person, self._kept(self._guarded(event)))

    def _update(self) -> Sent:
        person = self._one_present()
        event: dict[str, Any] = {"op": "update", "id": person}
        dice = self._random.random()
        if dice < 0.6:
            event["qid"] = {"age": self._random.randrange(121)} if dice < 0.3 else {"zip": self._zip()}
        if dice > 0.4:
            event["sensitive"] = self._diseases()
        return self._sent(person, self._kept(self._guarded(event)))

    def _delete(self) -> Sent:
        person = self._one_present()
        self.present.remove(person)
        self.absent.add(person)
        return self._sent(person, {"op": "delete", "id": person})

    def _erase(self) -> Sent:
        """Somebody present or absent; nobody with a permanent value, of which the two models keep different things."""
        person = self._one_present()
        if person in self._held:
            return self._delete()
        crowd, other = self.present, self.absent.pick(self._random)
        if other is not None and other not in self._held and self._random.random() < 0.3:
            crowd, person = self.absent, other
        crowd.remove(person)
        self.erased.add(person)
        self.counts["erased"] += 1
        return self._sent(person, {"op": "erase", "id": person})

    def _register(self) -> Sent:
        back = self.absent.pick(self._random) if self._next >= self._most else None
        person = back or self._newcomer()
        if back is None:
            self.absent.add(person)
        return self._sent(person, {"op": "register", "id": person, "qid": self._record(person)["qid"]})

    def _deregister(self) -> Sent:
        person = self.absent.pick(self._random)
        assert person is not None
        self.absent.remove(person)
        self.gone.add(person)
        return self._sent(person, {"op": "deregister", "id": person})

    # -- bad ----------------------------------------------------------------------------------------------------------

    def _bad(self) -> Sent:
        if self._held and self._random.random() < 0.1:
            ill = self._random.choice(sorted(self._held))
            return self._sent(ill, {"op": "update", "id": ill, "sensitive": ["flu"]}, is_good=False)
        person = self.present.pick(self._random) or "p0"
        made = self._random.choice(_BAD)(self, person)
        if isinstance(made, Sent):
            return made
        if isinstance(made, bytes):
            return Sent(person, made, is_good=False)
        return self._sent(str(made.get("id", person)), made, is_good=False)

    def _of_the_wrong_status(self, person: str) -> dict[str, Any]:
        absent, gone = self.absent.pick(self._random), self.gone.pick(self._random)
        newcomer = self._nobody()
        events: list[dict[str, Any]] = [
            self._record(person) if person in self.present else {"op": "update", "id": newcomer},
            {"op": "update", "id": newcomer, "sensitive": ["flu"]},
            {"op": "delete", "id": newcomer},
            {"op": "deregister", "id": newcomer},
        ]
        if person in self.present:
            events += [{"op": "deregister", "id": person}, {**self._record(person), "op": "register"}]
            del events[-1]["sensitive"]
        if absent is not None:
            events += [{"op": "delete", "id": absent}, {"op": "update", "id": absent, "qid": {"age": 3}}]
        if gone is not None:
            events += [self._record(gone), {"op": "delete", "id": gone}, {"op": "deregister", "id": gone}]
        return self._random.choice(events)

    # -- small things -------------------------------------------------------------------------------------------------

    def _guarded(self, event: dict[str, Any]) -> dict[str, Any]:
        """Now and then with a guard; an update then may say nothing else."""
        if self._random.random() >= _GUARDED_SHARE:
            return event
        form = self._random.choice(list(GUARDS))
        if form == "everything" and self._random.random() < 0.8:
            form = "taken back"  # hardly anything can be shown beside somebody who hides everything
        self.guards[form] += 1
        if event["op"] == "update" and self._random.random() < 0.4:
            event = {"op": "update", "id": event["id"]}
        return {**event, "guard": self._random.choice(GUARDS[form])}

    def _kept(self, event: dict[str, Any]) -> dict[str, Any]:
        """What is permanent stays: an update has to name it, an insert of somebody who was away need not."""
        told = frozenset(event.get("sensitive", ()))
        held = self._held.get(event["id"], frozenset()) | (told & self._permanent)
        if held:
            self._held[event["id"]] = held
        if event["op"] == "update" and told and held - told:
            return {**event, "sensitive": [*event["sensitive"], *sorted(held - told)]}
        return event

    def _newcomer(self) -> str:
        self._next += 1
        return f"p{self._next - 1}"

    def _nobody(self) -> str:
        """An id that no good event ever has."""
        return f"x{self._random.randrange(10**9)}"

    def _one_present(self) -> str:
        person = self.present.pick(self._random)
        assert person is not None, "nobody has been inserted yet"
        return person

    def _record(self, person: str) -> dict[str, Any]:
        return insert(int(person[1:]), id=person, sensitive=self._diseases())

    def _diseases(self) -> list[str]:
        dice, count = self._random.random(), len(self._common)
        common, other = self._common[int(dice * count)], self._common[int(dice * 997) % count]
        if self._random.random() < self._rare_share:
            rare = self._random.choice(self._rare)
            return [rare] if dice < 0.1 else [common, rare]
        return [common, other] if dice < 0.3 and common != other else [common]

    def _zip(self) -> str:
        return f"z{self._random.randrange(10)}"

    def _sent(
        self, person: str, event: Mapping[str, Any], *, is_good: bool = True, partition: int | None = None
    ) -> Sent:
        form = self._random.randrange(3)
        if form == 0:
            return Sent(person, msgpack.packb(event), {"content-type": MSGPACK}, is_good, partition)
        headers = {"content-type": JSON, "source": b"ward 3"} if form == 1 else {}
        return Sent(person, json.dumps(event).encode(), headers, is_good, partition)


def _without(event: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != name}


_BAD: tuple[Callable[[Mixture, str], "dict[str, Any] | bytes | Sent"], ...] = (
    lambda m, p: b'{"op": "insert", "id": ',
    lambda m, p: b"",
    lambda m, p: b"\xff\xfe\x00",
    lambda m, p: b'{"op": "delete", "id": "p1", "id": "p2"}',
    lambda m, p: b'[{"op": "delete"}]',
    lambda m, p: b"NaN",
    lambda m, p: b'{"op": "release"}',
    lambda m, p: b'{"op": "delete",\n"id": "nobody"}',
    lambda m, p: b"[" * 5_000,
    lambda m, p: Sent(p, None, is_good=False),
    lambda m, p: Sent(p, b"\xc1", {"content-type": MSGPACK}, is_good=False),
    lambda m, p: Sent(p, msgpack.packb({"op": "delete", "id": p})[:-1], {"content-type": MSGPACK}, is_good=False),
    lambda m, p: Sent(p, msgpack.packb([1, 2]), {"content-type": MSGPACK}, is_good=False),
    lambda m, p: Sent(p, msgpack.packb({"op": "delete", "id": p.encode()}), {"content-type": MSGPACK}, is_good=False),
    lambda m, p: Sent(p, b"op,id\ndelete,p1", {"content-type": b"text/csv"}, is_good=False),
    lambda m, p: {"op": "delete", "id": ""},
    lambda m, p: {"op": "delete", "id": 17},
    lambda m, p: {"op": "delete"},
    lambda m, p: {"op": "vaccinate", "id": p},
    lambda m, p: {"op": "delete", "id": p, "why": "moved"},
    lambda m, p: {"op": "delete", "id": p, "at": "yesterday"},
    lambda m, p: {"op": "external", "publisher": "hospital-1", "groups": []},
    lambda m, p: _without(m._record(m._nobody()), "sensitive"),
    lambda m, p: {**m._record(m._nobody()), "sensitive": []},
    lambda m, p: {**m._record(m._nobody()), "sensitive": ["dragon pox"]},
    lambda m, p: {**m._record(m._nobody()), "sensitive": "*"},
    lambda m, p: {**m._record(m._nobody()), "qid": {"age": 200, "sex": "male", "zip": "z1"}},
    lambda m, p: {**m._record(m._nobody()), "qid": {"age": 20.5, "sex": "male", "zip": "z1"}},
    lambda m, p: {**m._record(m._nobody()), "qid": {"age": True, "sex": "male", "zip": "z1"}},
    lambda m, p: {**m._record(m._nobody()), "qid": {"age": 20, "sex": "male"}},
    lambda m, p: {"op": "update", "id": p, "qid": {"height": 180}},
    lambda m, p: {"op": "update", "id": p, "qid": {"zip": "z99"}},
    lambda m, p: {"op": "update", "id": p, "guard": "dragon pox"},
    lambda m, p: {"op": "update", "id": p, "guard": 17},
    lambda m, p: {"op": "update", "id": p, "guard": {"node": "lupus", "bound": 0.9}},
    lambda m, p: {"op": "update", "id": p, "guard": {"node": "lupus", "bound": 0}},
    lambda m, p: {"op": "update", "id": p, "guard": {"node": None, "bound": 0.2}},
    lambda m, p: {"op": "update", "id": p, "guard": {"bound": 0.2}},
    lambda m, p: {"op": "delete", "id": p, "guard": "lupus"},
    lambda m, p: {**m._record(m._nobody()), "guard": ["lupus"]},
    Mixture._of_the_wrong_status,
    Mixture._of_the_wrong_status,
    Mixture._of_the_wrong_status,
    Mixture._of_the_wrong_status,
)  # fmt: skip


def send(table: Table, records: Iterable[Sent]) -> list[list[Sent]]:
    """Send records, each to its partition; returns them by partition, in the order in which they stand there."""
    placed: list[list[Sent]] = [[] for _ in range(table.partitions)]
    producer = Producer({"bootstrap.servers": table.kafka, "enable.idempotence": True, "linger.ms": 20, "log_level": 0})
    for record in records:
        partition = table.home(record.person) if record.partition is None else record.partition
        placed[partition].append(record)
        headers = list(record.headers.items())
        while True:
            try:
                producer.produce(table.topics.events, record.value, record.person, partition, headers=headers)
            except BufferError:
                producer.poll(0.1)
            else:
                break
    assert producer.flush(120) == 0, "Kafka did not take the events"
    return placed
