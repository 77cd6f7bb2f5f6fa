"""What is no snapshot, or not of what was published, is refused in one sentence, taken or read."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.streams.errors import GuaranteeError, InputError, LostError
from shoal.streams.files.fresh_file import PRIVATE, fresh_file
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.settings import load_settings
from shoal.streams.snapshot import take as taking
from shoal.streams.snapshot.encrypted_file import EncryptedFile, EncryptedWriter
from shoal.streams.snapshot.restore import run_restore
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.records import pack, unpack
from shoal.streams.store.store import Store
from tests.support.services.snapshots import changed_policy, key_of, restore, take, with_and_without_shards
from tests.support.services.table import KEY, SHARDED, Make, Table

_SINCE = 4  # the place of the release of arrival in a person's record


def test_a_snapshot_that_is_none_or_of_something_else_is_refused_and_nothing_is_touched(
    kept: tuple[Table, Path], tmp_path: Path, make: Make
) -> None:
    table, path = kept
    content = path.read_bytes()
    damaged, cut, other = tmp_path / "damaged", tmp_path / "cut", tmp_path / "other"
    damaged.write_bytes(content[:-40] + b"\0" + content[-39:])
    cut.write_bytes(content[:-40])
    other.write_bytes(content.replace(b'"format": 1', b'"format": 2', 1))
    before = table.stored()
    full = table.run("restore", str(path))
    assert full.returncode == 2
    assert full.stderr.startswith(
        f"shoal: Redis already has a state of table {table.name}, and a snapshot is restored only"
    )
    assert table.stored() == before
    table.wipe()
    cases: list[tuple[Path, str, dict[str, Any]]] = [
        (damaged, "is damaged", {}),
        (cut, "is truncated", {}),
        (other, "in format 2, and this version of Shoal reads format 1", {}),
        (tmp_path / "nowhere", "cannot be read", {}),
        (table.policy_path, "is not a snapshot of Shoal", {}),
        (path, "written under another key", {"KEY": "another secret of the tests"}),
        (path, "made under another policy", {"POLICY": str(changed_policy(table, privacy={"k": 4, "l": 2}))}),
        (path, f"is a snapshot of table {table.name}", {"POLICY": str(changed_policy(table, table="other"))}),
    ]
    for file, said, settings in cases:
        with pytest.raises(InputError, match=said) as refused:
            run_restore(load_settings(table.environment(**settings)), file)
        assert "\n" not in str(refused.value)
    refusal = table.run("rebuild", "--snapshot", str(cut))
    assert refusal.returncode == 2
    assert refusal.stderr == f"shoal: {cut} is truncated: use another snapshot, or a whole copy of this one.\n"
    assert table.keys == []


@with_and_without_shards
@pytest.mark.parametrize("meanwhile", ["sealed", "frozen", "lost a record"])
def test_a_release_that_comes_while_a_snapshot_is_read_or_a_record_that_is_lost_is_noticed(
    kept: tuple[Table, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """What `shoal snapshot` waits for, and the policy's snapshots leave to the next release."""
    table, _ = kept
    name = "read_place" if meanwhile == "frozen" else "read_hashes"
    disturbed = getattr(taking, name)

    def disturb(*arguments: Any) -> Any:
        with table.connect() as client:
            if meanwhile == "sealed":
                client.hset(key_of(table, "meta"), "release", 2)
            elif meanwhile == "frozen":
                client.hset(key_of(table, "barrier"), "release", 2)
            else:
                people = next(client.scan_iter(match=key_of(table, "*people:*"), count=10_000))
                client.hdel(people, client.hkeys(people)[0])
        return disturbed(*arguments)

    monkeypatch.setattr(taking, name, disturb)
    with pytest.raises(LostError if meanwhile == "lost a record" else taking.UnsettledError):
        asyncio.run(_take(table, tmp_path / "new"))
    assert not list(tmp_path.glob("*new*"))


