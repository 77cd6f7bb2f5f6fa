"""The ledger: accounts of many people at once say what exact fractions say of each."""

from random import Random

import numpy as np
import pytest

from core.ledger import GroupRecord, Ledger
from tests.series import clinic_policy


@pytest.mark.parametrize("few", [10**9, 0], ids=["by tables", "by sorting"])
def test_accounts_added_up_at_once_are_those_of_each_person(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.ledger.FEW", few)
    monkeypatch.setattr("core.ledger.TABLE", 64)  # so that people stand in several tables
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
    person_of, group_of = np.array(pairs, dtype=np.int64).T
    found = ledger.accounts(person_of, group_of)
    accounts = dict(
        zip(zip(found.person.tolist(), found.leaf.tolist(), strict=True), found.survival.tolist(), strict=True)
    )
    times = dict(zip(accounts, found.exposures.tolist(), strict=True))
    assert list(accounts) == sorted(accounts)
    for person, chain in enumerate(chains):
        for leaf in range(len(hierarchy.leaves)):
            exposed = [group for group in chain if ledger.share_of(group, leaf, leaf + 1)]
            is_protected = leaf not in policy.sensitive.open
            assert times.get((person, leaf), 0) == (len(exposed) if is_protected else 0)
            if exposed and is_protected:
                survival = float(1 - ledger.breach(chain, leaf, leaf + 1))
                assert accounts[person, leaf] == pytest.approx(survival, rel=1e-12)
