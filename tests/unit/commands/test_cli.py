"""The command line itself: exit codes, one sentence for whatever goes wrong, and nothing slow before it is needed."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from shoal.streams import cli
from shoal.streams.cli import COMMANDS, main
from shoal.streams.demo.clinic import Clinic, write_clinic
from shoal.streams.errors import GuaranteeError, InputError, ServiceError
from tests.support.commands import start_shoal
from tests.support.root import ROOT


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("SHOAL_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def failing_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Makes `shoal worker` fail with this error."""

    @click.command()
    def command() -> None:
        raise error

    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: cli._with_debug(command))


def test_help_is_quick_because_it_imports_nothing_heavy() -> None:
    heavy = ["numpy", "aiokafka", "faust", "redis", "pydantic", "rich.table", "yaml", "msgpack", "shoal.core"]
    script = "import sys; from shoal.streams.cli import main; assert main(['--help']) == 0; "
    script += f"print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert result.stdout.splitlines()[-1] == "[]"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    for name, summary in COMMANDS.items():
        assert name in listed
        assert summary.split()[0] in listed


@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"],
        ["replay"],
        ["replay", "--nonsense"],
        ["replay", "policy", "events"],
        ["replay", "policy", "events", "--out"],
        ["policy", "schema", "nonsense"],
        ["policy", "check"],
        ["produce", "--format", "xml", "policy", "file"],
        ["release", "--at", "yesterday"],
        ["--nonsense"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(args: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("shoal: ")
    assert output.err.count("\n") == 1
    assert output.err.endswith(".\n")


def test_without_arguments_it_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "replay" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (GuaranteeError("the chain is broken"), 1, "shoal: the chain is broken.\n"),
        (InputError("that is no file."), 2, "shoal: that is no file.\n"),
        (ServiceError("Kafka is not there"), 3, "shoal: Kafka is not there.\n"),
        (InputError("a.yaml:1:1: one\na.yaml:2:1: two"), 2, "shoal: a.yaml:1:1: one\nshoal: a.yaml:2:1: two\n"),
        (PermissionError(errno.EACCES, "x", "/some/file"), 2, "shoal: /some/file: Permission denied.\n"),
        (OSError(errno.ENOSPC, "x"), 2, "shoal: no space left on the disk.\n"),
    ],
)
def test_every_error_has_its_sentence_and_code(
    error: Exception, code: int, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing_with(monkeypatch, error)
    assert main(["worker"]) == code
    assert capsys.readouterr().err == sentence


@pytest.mark.parametrize("args", [["worker"], ["--debug", "worker"], ["worker", "--debug"]], ids=" ".join)
def test_an_error_nobody_foresaw_shows_where_it_came_from_only_if_asked_and_its_content_never(
    args: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = ValueError("canary-7f3a")
    error.__cause__ = KeyError("canary-8c1d")
    failing_with(monkeypatch, error)
    assert main(args) == 1
    said = capsys.readouterr().err
    assert said.splitlines()[-1].startswith("shoal: this is a mistake in Shoal (ValueError)")
    assert ("Traceback" in said) == ("line " in said) == ("KeyError" in said) == ("--debug" in args)
    assert "canary" not in said


def test_an_interruption_is_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    failing_with(monkeypatch, KeyboardInterrupt())
    assert main(["worker"]) == 130
    assert capsys.readouterr().err == ""


def test_ctrl_c_in_the_middle_of_a_replay_is_silent_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    write_clinic(tmp_path / "clinic", Clinic(people=60, nights=1))
    arguments = ["replay", "clinic/policy.yaml", "-", "--out", "out"]
    process = start_shoal(*arguments, cwd=tmp_path, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write((tmp_path / "clinic" / "events.jsonl").read_bytes())
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not (tmp_path / "out" / "release-0001").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert json.loads((tmp_path / "out" / "release-0001" / "manifest.json").read_bytes())["release"] == 1


def test_a_reader_that_goes_away_is_no_error_message(tmp_path: Path) -> None:
    command = f"{sys.executable} -m shoal.streams.cli policy schema event | true; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert result.stderr == ""
    assert result.stdout.strip() in {"141", "0"}, "0 if the pipe took it all before it was closed"


def test_settings_are_checked_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["release"]) == 2
    assert "SHOAL_POLICY is not set" in capsys.readouterr().err
    monkeypatch.setenv("SHOAL_KAFAK", "localhost:9092")
    assert main(["releases", "--policy", "policy.yaml"]) == 2
    assert "did you mean SHOAL_KAFKA?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [["produce", "clinic/policy.yaml", "clinic/events.jsonl"], ["release"], ["releases"]],
    ids=lambda args: args[0],
)
def test_without_kafka_it_is_one_sentence_and_exit_code_3(
    args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_clinic(tmp_path / "clinic", Clinic(people=10, nights=1))
    monkeypatch.setenv("SHOAL_POLICY", "clinic/policy.yaml")
    monkeypatch.setenv("SHOAL_KAFKA", "127.0.0.1:1")
    monkeypatch.setenv("SHOAL_CONNECT_S", "0.5")
    assert main(args) == 3
    said = capsys.readouterr().err
    assert said.startswith("shoal: Kafka cannot be reached at 127.0.0.1:1")
    assert said.count("\n") == 1


def test_policy_check_says_what_is_promised_and_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_clinic(tmp_path / "clinic", Clinic(people=60, nights=1))
    assert main(["policy", "check", "clinic/policy.yaml", "--sample", "clinic/events.jsonl"]) == 0
    output = capsys.readouterr()
    assert "every region is shared by at least 5 people" in output.out
    assert "only on request" in output.err


def test_policy_check_warns_of_a_value_that_groups_cannot_hide(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_clinic(tmp_path / "clinic", Clinic(people=60, nights=1))
    lines = (tmp_path / "clinic" / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) | {"sensitive": "stroke"} if '"insert"' in line else json.loads(line) for line in lines]
    (tmp_path / "sample.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    assert main(["policy", "check", "clinic/policy.yaml", "--sample", "sample.jsonl"]) == 0
    assert "stroke makes up 100.0% of the protected values" in capsys.readouterr().err


def test_policy_check_lists_every_mistake_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text(
        "table: t\nattributes: {age: {type: int, min: 9, max: 1}}\nprivacy: {k: 0, l: 2}\n"
    )
    assert main(["policy", "check", "bad.yaml"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) >= 3
    assert all(line.startswith("shoal: bad.yaml:") for line in said)


@pytest.mark.parametrize("what", ["policy", "event", "release"])
def test_schemas_are_json_schemas(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    from jsonschema import Draft202012Validator

    assert main(["policy", "schema", what]) == 0
    Draft202012Validator.check_schema(json.loads(capsys.readouterr().out))


def test_released_records_and_demo_events_fit_the_schemas(tmp_path: Path) -> None:
    from jsonschema import Draft202012Validator

    from shoal.core.schema import event_schema, release_schema

    write_clinic(tmp_path / "clinic", Clinic(people=60, nights=2))
    assert main(["replay", "clinic/policy.yaml", "clinic/events.jsonl", "--out", "out"]) == 0
    events, records = Draft202012Validator(event_schema()), Draft202012Validator(release_schema())
    for line in (tmp_path / "clinic" / "events.jsonl").read_text().splitlines():
        events.validate(json.loads(line))
    for folder in (tmp_path / "out").glob("release-*"):
        for name in ("cells.jsonl", "groups.jsonl"):
            for line in (folder / name).read_text().splitlines():
                records.validate(json.loads(line))
        records.validate(json.loads((folder / "manifest.json").read_text()))