@pytest.mark.parametrize("kept", [SHARDED], ids=["shards"], indirect=True)
def test_a_redis_whose_records_are_not_those_that_were_published_from_gives_no_snapshot(
    kept: tuple[Table, Path], tmp_path: Path
) -> None:
    """As many as there should be, and one of them another one."""
    table, path = kept
    with table.connect() as client:
        people = next(client.scan_iter(match=key_of(table, "shard:1:people:*"), count=10_000))
        handle, packed = next(iter(client.hgetall(people).items()))
        assert client.hset(people, handle, _came_later(packed)) == 0
    with pytest.raises(GuaranteeError, match=r"does not have the state that release 1 of table .* was published from"):
        asyncio.run(_take(table, tmp_path / "new"))
    assert not list(tmp_path.glob("*new*"))
    refused = table.run("snapshot", str(tmp_path / "new"))
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    table.wipe()
    restore(table, path)
    take(table, tmp_path / "new")


def _people_of(shard: int) -> Callable[[Any], Any]:
    """What changes one person of a shard in the parts of a snapshot."""
    changed: list[str] = []

    def spoil(part: Any) -> Any:
        if changed or not isinstance(part, tuple) or part[0] != "people" or part[2] != shard:
            return part
        (handle, packed), *others = part[1]
        changed.append(handle)
        return part[0], [(handle, _came_later(packed)), *others], part[2]

    return spoil


def _came_later(packed: bytes) -> bytes:
    """The same person, since the release after."""
    person = list(unpack(packed))
    person[_SINCE] += 1
    return pack(person)


def _change_shards(place: int, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What changes the record of the shards in the head of a snapshot."""

    def spoil(head: Any) -> Any:
        if not isinstance(head, dict):
            return head
        shards = list(head["shards"])
        shards[place] = change(shards[place])
        return {**head, "shards": shards}

    return spoil


def _cut_elsewhere(cuts: bytes) -> bytes:
    node, *others = unpack(cuts)
    return pack([(*node[:2], node[2] + 1, *node[3:]), *others])


@pytest.mark.parametrize("kept", [SHARDED], ids=["shards"], indirect=True)
def test_a_snapshot_in_which_one_record_is_another_is_refused_though_whoever_wrote_it_had_the_key(
    kept: tuple[Table, Path], tmp_path: Path
) -> None:
    table, path = kept
    other = tmp_path / "other"
    table.wipe()
    later = _change_shards(0, lambda states: [pack([2, *unpack(states[0])[1:]]), *states[1:]])
    for spoil in (_people_of(0), _people_of(2), later, _change_shards(2, _cut_elsewhere)):
        assert _rewrite(path, other, spoil) == 1
        with pytest.raises(InputError, match=f"{other} does not have the records that release 1 was published from"):
            run_restore(load_settings(table.environment()), other)
        assert table.keys == []
    for command in (("restore", str(other)), ("rebuild", "--snapshot", str(other))):
        refused = table.run(*command)
        assert refused.returncode == 2, (command, refused.stderr)
        assert refused.stderr.count("\n") == 1, refused.stderr
        assert f"{other} does not have the records that release 1 was published from" in refused.stderr
    assert table.keys == []
    assert _rewrite(path, other, lambda part: part) == 0
    restore(table, other)


def _rewrite(path: Path, to: Path, spoil: Callable[[Any], Any]) -> int:
    """A snapshot again, under the same key, each of its parts as `spoil` makes it; returns how many are others now."""
    file = EncryptedFile(path)
    read = list(file.parts([KEY.encode()]))
    parts = [pack(spoil(unpack(part))) for part in read]
    with fresh_file(to, PRIVATE) as new:
        about = {name: value for name, value in file.cover.items() if name not in ("format", "key", "salt")}
        writer = EncryptedWriter(new, KEY.encode(), about)
        for part in parts[:-1]:
            writer.add(part)
        writer.finish(parts[-1])
    return sum(was != now for was, now in zip(read, parts, strict=True))


async def _take(table: Table, to: Path) -> None:
    store = Store(table.redis, table.name, make_cipher(None), shards=load_policy(table.policy_path).shards)
    try:
        await taking.take_snapshot(store, load_settings(table.environment()), to)
    finally:
        await store.close()
