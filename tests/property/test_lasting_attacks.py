"""The real engine of lasting tables against the attacks: worlds of small tables counted, claims on larger ones."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from shoal.core.audit.attack.persistence import Claims
from shoal.core.audit.attack.played import Played
from shoal.core.policy.policy import Policy
from shoal.streams.files.policy_yaml import load_policy
from tests.support.engines.audited import Bench
from tests.support.histories.staying import live
from tests.support.judges.series import Table

HALF = Fraction(1, 2)
VALUES = [f"v{number}" for number in range(120)]
PERMANENT = VALUES[:2]


def policy_in(folder: Path, values: Sequence[str], k: int, batch: int, extra: str = "") -> Policy:
    (folder / "policy.yaml").write_text(
        f"""
table: people
attributes: {{age: {{type: int, min: 0, max: 99}}}}
sensitive: {{name: disease, values: [{", ".join(values)}]{extra}}}
privacy: {{k: {k}, l: 2, values: lasting, batch: {batch}}}
"""
    )
    return load_policy(folder / "policy.yaml")


def small_life(random: Random, values: Sequence[str], most: int, guards: Sequence[object] = ()) -> list[Table]:
    """Ten people in five releases, who come, go, return, move and change; what is permanent stays."""
    held: dict[str, Any] = {}
    kept: dict[str, frozenset[str]] = {}
    found: list[Table] = []
    for _ in range(5):
        for number in range(10):
            person, fate = f"p{number}", random.random()
            if fate < 0.12:
                held.pop(person, None)
            elif person not in held or fate < 0.37:
                drawn = frozenset(random.sample(list(values), random.randint(1, most))) | kept.get(person, frozenset())
                kept[person] = drawn & set(PERMANENT) if values[0] == PERMANENT[0] else frozenset()
                guard = [random.choice(guards)] if guards and random.random() < 0.15 else []
                held[person] = ({"age": random.randrange(100)}, drawn, *guard)
        found.append(dict(held))
    return found


def play(folder: Path, policy: Policy, tables: Sequence[Table]) -> Played:
    folder.mkdir()
    private = Bench(folder, policy).replay(tables).audit().private
    assert private is not None
    return private.attacks.played


KINDS = {
    "one value each": (VALUES[2:10], 1, "", ()),
    "several values": (VALUES[2:10], 2, "", ()),
    "permanent values": (VALUES[:8], 2, f", permanent: [{', '.join(PERMANENT)}]", ()),
    "open values and guards": (VALUES[2:10], 2, ", open: [v9]", ("", None)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_in_every_world_of_a_small_table_nobody_is_over_their_share(kind: str, tmp_path: Path) -> None:
    values, most, extra, guards = KINDS[kind]
    policy = policy_in(tmp_path, values, 1, 4, extra)
    counted = 0
    for seed in range(12):
        worlds = play(tmp_path / str(seed), policy, small_life(Random(seed), values, most, guards)).worlds
        if worlds is not None:
            assert worlds.is_kept(HALF, policy.insiders)
            counted += worlds.worlds > 20
    assert counted > 2


def claims_of(folder: Path, policy: Policy) -> Claims:
    """The attack that believes in a probability of 0.95, on 600 people of whom one in fifty changes each time."""
    random = Random(7)
    ages = [random.randrange(100) for _ in range(600)]
    tables: list[Table] = [
        {person: ({"age": ages[int(person[1:])]}, frozenset((VALUES[value],))) for person, value in table.items()}
        for table in live(600, 10, 120, stay=0.98, seed=11, leave=0.02)
    ]
    return next(claims for claims in play(folder, policy, tables).here if claims.stay == 0.95)


def test_no_more_than_half_of_the_claims_about_a_lasting_table_are_right_and_of_a_redrawn_one_most_are(
    tmp_path: Path,
) -> None:
    policy = policy_in(tmp_path, VALUES, 3, 16)
    lasting = claims_of(tmp_path / "lasting", policy)
    assert lasting.is_within(HALF)
    assert lasting.over < 0.1 * lasting.people
    redrawn = claims_of(tmp_path / "redrawn", replace(policy, values="redrawn"))
    assert redrawn.over > 100
    assert not redrawn.is_within(HALF)
