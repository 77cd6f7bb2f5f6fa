"""Runs a series of releases from true tables, without events: for tests of the engine alone."""

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

from shoal.core.events.event import Reject
from shoal.core.events.guard import read_guard
from shoal.core.events.window import GONE, PUT, Delta
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.state import State
from tests.support.judges.series import Rules, Table

DISEASES = ("flu", "cold", "asthma", "gastritis", "hiv", "ulcer", "gout", "lupus")
KINDS = ("airways", "airways", "airways", "stomach", "infection", "stomach", "chronic", "chronic")
ZIPS = {"z11": "z1*", "z12": "z1*", "z13": "z1*", "z21": "z2*", "z22": "z2*"}


def clinic_policy(k: int = 2, l: int = 2, **privacy: Any) -> Policy:
    """A small table with an attribute of every kind.

    Takes `case_ids`, `open`, `permanent` and `flat` beside privacy's own keys.
    """
    case_ids, open_values = privacy.pop("case_ids", False), privacy.pop("open", ["flu", "cold"])
    permanent = privacy.pop("permanent", [])
    sensitive = {"values": list(DISEASES)} if privacy.pop("flat", False) else {"hierarchy": "disease.csv"}
    document = {
        "table": "clinic",
        "attributes": {
            "age": {"type": "int", "min": 0, "max": 99},
            "weight": {"type": "float", "min": 0.0, "max": 200.0},
            "sex": {"type": "category", "values": ["female", "male"]},
            "zip": {"type": "category", "hierarchy": "zip.csv"},
        },
        "sensitive": {"name": "disease", "open": open_values, "permanent": permanent, **sensitive},
        "privacy": {"values": "redrawn", "k": k, "l": l, **privacy},
        "release": {"case_ids": case_ids},
    }
    zips = "".join(f"{leaf};{parent};*\n" for leaf, parent in ZIPS.items())
    diseases = "".join(f"{leaf};{parent};*\n" for leaf, parent in zip(DISEASES, KINDS, strict=True))
    return build_policy(document, {"zip.csv": zips.encode(), "disease.csv": diseases.encode()}, b"clinic")


def clinic_rules(policy: Policy) -> Rules:
    def leaves(hierarchy: Any) -> dict[str, frozenset[str]]:
        return {
            label: frozenset(hierarchy.leaves[hierarchy.first[node] : hierarchy.last[node]])
            for node, label in enumerate(hierarchy.labels)
        }

    sensitive = policy.sensitive
    return Rules(
        k=policy.k,
        l=int(policy.l),
        sensitive=leaves(sensitive.hierarchy),
        open=frozenset(sensitive.hierarchy.leaves[code] for code in sensitive.open),
        permanent=frozenset(sensitive.hierarchy.leaves[code] for code in sensitive.permanent),
        attributes={a.name: leaves(a.hierarchy) if a.hierarchy else None for a in policy.attributes},
    )


def encode(policy: Policy, qid: Mapping[str, Any], values: frozenset[str], guard: Any = None) -> Delta:
    codes = tuple(
        attribute.hierarchy.leaf_code[qid[attribute.name]] if attribute.hierarchy else qid[attribute.name]
        for attribute in policy.attributes
    )
    wish = read_guard({"node": None} if guard is None else guard if guard == "" else named(*guard), policy)
    assert not isinstance(wish, Reject)
    return PUT, codes, tuple(sorted(policy.sensitive.hierarchy.leaf_code[value] for value in values)), None, wish


def named(node: str, bound: float | None) -> dict[str, Any]:
    return {"node": node} if bound is None else {"node": node, "bound": bound}


def window_between(policy: Policy, before: Table, after: Table) -> Window:
    """The window that turns one table into another."""
    deltas = {person: encode(policy, *record) for person, record in after.items() if before.get(person) != record}
    deltas |= {person: (GONE, None, None, None, None) for person in before if person not in after}
    return Window(None, {0: deltas})


def run_series(policy: Policy, tables: list[Table], key: bytes = b"test") -> Iterator[tuple[State, Plan, Table]]:
    """Plan and apply a release for each table in turn; yields the state after, the plan and the table."""
    state = State.empty(policy, key)
    before: Table = {}
    for number, table in enumerate(tables, 1):
        made = plan(state, window_between(policy, before, table), policy, number)
        state.apply(made.change)
        state.check_invariants()
        yield state, made, table
        before = table


def one_disease(rng: Random) -> list[str]:
    return [rng.choice(DISEASES)]


def crowd(
    count: int, seed: int, name: str = "p", diseases: Callable[[Random], list[str]] = one_disease
) -> dict[str, Any]:
    """People of the clinic's policy, called `name` and a number; the same ones for the same seed."""
    rng = Random(seed)
    return {
        f"{name}{i}": (
            {
                "age": rng.randrange(100),
                "weight": round(rng.uniform(0, 200), 1),
                "sex": rng.choice(["female", "male"]),
                "zip": rng.choice(list(ZIPS)),
            },
            frozenset(diseases(rng)),
        )
        for i in range(count)
    }


def churn(count: int, releases: int, name: str = "p") -> list[Table]:
    """Tables from one to the next of which a fifth of the people change everything about themselves."""
    tables: list[Table] = [crowd(count, 0, name)]
    for number in range(1, releases):
        fresh = crowd(count, number, name)
        last = tables[-1].items()
        tables.append({p: fresh[p] if (i + number) % 5 == 0 else record for i, (p, record) in enumerate(last)})
    return tables
