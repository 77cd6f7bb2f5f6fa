"""The auditor on lasting tables: a publisher that keeps every rule passes, one that breaks any of them does not."""

from pathlib import Path
from random import Random

import pytest

from shoal.core.audit import write_report
from tests.support.engines import wrong_lasting as wrong
from tests.support.engines.audited import Bench, sentences
from tests.support.engines.lasting import Publisher
from tests.support.engines.lasting_desk import TRANSIENT, lasting_policy
from tests.support.histories.lasting_life import live

SEEDS = range(6)


def run(kind: type[Publisher], seed: int, folder: Path | None = None, k: int = 3, insiders: int = 0) -> Publisher:
    rng, publisher = Random(seed), kind(lasting_policy(k=k, batch=8, insiders=insiders), folder)
    for _ in range(8):
        live(publisher, rng, people=120, change=0.5)
        publisher.release()
    return publisher


def beside_others(kind: type[Publisher], seed: int, *, is_even: bool) -> Publisher:
    """A publisher in whose third window somebody else publishes a group of the younger half."""
    rng, publisher = Random(seed), kind(lasting_policy(k=3, batch=8))
    for number in range(8):
        live(publisher, rng, people=120)
        if number == 3:
            shown = dict.fromkeys(TRANSIENT[:4], 2) if is_even else {"asthma": 2, "ulcer": 1}
            publisher.tell_others(0, 49, shown)
        publisher.release()
    return publisher


@pytest.mark.parametrize("seed", range(20))
def test_a_publisher_that_keeps_every_rule_is_found_to_keep_every_promise(seed: int) -> None:
    publisher = run(Publisher, seed, k=1 + 2 * (seed % 3), insiders=seed % 2)
    assert publisher.desk.found() == set()
    assert publisher.max_breach == publisher.desk.auditor.report(b"key").private.max_breach  # type: ignore[union-attr]


def test_the_publisher_shows_everything_that_there_are_rules_for() -> None:
    """A twin for the test above: what is never shown breaks no rule."""
    private = run(Publisher, 0).desk.auditor.report(b"key").private
    assert private is not None
    assert private.lasting is not None
    assert min(private.lasting.values.values()) > 0
    assert private.lasting.cliques.shown > 1
    assert private.guarded > 5
    assert private.unguarding > 1


