"""The engine's budget beside another publisher's group, against the rule that was enumerated."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from random import Random

from shoal.core.policy.policy import Policy, build_policy
from shoal.core.signatures.budget import Budget
from tests.support.beside.budget import may_stand

VALUES = 9


def policy(overlap: int = 2, signature: int = 4) -> Policy:
    return build_policy(
        {
            "table": "ward",
            "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
            "sensitive": {"name": "disease", "values": [f"d{rank}" for rank in range(VALUES)]},
            "privacy": {"k": 2, "l": 2, "signature": signature, "overlap": overlap},
        },
        {},
        b"",
    )


def _shuffled(random: Random, some: Sequence[int]) -> list[int]:
    return random.sample(some, len(some))


def test_the_budget_allows_what_the_enumerated_rule_allows() -> None:
    seen = Counter[bool]()
    for seed in range(400):
        random = Random(seed)
        e = {value: random.randint(1, 4) for value in random.sample(range(VALUES), random.randint(1, 6))}
        alpha = random.choice([2, 3])
        budget, rounds = Budget(policy(alpha), dict(e)), Counter[tuple[int, ...]]()
        for _ in range(random.randint(1, 5)):
            signature = tuple(sorted(random.sample(range(VALUES), random.randint(2, 6))))
            allowed = may_stand(e, rounds + Counter([signature]), 2, alpha)
            assert budget.may_add(signature) == allowed
            seen[allowed] += 1
            if allowed or random.random() < 0.2:
                budget.add(signature)
                rounds[signature] += 1
            assert budget.holds() == may_stand(e, rounds, 2, alpha)
    assert min(seen.values()) > 100


def test_planned_rounds_are_within_the_budget_and_leave_mixed_stars() -> None:
    shown = 0
    for seed in range(100):
        random = Random(seed)
        e = Counter(random.choices(range(VALUES), [1 / (1 + rank) for rank in range(VALUES)], k=8))
        waiting = e + Counter(random.choices(range(VALUES), k=random.choice([0, 8])))
        budget = Budget(policy(), dict(e))
        rounds = budget.plan(waiting, partial(_shuffled, random))
        used = Counter(leaf for signature in rounds for leaf in signature)
        assert used <= waiting
        assert all(len(set(signature)) >= 4 for signature in rounds)
        assert may_stand(e, Counter(rounds), 2, 2)
        left = waiting - used
        assert not rounds or max(left.values(), default=0) * 2 <= sum(left.values())
        shown += sum(used.values())
    assert shown > 300


def test_somebody_who_knows_one_person_leaves_less_room() -> None:
    e = dict.fromkeys(range(4), 1)
    assert Budget(policy(), e).may_add((0, 1, 2, 3))
    assert not Budget(policy(), e, insiders=1).may_add((0, 1, 2, 3)), "their row in e is missing for the others"
