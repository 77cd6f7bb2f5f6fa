"""The dump of a desk: without any service it finds what the desk found, and names the record that stops it."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from shoal.core.events.intake import Intake
from shoal.core.plan import Window
from shoal.core.randomness import KeyedByHandle
from shoal.core.shards.desk import gather, present
from shoal.core.shards.table import Table
from shoal.streams.files.policy_record import pack_policy
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.settings import Settings, load_settings
from shoal.streams.store.records import pack, unpack
from shoal.streams.worker import dumped_desk
from shoal.streams.worker.desk_dump import desk_parts
from shoal.streams.worker.dumped_desk import DeskHead, gather_dump
from tests.support.services.table import DISEASES, write_policy

KEY = "0123456789abcdef0123456789abcdef"


class Office:
    """A table of three shards after a release, and a window in which people move, change, come and go."""

    def __init__(self, folder: Path) -> None:
        attributes = {"age": {"type": "int", "min": 0, "max": 99}}
        path = write_policy(folder, "town", attributes=attributes, scale={"shards": 3})
        self.policies, self.policy = (pack_policy(path), ""), load_policy(path)
        self.settings: Settings = load_settings({"SHOAL_KEY": KEY}, folder / "no.env")
        self.table = Table.empty(self.policy, self.settings.key_bytes, KeyedByHandle)
        self.first = self._window([self._insert(number) for number in range(150)])
        self.table.apply(self.table.plan(Window(None, self.first, ()), 1))
        moved = [{"op": "update", "id": f"p{number}", "qid": {"age": 99 - number % 100}} for number in range(0, 150, 2)]
        gone = [{"op": "delete", "id": f"p{number}"} for number in range(1, 60, 6)]
        self.second = self._window([*moved, *gone, *(self._insert(number) for number in range(200, 230))])

    @staticmethod
    def _insert(number: int) -> dict[str, Any]:
        disease = DISEASES[number % len(DISEASES)]
        return {"op": "insert", "id": f"p{number}", "qid": {"age": number % 100}, "sensitive": [disease]}

    def _window(self, events: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
        table = self.table
        handle_of = table.states[0].keyed.handle
        intake = Intake(self.policy, table.roster(), held=table.holdings(), handle_of=handle_of)
        assert [intake.take(event) for event in events] == [None] * len(events)
        return {0: intake.cut()}

    def dumped(self, places: dict[str, list[tuple[int, int]]]) -> list[Any]:
        """The parts of the second release's dump, as they come out of a file."""
        assert self.table.cuts is not None
        head = DeskHead(2, 1, self.policies, pack(self.table.cuts.record()))
        residents = self.table._residents({*self.second[0]})
        return [unpack(pack(part)) for part in desk_parts(head, residents, self.second, self.table, places)]


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def test_a_dump_finds_what_the_desk_found(office: Office) -> None:
    residents = office.table._residents({*office.second[0]})
    found = gather(office.policy, office.table.cuts, 2, residents, office.second, office.table)
    signed = [entry for window in found.windows.values() for one in window.arrivals.values() for entry in one.entries]
    assert any(entry.signature for entry in signed), "somebody who moves takes a signature along"
    done = gather_dump(office.settings, "town", office.dumped({}))
    windows = [(shard, window.pack()) for shard, window in found.windows.items()]
    assert done.digest == sha256(pack((windows, found.misrouted))).hexdigest()
    assert (done.desk, done.release, done.people, done.error) == (1, 2, len(office.second[0]), None)


def test_a_dump_without_histories_is_not_taken_for_the_desk_s(office: Office) -> None:
    parts = [part for part in office.dumped({}) if part[0] != dumped_desk.VALUES]
    assert gather_dump(office.settings, "town", parts).error == "KeyError"


@pytest.mark.parametrize("turn", [0, 40, 74])
def test_the_record_that_stops_a_desk_is_named(office: Office, monkeypatch: pytest.MonkeyPatch, turn: int) -> None:
    poison = sorted(office.second[0])[turn]

    def frail(*arguments: Any) -> Any:
        if poison in arguments[4][0]:
            raise OverflowError("poison")
        return gather(*arguments)

    monkeypatch.setattr(dumped_desk, "gather", frail)
    places = {handle: [(2, 7 * at), (2, 7 * at + 1)] for at, handle in enumerate(sorted(office.second[0]))}
    done = gather_dump(office.settings, "town", office.dumped(places))
    assert done.error == "OverflowError"
    assert done.culprit is not None
    assert (done.culprit.topic, done.culprit.partition) == ("events", 2)
    assert done.culprit.offsets == [7 * turn, 7 * turn + 1]


def test_a_desk_that_fails_without_anybody_names_no_record(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise OverflowError("poison")

    monkeypatch.setattr(dumped_desk, "gather", broken)
    done = gather_dump(office.settings, "town", office.dumped({}))
    assert (done.error, done.culprit, done.digest) == ("OverflowError", None, None)


def test_the_making_of_the_cuts_is_repeated_from_a_dump(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    head, empty = DeskHead(1, 0, office.policies, None), Table.empty(office.policy, b"key", KeyedByHandle)
    places = {handle: [(0, at)] for at, handle in enumerate(sorted(office.first[0]))}
    parts = [unpack(pack(part)) for part in desk_parts(head, {}, office.first, empty, places)]
    assert office.table.cuts is not None
    assert gather_dump(office.settings, "town", parts).digest == sha256(pack(office.table.cuts.record())).hexdigest()
    poison = sorted(office.first[0])[33]

    def frail(*arguments: Any) -> Any:
        if poison in arguments[3][0]:
            raise OverflowError("poison")
        return present(*arguments)

    monkeypatch.setattr(dumped_desk, "present", frail)
    found = gather_dump(office.settings, "town", parts)
    assert found.culprit is not None
    assert found.culprit.offsets == [33]
