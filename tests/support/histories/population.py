"""People who come, go, return, move, fall ill for good and cease to exist: random events, and the truth of them."""

import random
from collections.abc import Iterator
from typing import Any

from shoal.core.cohort.clique import WHOLE
from shoal.core.events.intake import Intake
from shoal.core.overlap.external import External, parse_external
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.state import RECORDS, State
from tests.support.engines.series import ZIPS


class Population:
    """A small world under random events. `table` is who is present, `held` who holds what for good."""

    def __init__(self, rng: random.Random, values: tuple[str, ...], permanent: tuple[str, ...]) -> None:
        self._rng, self._values, self._permanent = rng, values, permanent
        self.table: dict[str, tuple[dict[str, Any], frozenset[str], Any]] = {}
        self._guards: dict[str, Any] = {}
        self.absent: dict[str, dict[str, Any]] = {}
        self.dead: set[str] = set()
        self.erased: set[str] = set()
        self.held: dict[str, frozenset[str]] = {}
        self._count = 0

    @property
    def registered(self) -> set[str]:
        return {*self.table, *self.absent}

    def arrive(self, count: int) -> Iterator[dict[str, Any]]:
        for _ in range(count):
            yield self.insert()

    def register(self, count: int) -> Iterator[dict[str, Any]]:
        for _ in range(count):
            self._count += 1
            person, qid = f"p{self._count}", self._qid()
            self.absent[person] = qid
            yield {"op": "register", "id": person, "qid": qid}

    def churn(self, count: int, ill: float = 0.1, kinds: str = "iirrddduummxwe") -> Iterator[dict[str, Any]]:
        """So many random events: people come, return, leave, fall ill, move, die, move while they are away, or are
        erased, of whom some come back.
        """
        for _ in range(count):
            kind = self._rng.choice(kinds)
            if kind == "r" and self.absent:
                yield self.insert(self._rng.choice(sorted(self.absent)))
            elif kind == "x" and self.absent:
                person = self._rng.choice(sorted(self.absent))
                del self.absent[person]
                self.dead.add(person)
                yield {"op": "deregister", "id": person}
            elif kind == "w" and self.absent:
                person = self._rng.choice(sorted(self.absent))
                self.absent[person] = self._qid()
                yield {"op": "register", "id": person, "qid": self.absent[person]}
            elif kind == "e" and self.erased and self._rng.random() < 0.5:
                yield self.insert(self._rng.choice(sorted(self.erased)))
            elif kind == "e":
                yield self._erase(self._rng.choice(sorted({*self.table, *self.absent, *self.dead, *self.erased})))
            elif kind in "dum" and self.table:
                yield self._change(kind, self._rng.choice(sorted(self.table)), ill)
            else:
                yield self.insert()

    def insert(self, person: str | None = None) -> dict[str, Any]:
        """Somebody new, or back, who may be silent about what they hold."""
        if person is None:
            self._count += 1
            person = f"p{self._count}"
        was = self.absent.pop(person, None)
        self.erased.discard(person)
        qid = self._qid() if was is None or self._rng.random() < 0.2 else was
        said, wish = self._draw(0.1), {}
        if self._rng.random() < 0.1:
            self._guards[person] = guard = self._rng.choice(["", ("*", None), ("hiv", 0.25), ("gout", None)])
            wish = {"guard": guard and {"node": guard[0], **({} if guard[1] is None else {"bound": guard[1]})}}
        self._put(person, qid, said)
        return {"op": "insert", "id": person, "qid": qid, "sensitive": sorted(said), **wish}

    def _erase(self, person: str) -> dict[str, Any]:
        """Everything is forgotten but what they hold for good, if they come back: this is for redrawn tables."""
        self.table.pop(person, None)
        self.absent.pop(person, None)
        self._guards.pop(person, None)
        if person not in self.dead:
            self.erased.add(person)
        return {"op": "erase", "id": person}

    def _change(self, kind: str, person: str, ill: float) -> dict[str, Any]:
        qid, values, _ = self.table[person]
        if kind == "d":
            del self.table[person]
            self.absent[person] = qid
            return {"op": "delete", "id": person}
        if kind == "m":
            self._put(person, self._qid(), values)
            return {"op": "update", "id": person, "qid": self.table[person][0]}
        said = self._draw(ill) | self.held.get(person, frozenset())
        self._put(person, qid, said)
        return {"op": "update", "id": person, "sensitive": sorted(said)}

    def _put(self, person: str, qid: dict[str, Any], said: frozenset[str]) -> None:
        values = said | self.held.get(person, frozenset())
        if values & set(self._permanent):
            self.held[person] = values & set(self._permanent)
        self.table[person] = (qid, values, self._guards.get(person))

    def _draw(self, ill: float) -> frozenset[str]:
        values = {self._rng.choice(self._values)}
        if self._rng.random() < ill:
            values.add(self._rng.choice(self._permanent))
            if self._rng.random() < 0.4:
                values.discard(self._rng.choice(sorted(values)))
        return frozenset(values or {self._values[0]})

    def _qid(self) -> dict[str, Any]:
        return {
            "age": self._rng.randrange(100),
            "weight": round(self._rng.uniform(0, 200), 1),
            "sex": self._rng.choice(["female", "male"]),
            "zip": self._rng.choice(list(ZIPS)),
        }


class Series:
    """Releases of a population's events."""

    def __init__(self, policy: Policy, key: bytes = b"test") -> None:
        self.policy, self.key = policy, key
        self.state = State.empty(policy, key)
        self.intake = Intake(policy, {})
        self.number = 0

    def release(self, events: Any, others: Any = ()) -> Plan:
        """The next release: of events about people, and of what other publishers have released."""
        read = [parse_external(event, self.policy) for event in others]
        externals = [group for each in read if isinstance(each, External) for group in each.groups]
        for event in events:
            refused = self.intake.take(event)
            assert refused is None, refused
        self.intake.check_invariants()
        self.number += 1
        made = plan(self.state, Window(None, {0: self.intake.cut()}, externals=externals), self.policy, self.number)
        self.state.apply(made.change)
        self.state.check_invariants()
        return made

    def restart(self, order: random.Random) -> None:
        """The state from its records, read back in any order."""
        state = self.state
        records = {name: list(state.records(name)) for name in RECORDS}
        for part in records.values():
            order.shuffle(part)
        self.state = State.load(self.policy, self.key, state.meta, **records)
        self.intake = Intake(self.policy, self.state.people.roster(), held=self.state.people.holdings())


def hidden_in(series: Series) -> list[tuple[str, ...]]:
    """The owners of each clique whose value the last release does not show."""
    return [clique.owners for _, clique in series.state.cohorts.living() if clique.mode != WHOLE]
