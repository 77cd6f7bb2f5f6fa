"""Bu's twenty rounds (section V): permanent values under K = 0, 1, 5 and `all`: what is suppressed, how long it takes,
how far queries are off, and who is found out.

The paper's table of drug reactions is not to be had, so one of its size and shape is generated: 105,420 reactions of
40,478 people, among them three permanent values with 15, 1 and 60 occurrences. A tenth of the reactions is there at
first; in every round 10 % of those change, 10 % go and a tenth of all come. The registration list is everyone: in every
round 1 % of it move, 0.2 % cease to exist and 0.35 % are new. The same rounds are published with l-diversity and with
m-invariance, m = l, and everything that was published is attacked in one way (`breach`).
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoal.core.events.window import ABSENT, DEREGISTERED, GONE, PUT, REGISTER, Delta
from shoal.core.measure.query import count_true, draw_queries, estimate, query_error, truth_of
from shoal.core.measure.release_reader import read_columns
from shoal.core.plan import Window, plan
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.state import State
from tests.experiments.baselines import LDiversity, MInvariance
from tests.experiments.breach import Breaches
from tests.experiments.rounds import ATTRIBUTES, Reactions
from tests.experiments.series import Figures, Record, Step, Table, Watcher, column, measure
from tests.experiments.sheet import Homes, sheet_of

PARTICIPATION = (0, 1, 5, "all")
PERMANENT = (15, 1, 60)  # occurrences


@dataclass(frozen=True)
class Round:
    """One round: who is present with what, the window that leads there, and who is registered where."""

    table: Table
    window: Mapping[str, Delta]
    homes: Homes


@dataclass(frozen=True)
class Clinic(Reactions):
    """The generator: the same rounds for the same parameters."""

    moved: float = 0.01
    extinct: float = 0.002
    born: float = 0.0035
    permanent: tuple[int, ...] = PERMANENT
    seed: int = 2008

    def policy_for(self, participation: object, l: int = 2, k: int = 5) -> Policy:
        labels = [f"r{rank}" for rank in range(1, self.kinds + 1)]
        lasting = [f"permanent-{count}" for count in self.permanent]
        document = {
            "table": "reactions",
            "attributes": ATTRIBUTES,
            "sensitive": {
                "name": "reaction",
                "values": [*labels, *lasting],
                "open": labels[: -self.sensitive],
                "permanent": lasting,
            },
            "privacy": {
                "values": "redrawn",
                "k": k,
                "l": l,
                "strategy": {"name": "adaptive", "releases": 5},
                "participation": participation,
            },
        }
        return build_policy(document, {}, repr((self, l, participation)).encode())

    def rounds_of(self) -> Iterator[Round]:
        random = np.random.default_rng(self.seed)
        qids = self._people(random)
        chances = np.arange(1, self.kinds + 1, dtype=np.float64) ** -self.exponent
        chances /= chances.sum()
        person = random.permutation(np.r_[np.arange(self.people), self._more(random)])
        value = random.choice(self.kinds, self.reactions, p=chances)
        lasting = random.choice(self.reactions, sum(self.permanent), replace=False)
        value[lasting] = self.kinds + np.repeat(np.arange(len(self.permanent)), self.permanent)
        alive = np.ones(self.people, dtype=bool)
        is_in = np.zeros(self.reactions, dtype=bool)
        held: dict[int, set[int]] = {}
        before: dict[str, Record] = {}
        for number in range(self.rounds):
            window: dict[str, Delta] = {}
            there = np.flatnonzero(is_in)
            if number == 0:
                window |= {f"p{who}": (REGISTER, qid, None, None, None) for who, qid in enumerate(qids)}
            else:
                changing = random.choice(there, len(there) // 10, replace=False)
                changing = changing[value[changing] < self.kinds]
                value[changing] = random.choice(self.kinds, len(changing), p=chances)
                is_in[random.choice(there, len(there) // 10, replace=False)] = False
                for who in random.choice(np.flatnonzero(alive), int(self.moved * len(qids)), replace=False).tolist():
                    qids[who] = qids[int(random.integers(len(qids)))]
                    window[f"p{who}"] = (REGISTER, qids[who], None, None, None)
                for who in random.choice(np.flatnonzero(alive), int(self.extinct * len(qids)), replace=False).tolist():
                    alive[who] = False
                    window[f"p{who}"] = (DEREGISTERED, None, None, None, None)
                for _ in range(int(self.born * self.people)):
                    qids.append(qids[int(random.integers(len(qids)))])
                    window[f"p{len(qids) - 1}"] = (REGISTER, qids[-1], None, None, None)
                alive = np.r_[alive, np.ones(len(qids) - len(alive), dtype=bool)]
            is_in[random.choice(self.reactions, self.reactions // 10, replace=False)] = True
            table = self._present(qids, person, value, is_in & alive[person], held)
            window |= {who: (PUT, *record, None, None) for who, record in table.items() if before.get(who) != record}
            for who in before:
                if who not in table:
                    window.setdefault(who, (GONE, None, None, None, None))
            yield Round(table, window, Homes(np.flatnonzero(alive), np.array(qids, dtype=np.int64)[alive]))
            before = table

    def _present(self, qids: Any, person: Any, value: Any, is_in: Any, held: dict[int, set[int]]) -> dict[str, Record]:
        found: dict[int, set[int]] = {}
        for who, what in zip(person[is_in].tolist(), value[is_in].tolist(), strict=True):
            found.setdefault(who, set()).add(what)
            if what >= self.kinds:
                held.setdefault(who, set()).add(what)
        return {f"p{who}": (qids[who], tuple(sorted(mine | held.get(who, set())))) for who, mine in found.items()}


def experiment(watch: Watcher, *, quick: bool = False) -> Figures:
    """Every round for every kind of participation knowledge."""
    clinic = Clinic()
    if quick:
        clinic = replace(clinic, people=3_000, reactions=8_000, kinds=400, sensitive=40, rounds=4)
    rounds = list(clinic.rounds_of())
    queries = 50 if quick else 1_000
    runs = []
    for participation in PARTICIPATION:
        watch(f"participation {participation}")
        policy = clinic.policy_for(participation)
        found = list(_run(policy, rounds, queries))
        hidden = column(found, "permanent_suppressed").sum() / max(1.0, column(found, "permanent").sum())
        runs.append({"participation": str(participation), "suppressed_share": float(hidden), "rounds": found})
    policy = clinic.policy_for(0)
    baselines = []
    for name, publisher in (("l-diversity", LDiversity(policy)), ("m-invariance", MInvariance(policy))):
        watch(name)
        baselines.append({"publisher": name, "rounds": list(_compare(policy, publisher, rounds, queries))})
    return {"clinic": {**vars(clinic), "permanent": list(clinic.permanent)}, "runs": runs, "baselines": baselines}


def _run(policy: Policy, rounds: list[Round], queries: int) -> Iterator[Figures]:
    state = State.empty(policy, b"experiment")
    asked, breaches = draw_queries(policy, count=queries), Breaches(policy)
    lasting = policy.sensitive.permanent
    labels = [policy.sensitive.hierarchy.leaves[leaf] for leaf in lasting]
    for number, one in enumerate(rounds, start=1):
        begun = time.process_time()
        made = plan(state, Window(None, {0: one.window}), policy, number)
        plan_s = time.process_time() - begun
        state.apply(made.change)
        assert np.all(state.people.status[state.people.group >= 0] != ABSENT)
        holders = sum(len(lasting.intersection(record[1])) for record in one.table.values())
        groups = [json.loads(record)["sensitive"] for record in made.release.groups]
        shown = sum(group.get(label, 0) for group in groups for label in labels)
        step = Step(number, one.table, made, read_columns(policy, made.release.records), plan_s)
        yield {
            **measure(step, asked),
            "counterfeits": step.manifest["counterfeits"],
            "permanent": holders,
            "permanent_shown": shown,
            "permanent_suppressed": holders - shown,
            "permanent_suppressed_share": (holders - shown) / max(1, holders),
            **breaches.see(number, one.table, one.homes, sheet_of(step)),
        }


def _compare(
    policy: Policy, publisher: LDiversity | MInvariance, rounds: list[Round], queries: int
) -> Iterator[Figures]:
    asked, breaches = draw_queries(policy, count=queries), Breaches(policy)
    for number, one in enumerate(rounds, start=1):
        begun = time.process_time()
        sheet = publisher.publish(one.table)
        plan_s = time.process_time() - begun
        truth = truth_of(policy, one.table.values())
        error = query_error(estimate(sheet.published, asked), count_true(truth, asked), len(truth.leaves))
        yield {
            "release": number,
            "groups": len(sheet.published.group_rows),
            "average_group": float(sheet.published.group_rows.mean()),
            "counterfeits": int(sheet.published.spare.sum()),
            "query_error": error.mean,
            "plan_s": plan_s,
            **breaches.see(number, one.table, one.homes, sheet),
        }
