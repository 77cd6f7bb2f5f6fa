"""A panel: rows that say how things are in each period. The reader turns them into what happened between periods.

Each period is a state of the table. Who is in it and was not before has come; who was there and is not has left; who
differs has changed. A release follows each period and names the period's first moment. A row that is rejected says
nothing: its person stays as they were. The mapping may leave a person out of a period, and then they have left.

The rows of a person usually stand together in a file, whatever their period, so the reader holds all rows, as lines of
JSON, until it has read the last one: about 250 bytes for each.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

from shoal.core.events.event import Reason, Reject, is_before
from shoal.core.events.record import RecordReader
from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.files.formats.csv_file import CsvRow, read_rows
from shoal.streams.files.formats.csv_rows import RowRules, in_words
from shoal.streams.files.formats.format import Blocks, EventReader, Line, NamedBlocks
from shoal.streams.files.mapping.conversion import Withheld
from shoal.streams.files.mapping.mapping import TableMapping
from shoal.streams.files.mapping.period import Period, period_of_file, read_period

_OP: Final = "upsert"


_People = dict[str, tuple[int, str | None, bytes]]
"""The place and the event of each person."""


@dataclass
class _State:
    """The table in one period: the place and the event of each person, and whose row was rejected."""

    people: _People = field(default_factory=dict)
    unclear: set[str] = field(default_factory=set)
    refused: list[Line] = field(default_factory=list)


class Panel(EventReader):
    """Reads a panel from one CSV file or from several."""

    is_panel = True

    def __init__(self, policy: Policy, mapping: TableMapping) -> None:
        assert mapping.period is not None
        self._mapping, self._column = mapping, mapping.period.column
        self._rules, self._reader = RowRules(mapping), RecordReader(policy)
        self._has_age = any(rule.convert == "age" for rule in mapping.attributes)
        self._states: dict[Period, _State] = {}
        self._form: str | None = None
        self._several = False

    def read(self, blocks: Blocks) -> Iterator[Line]:
        """Yields the events of a panel in one file, which has a column for the period."""
        return self.read_files([NamedBlocks("", blocks)])

    def read_files(self, files: Sequence[NamedBlocks]) -> Iterator[Line]:
        """Yields what happened from period to period. Raises `InputError` if the periods cannot be put in order."""
        self._states, self._form, self._several, self.left_out = {}, None, len(files) > 1, 0
        wanted = [*self._rules.columns, *filter(None, [self._column])]
        unplaced: list[Line] = []
        for file in files:
            period = None if self._column else self._period_of(file.name)
            for row in read_rows(file.blocks, self._mapping.file.delimiter, wanted):
                wrong = self._take(row, period, file.name if self._several else None)
                if wrong is not None:
                    unplaced.append(wrong)
        yield from unplaced
        yield from self._differences()

    def _period_of(self, name: str) -> Period:
        found = period_of_file(name)
        if found is None or not self._fits(found):
            raise InputError(
                f"the name of {name} says no period, or one of another form than the files before it: name each file "
                "after its year, its date or the number of its wave, such as people-2019.csv."
            )
        return found

    def _fits(self, period: Period) -> bool:
        self._form = self._form or period.form
        return period.form == self._form

    def _take(self, row: CsvRow, period: Period | None, file: str | None) -> Line | None:
        """Puts a row into its period; a refusal if it has none."""
        if row.fields is None:
            uneven = Reject(Reason.MISSING_FIELD)
            return Line(row.number, None, "it does not have as many fields as the header", reject=uneven, file=file)
        if period is None:
            period = read_period(row.fields[-1] or "")
            if period is None or not self._fits(period):
                wrong = Reject(Reason.BAD_TIME, _OP, "period")
                return Line(row.number, None, in_words(wrong), reject=wrong, file=file)
        state = self._states.setdefault(period, _State())
        columns = self._rules.row(row.fields)
        person = self._rules.person(columns)
        if isinstance(person, str) and (person in state.people or person in state.unclear):
            found: dict[str, Any] | Reject | Withheld = Reject(Reason.ALREADY_PRESENT, _OP, "id")
        elif isinstance(person, str):
            found = self._judge(columns, self._day_of(period))
            if isinstance(found, Reject):
                state.unclear.add(person)
        else:
            found = person
        if isinstance(found, Reject):
            reject = found._replace(op=_OP)
            state.refused.append(Line(row.number, None, in_words(reject), reject=reject, file=file))
        elif isinstance(found, Withheld):
            self.left_out += 1
        else:
            event = {"op": _OP, "id": person, **found}
            state.people[str(person)] = row.number, file, json.dumps(event).encode()
        return None

    def _day_of(self, period: Period) -> date:
        day = self._mapping.file.day or period.day
        if day is None and self._has_age:
            raise InputError(
                f"period {period.text} is a number and names no day, which an age needs: write years or dates, or name "
                "one day for all with file.day in the mapping."
            )
        return day or date.min

    def _judge(self, row: dict[str, str | None], day: date) -> dict[str, Any] | Reject | Withheld:
        """A row's record, judged under the policy: only then is it known whether it says how things are."""
        found = self._rules.record(row, day)
        if not isinstance(found, dict):
            return found
        qid = self._reader.read_qid(found["qid"])
        if isinstance(qid, Reject):
            return qid
        values = self._reader.read_values(found.get("sensitive"))
        return values if isinstance(values, Reject) else found

    def _differences(self) -> Iterator[Line]:
        before: _People = {}
        for period, state in sorted(self._states.items(), key=lambda one: one[0].order):
            for person in state.unclear & before.keys():
                state.people[person] = before[person]
            is_done = self.after is not None and period.at is not None and not is_before(self.after, period.at)
            if not is_done:
                yield from self._events(period, before, state)
            before = state.people
            state.refused.clear()

    def _events(self, period: Period, before: _People, state: _State) -> Iterator[Line]:
        yield from state.refused
        last: tuple[int, str | None] = (1, None)
        for person, (number, file, _) in before.items():
            if person not in state.people:
                yield Line(number, {"op": "delete", "id": person}, file=file)
        for person, (number, file, event) in state.people.items():
            last = number, file
            known = before.get(person)
            if known is None or known[2] != event:
                yield Line(number, json.loads(event), raw=event, file=file)
        number, file = last
        request = {"op": "release"} if period.at is None else {"op": "release", "at": period.at}
        yield Line(number, request, file=file)