S2 = "G2: S2: two signatures of a person have some values in common, and are not equal"
PLAIN_INSIDE = "G2: S2: a value that a person was shown with plainly lies in a signature of theirs"
S3 = "G2: S3: more values of a person are shown under one signature than it may hide"
FULL = "G2: S3: a value is shown for the first time for somebody who could get one that could only be suppressed"
NOT_EVEN = "G2: S4: a group is not formed of equally many entries of each of its values"
OTHER_VALUES = "G2: S4: a group shows other values than when it was formed"
OVER = "G4: what is shown of what a person guards is over their bound"
UNSAFE = "G4: a value is shown for the first time for somebody whose bound one more value could pass"
STARRED = 'G4: somebody whose guard is over an open value, or below 1/(m - insiders), has a row that is not "*"'
LATE = "G4: something that meets what a person guards is shown although its bound was used up before"
CLIQUE = "G3: a clique's group does not show its value once for at least l + insiders rows"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (wrong.Restless, {"G2: S1: a value of a person is shown in another group than before"}),
        (
            wrong.Hiding,
            {"G2: S1: a value that was shown is hidden, though no guard and no other publication asks for it"},
        ),
        (wrong.Overlapping, {S2}),
        (wrong.Crowding, {S3, FULL}),
        (wrong.HalfFull, {FULL}),
        (wrong.Lopsided, {"G2: S4: a group does not show each value of its signature equally often", NOT_EVEN}),
        (wrong.Incomplete, {"G2: S4: a group is vacant when it is formed", NOT_EVEN}),
        (wrong.Refilling, {"G2: S4: somebody joined a group after it was formed"}),
        (wrong.Shrinking, {OTHER_VALUES}),
        (wrong.Secretive, {"G2: S4: a group does not show as many values as it has rows and vacant places"}),
        (wrong.Twice, {"G2: S2: a person has two entries in one group"}),
        (wrong.Impatient, {"G2: more values that were suppressed are shown later than were waiting"}),
        (wrong.Patient, {"G2: a batch of newcomers is full and goes on waiting, though groups were formed"}),
        (wrong.Small, {"G2: a signature has fewer values than the policy asks for"}),
        (wrong.Blunt, {"G2: a value is shown plainly that is neither open nor of somebody with the empty guard"}),
        (
            wrong.Fickle,
            {
                "G2: a value that had a signature is shown plainly",
                "G2: a value that was shown plainly is shown under a signature",
                PLAIN_INSIDE,
            },
        ),
        (wrong.Open, {"G2: a signature holds an open value"}),
        (wrong.Mixed, {"G2: a signature holds permanent values and others"}),
        (wrong.Careless, {OVER, UNSAFE, STARRED, LATE}),
        (wrong.Forgetful, {LATE}),
        (wrong.Sharing, {"G3: a person is in two cliques of one value"}),
        (wrong.Renewing, {"G3: a person is in two cliques of one value"}),
        (wrong.Lonely, {"G3: a person of a clique has no other row"}),
        (wrong.Telltale, {'G3: a permanent value that only a clique could show has a row of "*"'}),
        (wrong.Bold, {CLIQUE}),
        (wrong.Trusting, {CLIQUE}),
        (wrong.Fine, {"G1: a region is shared by fewer than k people"}),
        (wrong.Silent, {"contract: a value of a published person has no row"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_publisher_that_is_wrong_is_found_out(kind: type[Publisher], expected: set[str]) -> None:
    k, insiders = (50 if kind is wrong.Fine else 3), int(kind is wrong.Trusting)
    found = set().union(*(run(kind, seed, k=k, insiders=insiders).desk.found() for seed in SEEDS))
    assert expected <= found


@pytest.mark.parametrize("kind", [Publisher, wrong.Bare])
def test_what_is_left_of_a_frequent_value_is_suppressed_with_others(kind: type[Publisher]) -> None:
    publisher = kind(lasting_policy(k=3, batch=8))
    for number, value in enumerate((*TRANSIENT * 3, *["asthma"] * 5)):
        publisher.put(f"p{number}", number, value)
    found = publisher.release().desk.found()
    is_bare = "G2: of the values that were suppressed together more than 1/l are one value" in found
    assert publisher.groups, "or nothing was dealt"
    assert is_bare == (kind is wrong.Bare)


@pytest.mark.parametrize("is_even", [True, False], ids=["even", "uneven"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_publisher_that_heeds_others_is_right_beside_them(seed: int, is_even: bool) -> None:
    assert beside_others(Publisher, seed, is_even=is_even).desk.found() == set()


def test_a_publisher_that_does_not_heed_others_is_found_out() -> None:
    found = set().union(*(beside_others(wrong.Alone, seed, is_even=False).desk.found() for seed in SEEDS))
    assert found == {
        "G5: a value is shown for the first time beside another publication that cannot hide it",
        "G5: a value is still shown that another publication has left with too few like it",
    }


PUBLICLY = {
    wrong.Lopsided: "G2: S4: a group does not show each value of its signature equally often",
    wrong.Incomplete: "G2: S4: a group is vacant when it is formed",
    wrong.Shrinking: OTHER_VALUES,
    wrong.Secretive: "G2: S4: a group does not show as many values as it has rows and vacant places",
    wrong.Patient: "G2: a batch of newcomers is full and goes on waiting, though groups were formed",
    wrong.Small: "G2: a signature has fewer values than the policy asks for",
    wrong.Open: "G2: a signature holds an open value",
    wrong.Mixed: "G2: a signature holds permanent values and others",
    wrong.Bold: CLIQUE,
    wrong.Fine: "G1: a region is shared by fewer than k people",
}


@pytest.mark.parametrize(("kind", "expected"), PUBLICLY.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_what_anyone_can_see_is_seen_without_secrets(kind: type[Publisher], expected: str, tmp_path: Path) -> None:
    k = 50 if kind is wrong.Fine else 3
    for seed in SEEDS[:3]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        run(kind, seed, folder, k=k)
        if expected in sentences(Bench(folder, lasting_policy(k=k, batch=8)).audit_publicly()):
            return
    raise AssertionError(expected)


def test_folders_of_a_lasting_table_are_audited_privately_and_publicly(tmp_path: Path) -> None:
    policy = run(Publisher, 1, tmp_path).policy
    bench = Bench(tmp_path, policy)
    report, public = bench.audit(), bench.audit_publicly()
    assert sentences(report) == sentences(public) == set()
    text, outside = "\n".join(write_report(report)), "\n".join(write_report(public))
    assert "Its values last" in text
    assert "S1 to S4 hold: everyone is shown among at least 4 values, always in the same group" in text
    assert "not decided" in outside
    assert "every group is even" in outside
    assert not any(f"p{number} " in text for number in range(120))
    assert not any(value in text for value in TRANSIENT)
