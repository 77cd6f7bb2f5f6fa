"""Folders of releases that hold only what changed: every command reads them as it reads full ones."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

import shoal
from shoal.core.policy.policy import Policy
from shoal.streams.cli import main
from shoal.streams.files.formats.release_groups import read_groups
from shoal.streams.files.whole_releases import whole_releases
from tests.support.root import ROOT

WARD = ROOT / "examples" / "ward"
RELEASES = 7
KEY = "a secret of the tests"


class Desk(SimpleNamespace):
    """The ward's releases, in full and with deltas."""

    policy: Path
    deltas: Path
    full: Path
    events: Path
    private: Path

    def read(self) -> Policy:
        return shoal.load_policy(self.policy)


@pytest.fixture(scope="module", params=["policy", "redrawn", "shards"])
def desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    path = tmp_path_factory.mktemp(request.param)
    shutil.copy(WARD / "disease.csv", path)
    name = "redrawn" if request.param == "redrawn" else "policy"
    text = (WARD / f"{name}.yaml").read_text() + ("scale: {shards: 2}\n" if request.param == "shards" else "")
    events = path / "events.jsonl"
    lines = (WARD / "events.jsonl").read_text()
    later = [
        json.dumps({"op": "update", "id": json.loads(line)["id"], "sensitive": "gout"})
        for line in lines.splitlines()[5:9]
    ]
    events.write_text(lines + "".join(f'{line}\n{{"op": "release"}}\n' for line in later))
    for file, more in (("full.yaml", ""), ("policy.yaml", "release: {full_every: 3}\n")):
        (path / file).write_text(text + more)
    made = Desk(policy=path / "policy.yaml", deltas=path / "deltas", full=path / "full", events=events)
    made.private = path / "private"
    shoal.replay(shoal.load_policy(path / "full.yaml"), events, made.full, key=KEY)
    run = shoal.replay(made.read(), events, made.deltas, private=made.private, key=KEY)
    assert [one.records for one in run.releases] == [one.records for one in shoal.read_releases(made.full)]
    return made


def test_files_for_a_spreadsheet_are_there_where_a_release_is_full(desk: Desk) -> None:
    assert len(list(desk.deltas.glob("release-*"))) == RELEASES
    for folder in desk.deltas.glob("release-*"):
        is_full = all(part["full"] for part in json.loads((folder / "manifest.json").read_text())["shards"])
        names = {path.name for path in folder.iterdir()}
        assert names >= {"cells.jsonl", "groups.jsonl", "gone.jsonl", "manifest.json"}
        assert names >= {"rows.csv", "values.csv"} if is_full else not names & {"rows.csv", "values.csv"}
    sizes = {out: sum((one / "groups.jsonl").stat().st_size for one in out.iterdir() if one.is_dir()) for out in
             (desk.deltas, desk.full)}  # fmt: skip
    assert sizes[desk.deltas] < sizes[desk.full]


def test_python_reads_what_stands_after_any_release(desk: Desk) -> None:
    found = shoal.read_releases(desk.deltas)
    assert [one.records for one in found] == [one.records for one in shoal.read_releases(desk.full)]
    assert [shoal.read_release(desk.deltas, one.number) for one in found] == found
    assert found[-1].count(desk.read()).low == found[-1].manifest["people"]


@pytest.mark.parametrize("more", [[], ["--release", "5"]])
def test_an_export_is_that_of_full_releases(desk: Desk, tmp_path: Path, more: list[str]) -> None:
    for out in (desk.deltas, desk.full):
        assert main(["export", str(out), "--to", "csv", "--out", str(tmp_path / out.name), *more]) == 0
    for table in ("cells", "rows", "values", "releases"):
        ours, theirs = ((tmp_path / out.name / f"{table}.csv").read_bytes() for out in (desk.deltas, desk.full))
        assert ours == theirs


def test_the_audit_keeps_every_promise(desk: Desk) -> None:
    private = ["--audit", str(desk.private), "--events", str(desk.events)]
    for secrets in ([], private):
        assert main(["audit", str(desk.policy), str(desk.deltas), *secrets]) == 0


