"""The ledger: accounts of many people at once say what exact fractions say of each."""

from random import Random
from typing import NamedTuple

import numpy as np
import pytest

from shoal.core.cells.tree import Rows
from shoal.core.groups.ledger import GroupRecord, Ledger
from shoal.core.policy.policy import Policy
from tests.support.engines.series import clinic_policy


class _Chains(NamedTuple):
    """Fifty people, the groups each was in, and the same as pairs in any order."""

    policy: Policy
    ledger: Ledger
    chains: list[list[int]]
    person: Rows
    group: Rows


def _chains() -> _Chains:
    rng, policy = Random(1), clinic_policy()
    ledger, hierarchy = Ledger(policy), policy.sensitive.hierarchy
    records = []
    for number in range(1, 40):
        nodes = sorted(rng.sample(range(len(hierarchy.labels)), 4))
        shown = tuple((node, rng.randint(1, 2)) for node in nodes)
        records.append((number, GroupRecord(number, 20 + sum(count for _, count in shown), shown)))
    ledger.extend(records)
    chains = [sorted(rng.sample(range(1, 40), rng.randrange(6))) for _ in range(50)]
    pairs = [(person, group) for person, chain in enumerate(chains) for group in chain]
    rng.shuffle(pairs)
    return _Chains(policy, ledger, chains, *np.array(pairs, dtype=np.int64).T)


@pytest.mark.parametrize("few", [10**9, 0], ids=["by tables", "by sorting"])
def test_accounts_added_up_at_once_are_those_of_each_person(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.core.groups.ledger.FEW", few)
    monkeypatch.setattr("shoal.core.groups.ledger.TABLE", 64)  # so that people stand in several tables
    policy, ledger, chains, person_of, group_of = _chains()
    found = ledger.accounts(person_of, group_of)
    accounts = dict(
        zip(zip(found.person.tolist(), found.leaf.tolist(), strict=True), found.survival.tolist(), strict=True)
    )
    times = dict(zip(accounts, found.exposures.tolist(), strict=True))
    assert list(accounts) == sorted(accounts)
    for person, chain in enumerate(chains):
        for leaf in range(len(policy.sensitive.hierarchy.leaves)):
            exposed = [group for group in chain if ledger.share_of(group, leaf, leaf + 1)]
            is_protected = leaf not in policy.sensitive.open
            assert times.get((person, leaf), 0) == (len(exposed) if is_protected else 0)
            if exposed and is_protected:
                survival = float(1 - ledger.breach(chain, leaf, leaf + 1))
                assert accounts[person, leaf] == pytest.approx(survival, rel=1e-12)


@pytest.mark.parametrize(
    ("cells", "search"),
    [(64, 10**9), (1 << 20, 10**9), (64, 0)],
    ids=["in several tables", "in one table", "by searching"],
)
def test_what_is_asked_of_a_few_is_what_their_accounts_say_to_the_last_bit(
    cells: int, search: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.core.groups.ledger.SOUGHT", cells)
    monkeypatch.setattr("shoal.core.groups.ledger.SEARCH", search)
    policy, ledger, _, person_of, group_of = _chains()
    in_order = np.argsort(person_of, kind="stable")
    person_of, group_of = person_of[in_order], group_of[in_order]
    leaves = len(policy.sensitive.hierarchy.leaves)
    accounts = ledger.accounts(person_of, group_of)
    known = dict(
        zip(
            zip(accounts.person.tolist(), accounts.leaf.tolist(), strict=True),
            zip(accounts.survival.tolist(), accounts.exposures.tolist(), strict=True),
            strict=True,
        )
    )
    asked = sorted(Random(2).sample([(person, leaf) for person in range(60) for leaf in range(leaves)], 150))
    survival, times = ledger.standings(person_of, group_of, *np.array(asked, dtype=np.int64).T)
    found = list(zip(survival.tolist(), times.tolist(), strict=True))
    assert found == [known.get(pair, (1.0, 0)) for pair in asked]
    assert 0 < np.count_nonzero(times) < len(asked)


def test_no_value_has_survived_less_than_the_bound_says() -> None:
    _, ledger, chains, person_of, group_of = _chains()
    least = ledger.least_survivals(person_of, group_of, len(chains))
    accounts = ledger.accounts(person_of, group_of)
    assert bool(np.all(least[accounts.person] <= accounts.survival))
    assert [bool(bound > 1 - 1e-8) for bound in least] == [person not in accounts.person for person in range(50)]
