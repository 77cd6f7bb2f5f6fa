"""Secrets and private files: no secret on a command line, no write through a link, no looser mode kept."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from shoal.streams.cli import main
from shoal.streams.errors import InputError
from shoal.streams.files.fresh_file import PRIVATE, open_private, write_fresh
from tests.support.root import ROOT

POLICY, EVENTS = ROOT / "examples" / "ward" / "policy.yaml", ROOT / "examples" / "ward" / "events.jsonl"


def _replay(out: Path, *more: str | Path) -> int:
    return main(["replay", str(POLICY), str(EVENTS), "--out", str(out), *map(str, more)])


def _files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def test_a_seed_from_a_file_is_the_same_secret_and_says_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = tmp_path / "seed"
    seed.write_text("a seed for two\n")
    assert _replay(tmp_path / "file", "--seed-file", seed) == 0
    assert "list of processes" not in capsys.readouterr().err
    assert _replay(tmp_path / "text", "--seed", "a seed for two") == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if "list of processes" in line]
    assert len(warned) == 1
    assert "a seed for two" not in warned[0]
    assert _files(tmp_path / "file") == _files(tmp_path / "text")


def test_a_seed_file_must_be_there_and_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for more in (("--seed-file", tmp_path / "none"), ("--seed-file", empty), ("--seed-file", empty, "--seed", "s")):
        assert _replay(tmp_path / "out", *more) == 2
        assert "--seed-file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_shoal_key_from_a_file_serves_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "key"
    key.write_text("a secret from a file")
    monkeypatch.setenv("SHOAL_KEY_FILE", str(key))
    assert _replay(tmp_path / "variable") == 0
    assert _replay(tmp_path / "option", "--seed-file", key) == 0
    assert _files(tmp_path / "variable") == _files(tmp_path / "option")


def test_a_private_file_replaces_a_link_and_a_looser_file(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_text("untouched")
    link.symlink_to(victim)
    write_fresh(link, b"private", PRIVATE)
    assert victim.read_text() == "untouched"
    assert not link.is_symlink()
    loose = tmp_path / "loose"
    loose.touch(0o666)
    loose.chmod(0o666)
    with loose.open("rb") as opened_before:
        write_fresh(loose, b"private", PRIVATE)
        assert opened_before.read() == b"", "who has the old file open does not see the new one"
    assert {stat.S_IMODE(path.stat().st_mode) for path in (link, loose)} == {0o600}
    assert loose.read_bytes() == b"private"


def test_a_file_that_cannot_be_written_is_named_as_the_caller_named_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        write_fresh(tmp_path / "missing" / "file", b"")
    assert raised.value.filename == str(tmp_path / "missing" / "file")


def test_a_file_that_grows_is_not_opened_through_a_link_and_gets_its_mode_again(tmp_path: Path) -> None:
    victim, link, loose = tmp_path / "victim", tmp_path / "link", tmp_path / "loose"
    victim.write_text("untouched")
    link.symlink_to(victim)
    with pytest.raises(InputError, match="is a link"):
        open_private(link)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        open_private(tmp_path / "pipe")
    loose.write_text("before\n")
    loose.chmod(0o644)
    with open_private(loose) as file:
        file.write(b"after\n")
    assert stat.S_IMODE(loose.stat().st_mode) == 0o600
    assert (loose.read_text(), victim.read_text()) == ("before\nafter\n", "untouched")


def test_replay_writes_nothing_private_through_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim, private, state = tmp_path / "victim", tmp_path / "private", tmp_path / "state"
    victim.write_text("untouched")
    private.mkdir()
    (private / "release-0001.members.jsonl").symlink_to(victim)
    private.joinpath("release-0001.cohorts.json").touch(0o666)
    assert _replay(tmp_path / "out", "--audit", private, "--state", state) == 0
    modes = {stat.S_IMODE(path.stat(follow_symlinks=False).st_mode) for path in (*private.iterdir(), state)}
    assert modes == {0o600}
    (tmp_path / "out.rejects.jsonl").unlink()
    (tmp_path / "out.rejects.jsonl").symlink_to(victim)
    assert _replay(tmp_path / "out", "--audit", private, "--state", state) == 2
    assert "is a link" in capsys.readouterr().err
    assert victim.read_text() == "untouched"


def test_what_others_published_is_written_through_no_link_and_into_a_pipe(tmp_path: Path) -> None:
    assert _replay(tmp_path / "theirs") == 0
    victim, link, pipe = tmp_path / "victim", tmp_path / "link", tmp_path / "pipe"
    victim.write_text("untouched")
    link.symlink_to(victim)
    command = ["produce", str(POLICY), "--external", str(tmp_path / "theirs"), "--publisher", "theirs", "--to"]
    assert main([*command, str(link)]) == 0
    assert victim.read_text() == "untouched"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        assert main([*command, str(pipe)]) == 0
        assert reader.communicate(timeout=20)[0] == link.read_bytes()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
