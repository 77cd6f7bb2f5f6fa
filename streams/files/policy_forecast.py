"""What a lasting policy will cost on a sample, and what the sample suggests to write into it.

The cost is not estimated: the engine itself plans the sample's releases, without the guards of its people, and nothing
of that is kept but counts. Suggestions are for the author of a policy to judge. A sample can show that nobody lost a
value in it, not that nobody ever will.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from shoal.core.audit.reading.truth import Record
from shoal.core.events.window import GONE, PUT, Delta
from shoal.core.plan import Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.shards.table import Table
from shoal.core.signatures.reasons import error_of_totals, hidden_by_reason
from shoal.core.state import State

RELEASES: Final = 20  # as many of the sample's releases are planned
EXPECTED: Final = 3.0  # a value that nobody lost may be permanent if so many losses were to be expected of any other
LISTED: Final = 8
COUNTED: Final = 20  # holders of a value whose total is compared with what a release says
REASONS: Final = {
    "full": "no further value of theirs could be shown safely",
    "second": "no new group of their signature came together",
    "unfit": "their value is too frequent, or fitted no group",
    "company": "they keep those company",
    "waiting": "they wait for company",
    "blank": "their only value is shown for a clique",
}
SECRET: Final = b"policy check"  # whatever it is, the shares are about the same


class Forecast:
    """Sees the sample's tables in order, and plans a release of each."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._table = State.empty(policy, SECRET) if policy.shards == 1 else Table.empty(policy, SECRET)
        self._before: dict[str, Record] = {}
        self._kept: Counter[int] = Counter()
        self._lost: Counter[int] = Counter()
        self.manifest: Mapping[str, Any] | None = None  # of the last release that was planned
        self.records: Sequence[bytes] = ()  # of that release; of a table of several shards they are not kept

    def see(self, table: Mapping[str, Record]) -> None:
        """Takes the table of the next release."""
        for person, record in self._before.items():
            now = table.get(person)
            if now is not None:
                self._kept.update(record.values & now.values)
                self._lost.update(record.values - now.values)
        if self._table.meta.release < RELEASES:
            self.manifest = json.loads(self._release(Window(None, {0: self._changes(table)})))
        self._before = dict(table)

    def _release(self, window: Window) -> bytes:
        table, number = self._table, self._table.meta.release + 1
        if isinstance(table, Table):
            made = table.plan(window, number)
            table.apply(made)
            return made.manifest
        planned = plan(table, window, self._policy, number)
        table.apply(planned.change)
        self.records = planned.release.records
        return planned.release.manifest

    def _changes(self, table: Mapping[str, Record]) -> dict[str, Delta]:
        before = self._before
        window: dict[str, Delta] = {
            person: (PUT, record.qid, tuple(sorted(record.values)), None, None)
            for person, record in table.items()
            if before.get(person) != record
        }
        return window | {person: (GONE, None, None, None, None) for person in before if person not in table}

    def cost(self) -> str | None:
        """The shares of the last release that was planned, as a sentence; None if there are no rows."""
        made = self.manifest
        if made is None or not made["rows"]:
            return None
        present = made["people"] + made["withheld"] + made["unsampled"]
        return (
            f"at release {made['release']} of the sample {made['suppressed'] / made['rows']:.1%} of the values are *, "
            f"{made['waiting'] / made['rows']:.1%} because they wait for company, and "
            f"{made['withheld'] / present:.1%} of the people are withheld"
        )

    def reasons(self) -> str | None:
        """Why values are `*` in the last release that was planned, as shares of all; None if none is."""
        made = self.manifest
        if made is None or not made["suppressed"]:
            return None
        found = hidden_by_reason(self._states, made["waiting"])
        listed = sorted((count, reason) for reason, count in found.items() if count)
        return "; ".join(f"{count / made['rows']:.1%}: {REASONS[reason]}" for count, reason in reversed(listed))

    def totals(self) -> str | None:
        """How far the totals of values are off in that release; None if no protected value has holders enough."""
        held = Counter(leaf for record in self._before.values() for leaf in record.values)
        error = error_of_totals(self._states, held, COUNTED) if self._table.meta.release < RELEASES else None
        if error is None:
            return None
        return f"of the values that {COUNTED} people or more hold, half have a total that is off by {error:.1%} or less"

    @property
    def _states(self) -> Sequence[State]:
        return self._table.states if isinstance(self._table, Table) else [self._table]

    def never_lost(self) -> list[int]:
        """Protected values that nobody who stayed lost, though others were lost as often as that, most kept first."""
        spared = self._policy.sensitive.open | self._policy.sensitive.permanent | self._lost.keys()
        rate = self._lost.total() / max(1, self._lost.total() + self._kept.total())
        return [leaf for leaf, kept in self._kept.most_common() if kept * rate >= EXPECTED and leaf not in spared]


def suggestions(policy: Policy, forecast: Forecast, counts: Counter[int]) -> Iterator[str]:
    """Yields keys of the policy that the sample speaks for; `counts` are the transient values of its last table."""
    leaves, total, l = policy.sensitive.hierarchy.leaves, counts.total(), policy.l
    least, held = math.ceil(2 * l), len(counts)
    if total and held >= least:
        leaf, most = counts.most_common(1)[0]
        best = max(least, min(total // most, held, 2 * least))
        share = f"the most frequent protected value, {leaves[leaf]}, is {most / total:.1%} of them"
        if best > policy.signature:
            yield f"signature: up to {best}, to say less about each value; that many come out even: {share}"
        elif best < policy.signature:
            yield f"signature: {best}, for fewer * than with {policy.signature}: {share}"
    found = [leaves[leaf] for leaf in forecast.never_lost()]
    if found:
        more = f" and {len(found) - LISTED:,} more" if len(found) > LISTED else ""
        yield (
            f"permanent: [{', '.join(found[:LISTED])}]{more}, if they are never lost in truth: in the sample nobody "
            "who stayed lost one, though other values were lost"
        )
