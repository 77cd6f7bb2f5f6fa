"""A sharded table in memory beside the auditor, who is shown every release that it makes.

With the event "change" another policy takes over (`after`), in a release of its own.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.core.audit import Auditor, Stored, Truth
from shoal.core.audit.attack.small_table import Enumerated
from shoal.core.audit.reading.view import Line
from shoal.core.events.intake import Intake
from shoal.core.overlap.external import External, ExternalGroup, parse_external
from shoal.core.plan import Window
from shoal.core.policy.policy import Policy
from shoal.core.shards.table import Table, TablePlan
from tests.support.engines.audited import sentences

KEY = b"secret"


@dataclass
class Ward:
    """A sharded table, the auditor, and how much happened: people published in all, and moves between shards."""

    policy: Policy
    after: Policy | None = None
    table: Table = field(init=False)
    published: int = 0
    moves: int = 0
    made: list[TablePlan] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table, self._intake = Table.empty(self.policy, KEY), Intake(self.policy, {}, held={})
        last = self.after or self.policy
        self._auditor = Auditor(last, [] if self.after is None else [self.policy])
        self._truth = Truth(last, self.policy)
        self._externals: list[ExternalGroup] = []

    def live(self, events: Iterable[dict[str, Any]]) -> "Ward":
        """Takes events, all of which are right, with requests for releases among them."""
        for event in events:
            if event["op"] == "release":
                self._release()
                continue
            if event["op"] == "change":
                self._change()
                continue
            assert self._truth.take(json.dumps(event).encode()) is None
            if event["op"] == "external":
                read = parse_external(event, self.table.policy)
                assert isinstance(read, External)
                self._externals += read.groups
            else:
                assert self._intake.take(event) is None
        return self

    def findings(self) -> set[str]:
        """What the auditor has found."""
        assert self._truth.rejected == []
        return sentences(self._auditor.report(b"key"))

    @property
    def worlds(self) -> Enumerated | None:
        """All worlds of the table, if it is small enough for the auditor to count them."""
        report = self._auditor.report(b"key")
        assert report.private is not None
        return report.private.attacks.played.worlds

    def plan(self, window: Window, changed: Policy | None = None) -> TablePlan:
        return self.table.plan(window, self.table.meta.release + 1, changed)

    def _change(self) -> None:
        """Everything before it was judged by one policy, and everything after it is by the other."""
        assert self.after is not None
        self._release(self.after)
        self._intake = Intake(self.after, self.table.roster(), held=self.table.holdings())

    def _release(self, changed: Policy | None = None) -> None:
        window, self._externals = Window(None, {0: self._intake.cut()}, self._externals), []
        made = self.plan(window, changed)
        self.table.apply(made)
        self.table.check_invariants()
        self.made.append(made)
        self.published += json.loads(made.manifest)["people"]
        self.moves += sum(len(part.change.departed) for part in made.parts)
        self._truth.cut(made.meta.release)
        lines = [line for part in made.parts for line in part.members.lines()]
        self._auditor.see(_stored(made), _members(lines), self._truth, None, made.cohorts)
        self._truth.known = self._auditor.epochs.known


def _stored(made: TablePlan) -> Stored:
    """A release as it would lie in a folder."""
    files = (made.cells, made.groups, made.gone)
    cells, groups, gone = (b"".join([record + b"\n" for record in records]) for records in files)
    return Stored(made.meta.release, cells, groups, made.manifest, gone)


def _members(lines: Sequence[str]) -> list[Line]:
    read = map(json.loads, lines)
    return [Line(line["id"], line["group"], line["cell"], line["value"]) for line in read]