def test_a_report_and_what_others_take_from_the_folder_are_the_same(desk: Desk, tmp_path: Path) -> None:
    pages = []
    for out, policy in ((desk.deltas, desk.policy), (desk.full, desk.policy.with_name("full.yaml"))):
        to = tmp_path / out.name
        assert main(["report", str(policy), str(out), "--events", str(desk.events), "--out", str(to)]) == 0
        pages.append(json.loads((to / "report.json").read_text())["releases"])
    differ = {"previous", "policy", "content", "full_every", "shards", "time"}
    ours, theirs = ([{k: v for k, v in one.items() if k not in differ} for one in page] for page in pages)
    assert ours == theirs
    groups = [{json.dumps(group) for _, group in read_groups(desk.read(), out)} for out in (desk.deltas, desk.full)]
    assert groups[0] == groups[1]


def test_what_is_missing_is_one_sentence_and_exit_code_1(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(desk.deltas, out)
    shutil.rmtree(out / "release-0004")
    capsys.readouterr()
    assert main(["export", str(out), "--to", "csv", "--out", str(tmp_path / "csv"), "--release", "5"]) == 1
    said = capsys.readouterr().err
    assert "does not have release 4, which it needs" in said
    assert said.count("\n") == 1
    for command in (["export", str(out), "--to", "csv", "--out", str(tmp_path / "csv")],
                    ["report", str(desk.policy), str(out), "--out", str(tmp_path / "page")]):  # fmt: skip
        assert main(command) == 1
        assert "release 4 is missing" in capsys.readouterr().err
    assert main(["audit", str(desk.policy), str(out)]) == 1
    capsys.readouterr()
    assert not (tmp_path / "csv").exists()
    with pytest.raises(shoal.GuaranteeError, match="release 4"):
        shoal.read_release(out, 5)


def test_a_changed_record_of_an_earlier_release_is_found(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(desk.deltas, out)
    path = next(one for one in sorted(out.glob("release-*/groups.jsonl"))[3:] if one.stat().st_size)
    number = int(path.parent.name[-4:])
    path.write_bytes(re.sub(rb'"(vacant|counterfeits)":0', rb'"\1":1', path.read_bytes(), count=1))
    capsys.readouterr()
    assert main(["export", str(out), "--to", "csv", "--out", str(tmp_path / "csv")]) == 1
    said = capsys.readouterr().err
    assert f"after release {number} are not those that its manifest names" in said
    (out / "release-0002" / "gone.jsonl").unlink()
    assert main(["export", str(out), "--to", "csv", "--out", str(tmp_path / "csv")]) == 2
    assert "release-0002 has no gone.jsonl" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["policy", "redrawn"])
def test_full_every_may_change_and_new_labels_may_come_between_deltas(tmp_path: Path, model: str) -> None:
    """From plain releases to deltas, then new labels of both kinds, then plain ones again."""
    shutil.copy(WARD / "events.jsonl", tmp_path)
    text = (WARD / f"{model}.yaml").read_text()
    diseases, more = (WARD / "disease.csv").read_text(), "measles;*\n"
    wider = text.replace("[female, male]", "[female, male, other]").replace("disease.csv", "more.csv")
    (tmp_path / "disease.csv").write_text(diseases)
    (tmp_path / "more.csv").write_text(diseases + more)
    delta = "release: {full_every: 50}\n"
    outs = []
    for name, texts in (
        ("deltas", (text, text + delta, wider + delta, wider)),
        ("full", (text, text + "# the same\n", wider + "# the same\n", wider + "# again\n")),
    ):
        policies = [tmp_path / f"{name}-{turn}.yaml" for turn in range(4)]
        for path, document in zip(policies, texts, strict=True):
            path.write_text(document)
        changes = {2: 1, 3: 2, 6: 3} if name == "deltas" else {3: 2}
        events = tmp_path / "events.jsonl"
        events.write_text((WARD / "events.jsonl").read_text() + '{"op": "release"}\n' * 4)
        command = ["replay", str(policies[0]), str(events), "--out", str(tmp_path / name), "--seed", KEY]
        command += [part for at, turn in changes.items() for part in ("--change", f"{at}:{policies[turn]}")]
        assert main(command) == 0
        outs.append(list(whole_releases(tmp_path / name)))
    kinds = ["shards" in json.loads(one.manifest) for one in outs[0]]
    assert kinds == [False, True, True, True, True, False, False]
    assert not json.loads(outs[0][1].manifest)["shards"][0]["full"], (
        "the plain release before it is what it differs from"
    )
    assert [(one.cells, one.groups) for one in outs[0]] == [(one.cells, one.groups) for one in outs[1]]
    last = [tmp_path / f"deltas-{turn}.yaml" for turn in range(4)]
    earlier = [part for path in last[:-1] for part in ("--previous", str(path))]
    assert main(["audit", str(last[-1]), str(tmp_path / "deltas"), *earlier]) == 0
