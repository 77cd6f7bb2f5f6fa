"""Who knows how long values last learns from groups whose values last unlike, and nothing from others."""

from collections.abc import Mapping
from random import Random

import pytest

from shoal.core.audit.attack.duration import Duration, Lasted
from shoal.core.audit.attack.worlds import Token

M = 4


def signature(value: int) -> Mapping[Token, int]:
    """The block of a value, once each."""
    return {(one,): 1 for one in range(value // M * M, (value // M + 1) * M)}


def play(stays: tuple[float, ...], people: int, releases: int, seed: int, *, shares: bool = True) -> Lasted:
    """Everybody has one value, one in four of each; it ends with its own probability, and then they have no other.

    Each four in turn are a group, from the first release on; without `shares` nothing is shown under signatures.
    """
    random, duration = Random(seed), Duration(len(stays))
    held = {f"p{n}": n % len(stays) for n in range(people)}
    groups = {f"g{n // M}": [f"p{at}" for at in range(n, n + M)] for n in range(0, people, M)}
    first = dict(held)
    for number in range(releases):
        now = {person: frozenset([value]) for person, value in held.items()}
        now |= {person: frozenset[int]() for person in first.keys() - held.keys()}
        if number:
            shown = [
                (name, signature(first[mine[0]]), [(person, held[person]) for person in mine if person in held])
                for name, mine in groups.items()
            ]
            duration.see([group for group in shown if group[2]] if shares else [], now)
        else:
            duration.see([], {})  # nothing was there before, so ages are known
        held = {person: value for person, value in held.items() if not number or random.random() < stays[value]}
    return duration.result(2)


def test_where_one_value_of_a_signature_lasts_and_others_pass_it_is_known_who_has_it() -> None:
    found = play((0.99, 0.3, 0.3, 0.3), 400, 12, seed=1)
    assert found.people == 400
    assert 95 <= found.over <= 130
    assert found.over_right > 0.75 * found.over
    assert found.sure > 60
    assert found.sure_right > 0.9 * found.sure


def test_where_all_values_of_a_signature_last_alike_nobody_is_claimed_to_have_any() -> None:
    for seed in range(5):
        found = play((0.7, 0.7, 0.7, 0.7), 400, 12, seed=seed)
        assert found.over <= 0.01 * found.people
        assert found.sure == 0


@pytest.mark.parametrize("seed", range(3))
def test_values_that_last_alike_in_a_signature_hide_each_other_however_unlike_others_last(seed: int) -> None:
    """Four that last and four that pass, each four under a signature of their own."""
    random, duration = Random(seed), Duration(8)
    held = {f"p{n}": n % 8 for n in range(400)}
    first = dict(held)
    duration.see([], {})
    for _ in range(12):
        now = {person: frozenset([held[person]] if person in held else []) for person in first}
        groups: dict[str, list[tuple[str, int | None]]] = {}
        for at, (person, value) in enumerate(first.items()):
            if person in held:
                groups.setdefault(f"g{at // 8}-{value // M}", []).append((person, value))
        shown = [(name, signature(first[str(rows[0][0])]), rows) for name, rows in groups.items()]
        duration.see(shown, now)
        held = {person: value for person, value in held.items() if random.random() < (0.95 if value < M else 0.4)}
    found = duration.result(2)
    assert found.over <= 0.02 * found.people


def test_what_was_never_shown_and_a_table_without_releases_tell_nothing() -> None:
    assert play((0.9, 0.1, 0.1, 0.1), 100, 8, seed=1, shares=False) == Lasted(0, 0, 0, 0, 0)
    assert Duration(4).result(2) == Lasted(0, 0, 0, 0, 0)


def test_nobodys_own_spell_is_evidence_about_them() -> None:
    """Of two values that one person each has, and two that come and go with everybody's, the one that lasts is not
    known to last but for its only holder: with that spell counted in, its holder would be known.
    """
    duration, random = Duration(4), Random(8)
    duration.see([], {})
    held = {f"p{n}": 2 + n % 2 for n in range(200)} | {"a": 0, "b": 1}
    for _ in range(8):
        now = {person: frozenset([value]) for person, value in held.items()}
        rows: list[tuple[str, int | None]] = [(one, held[one]) for one in ("a", "b", "p0", "p1") if one in held]
        duration.see([("g", signature(0), rows)], now)
        held = {
            one: value for one, value in held.items() if one in "ab" or one in ("p0", "p1") or random.random() < 0.5
        }
    assert duration.result(2).sure == 0


def test_all_spells_of_a_value_that_comes_back_are_looked_at() -> None:
    """One value is always there; three last for three releases, together or one at a time."""
    found = []
    for returns in (1, 3):
        duration = Duration(4)
        duration.see([], {})
        for number in range(9):
            now = {f"p{n}": frozenset([n % 4] if n % 4 == 0 or _is_on(number, returns) else []) for n in range(80)}
            groups: dict[str, list[tuple[str, int | None]]] = {}
            for n in range(80):
                if now[f"p{n}"]:
                    groups.setdefault(f"g{n // 4}", []).append((f"p{n}", n % 4))
            duration.see([(name, signature(0), rows) for name, rows in groups.items()], now)
        found.append(duration.result(2))
    assert [one.over_right for one in found] == [20, 20]
    assert [one.over for one in found] == [20, 20]


def _is_on(number: int, returns: int) -> bool:
    return number < 3 if returns == 1 else number in (0, 3, 6)
