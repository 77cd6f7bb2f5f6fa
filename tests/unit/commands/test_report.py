"""`shoal report`: the figures it finds, the page it writes, and what it refuses."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from shoal.core.audit.attack.chance import is_beyond_chance
from shoal.core.measure.release_reader import read_columns
from shoal.streams.cli import main
from shoal.streams.demo.clinic import Clinic, write_clinic
from shoal.streams.files.audit import read_members
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.release_folder import read_releases
from shoal.streams.report import series
from shoal.streams.report.metrics import METRICS
from shoal.streams.report.metrics.breach import Accounts
from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Picture, Reading, Tile, curve
from shoal.streams.report.panel import Line, Panel
from shoal.streams.report.svg import draw
from tests.support.redrawn_clinic import redraw


@dataclass
class Desk:
    """A clinic, its releases, and the private files."""

    path: Path
    capture: pytest.CaptureFixture[str]

    @property
    def policy(self) -> Path:
        return self.path / "clinic" / "policy.yaml"

    @property
    def events(self) -> Path:
        return self.path / "clinic" / "events.jsonl"

    def report(self, *args: object, out: str = "out", to: str = "report") -> int:
        return main(["report", str(self.policy), str(self.path / out), "--out", str(self.path / to), *map(str, args)])

    def figures(self, to: str = "report") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.path / to / "report.json").read_text())["releases"]
        return found

    def page(self, to: str = "report") -> str:
        return (self.path / to / "index.html").read_text()

    def error(self) -> str:
        return self.capture.readouterr().err


def make(path: Path, model: str) -> Path:
    """A clinic under a policy of this model, replayed."""
    write_clinic(path / "clinic", Clinic(people=300, nights=4))
    places = ["--out", str(path / "out"), "--audit", str(path / "private")]
    events, policy = path / "clinic" / "events.jsonl", path / "clinic" / "policy.yaml"
    if model == "redrawn":
        redraw(policy)
    assert main(["replay", str(policy), str(events), *places, "--seed", "s"]) == 0
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {model: make(tmp_path_factory.mktemp(model), model) for model in ("lasting", "redrawn")}


@pytest.fixture
def desk(made: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    shutil.copytree(made["lasting"], tmp_path, dirs_exist_ok=True)
    return Desk(tmp_path, capsys)


@pytest.fixture
def redrawn(made: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    shutil.copytree(made["redrawn"], tmp_path, dirs_exist_ok=True)
    return Desk(tmp_path, capsys)


class Page(HTMLParser):
    """Collects what matters of a page, and fails if tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.images: list[dict[str, str | None]] = []
        self.links: list[str | None] = []
        self.atlas: dict[str, Any] = {}
        self.cells: list[str] = []
        self.headings: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.links += [found[name] for name in ("src", "href") if name in found]
        if tag == "svg":
            self.images.append(found)
        if tag == "script" and found.get("id") == "atlas":
            self._open.append("atlas")
        elif tag not in ("meta", "path", "circle"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("path", "circle"):
            assert self._open.pop() in (tag, "atlas")

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("td", "th"):
            self.cells.append(data)
        if self._open and self._open[-1] in ("h1", "h2"):
            self.headings.append(data)
        if self._open and self._open[-1] == "atlas":
            self.atlas = json.loads(data)


def test_with_only_the_releases_it_shows_what_anyone_can_see(desk: Desk) -> None:
    assert desk.report() == 0
    assert [figures["release"] for figures in desk.figures()] == [1, 2, 3, 4]
    for figures, release in zip(desk.figures(), read_releases(desk.path / "out"), strict=True):
        manifest = json.loads(release.manifest)
        for name in (
            "people",
            "rows",
            "withheld",
            "groups",
            "carried",
            "suppressed",
            "generalized",
            "max_breach",
            "bound",
        ):
            assert figures[name] == manifest[name]
        for name in ("ncp", "discernibility", "average_group"):
            assert figures[name] == pytest.approx(manifest["loss"][name])
        assert "query_error" not in figures
        assert "breach_most" not in figures
    assert "query error" not in desk.page()


def test_with_the_private_files_it_adds_how_much_people_of_a_redrawn_table_have_spent(redrawn: Desk) -> None:
    private = redrawn.path / "private"
    assert redrawn.report("--events", redrawn.events, "--audit", private, "--queries", 20) == 0
    for figures in redrawn.figures():
        assert 0 <= figures["breach_median"] <= figures["breach_most"] <= figures["max_breach"] + 1e-12


def test_with_the_private_files_it_adds_the_error_of_queries(desk: Desk) -> None:
    assert desk.report("--events", desk.events, "--audit", desk.path / "private", "--queries", 100) == 0
    for figures in desk.figures():
        assert 0 < figures["query_error_median"] <= figures["query_error_most"] < 3
        assert "breach_median" not in figures
        assert 0 <= figures["vacant_share"] < 0.2
        assert "surplus_share" not in figures
    assert desk.figures()[-1]["vacant"] > 0, "somebody left"
    assert "query error" in desk.page()


def test_the_page_needs_nothing_else_and_can_be_read_without_seeing(desk: Desk) -> None:
    assert desk.report("--events", desk.events, "--audit", desk.path / "private", "--queries", 50) == 0
    page = Page(desk.page())
    assert page.headings[0] == "Releases of clinic"
    assert page.links == ["#main"]
    assert len(page.images) == 9
    assert all("from" in str(image["aria-label"]) for image in page.images)
    assert sum("over the releases" in str(image["aria-label"]) for image in page.images) == 8
    assert f"{desk.figures()[-1]['rows']:,}" in page.cells


def test_contrasts_stand_between_shares_alone_and_true_values(desk: Desk) -> None:
    assert desk.report("--events", desk.events, "--queries", 100) == 0
    last = desk.figures()[-1]
    assert max(last["contrast_true"], last["contrast_error"]) < last["contrast_alone"]
    kept = (last["contrast_alone"] - last["contrast_error"]) / (last["contrast_alone"] - last["contrast_true"])
    assert last["contrast_kept"] == pytest.approx(kept, abs=0.01)
    assert 0 < last["query_likely"] < last["query_interval"]
    assert desk.report(to="public") == 0
    assert "contrast_error" not in desk.figures("public")[-1]  # without the events nobody knows what is true


def test_a_release_is_looked_into_with_the_counts_it_publishes(desk: Desk) -> None:
    assert desk.report() == 0
    atlas = Page(desk.page()).atlas
    *_, files = read_releases(desk.path / "out")
    release = read_columns(load_policy(desk.policy), files.records)
    assert sum(atlas["cells"]["people"]) == json.loads(files.manifest)["people"]
    assert [len(column) for column in atlas["cells"]["low"]] == [len(release.cell_names)] * 3
    assert len(atlas["groups"]) == len(release.group_names)
    assert atlas["left_out"] == {"values": 0, "groups": 0}
    expected = sum(sum(counts) for counts in atlas["expected"].values())
    assert expected == pytest.approx(release.rows, abs=0.005 * len(release.cell_names) * len(atlas["expected"]))
    assert atlas["best_guess"] == 0.25


def test_the_program_that_looks_into_a_release_ends_with_the_worker_that_started_it() -> None:
    command = [sys.executable, "-m", "shoal.streams.report.atlas"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(30) == 1


def test_what_anyone_can_say_of_an_attack_is_what_the_audit_says(desk: Desk) -> None:
    assert desk.report() == 0
    desk.capture.readouterr()
    assert main(["audit", str(desk.policy), str(desk.path / "out"), "--json"]) == 0
    public = json.loads(desk.capture.readouterr().out)["public"]
    figures = desk.figures()
    assert max(one["best_guess"] for one in figures) == pytest.approx(public["largest_share"]["about"])
    assert figures[-1]["max_breach"] <= public["most"]["about"]
    assert f"with at most {figures[-1]['best_guess']:.4f}" in desk.page()


def test_a_label_cannot_end_the_page(desk: Desk) -> None:
    for file in (desk.policy, desk.policy.with_name("condition.csv"), desk.events):
        label = '"</script>"' if file == desk.policy else "</script>"
        file.write_text(file.read_text().replace("ankle-sprain", label))
    places = ["--out", str(desk.path / "new"), "--seed", "s"]
    assert main(["replay", str(desk.policy), str(desk.events), *places]) == 0
    assert desk.report(out="new") == 0
    assert "</script>" in Page(desk.page()).atlas["expected"]


def test_the_claims_of_the_persistence_attack_are_those_that_the_audit_finds(redrawn: Desk) -> None:
    assert redrawn.report("--events", redrawn.events, "--audit", redrawn.path / "private") == 0
    *earlier, last = redrawn.figures()
    assert all("claims" not in figures for figures in earlier), "it looks at all releases together"
    audit = ["audit", str(redrawn.policy), str(redrawn.path / "out"), "--events", str(redrawn.events)]
    redrawn.capture.readouterr()
    assert main([*audit, "--audit", str(redrawn.path / "private"), "--json"]) == 0
    audited = json.loads(redrawn.capture.readouterr().out)["private"]["attacks"]["claims"]["here"]
    assert last["claims_by_stay"] == {
        f"{found['stay']:g}": {name: found[name] for name in ("people", "over", "over_right", "sure", "sure_right")}
        for found in audited
    }
    assert last["claims"] == last["claims_by_stay"]["0.8"]["over"] > 0
    assert "claims that are right" in redrawn.page()
    assert "Nothing is promised about it" in redrawn.page()
    assert redrawn.report() == 0
    assert "claims" not in redrawn.figures()[-1], "without the truth nobody can say"


def test_of_a_lasting_table_no_more_claims_are_right_than_is_promised(desk: Desk) -> None:
    assert desk.report("--events", desk.events, "--audit", desk.path / "private", "--queries", 20) == 0
    for found in desk.figures()[-1]["claims_by_stay"].values():
        assert not is_beyond_chance(found["over"], found["over_right"], Fraction(1, 2))
        assert found["sure_right"] == 0
    assert desk.figures()[-1]["duration_claims"] >= desk.figures()[-1]["duration_claims_right"] >= 0
    assert "Knowing how long each value lasts" in desk.page()
    assert "Promised: no more than 50% of the claims are right, but for chance." in desk.page()


def test_nobody_is_named_in_it(desk: Desk) -> None:
    assert desk.report("--events", desk.events, "--audit", desk.path / "private", "--queries", 20) == 0
    assert desk.events.read_text().count('"id": "patient-') > 300
    for file in (desk.path / "report").iterdir():
        assert b"patient-" not in file.read_bytes()


def test_the_same_seed_gives_the_same_report_byte_for_byte(desk: Desk) -> None:
    for to in ("one", "two"):
        assert desk.report("--events", desk.events, "--queries", 30, to=to) == 0
    assert desk.report("--events", desk.events, "--queries", 30, "--seed", "other", to="three") == 0
    one, two, three = (
        {file.name: file.read_bytes() for file in (desk.path / to).iterdir()} for to in ("one", "two", "three")
    )
    assert one == two
    assert one["report.json"] != three["report.json"]


def test_what_people_have_spent_is_what_the_manifest_says_of_the_most_exposed(redrawn: Desk) -> None:
    policy = load_policy(redrawn.policy)
    accounts = Accounts(policy)
    for release in read_releases(redrawn.path / "out"):
        members = read_members(redrawn.path / "private" / f"release-{release.number:04}.members.jsonl")
        spent = accounts.see(release.number, read_columns(policy, release.records), members)
        assert spent is not None
        assert spent.largest == pytest.approx(json.loads(release.manifest)["max_breach"], abs=1e-9)


def test_events_of_another_series_are_refused(desk: Desk) -> None:
    lines = desk.events.read_text().splitlines(keepends=True)
    first = next(index for index, line in enumerate(lines) if '"insert"' in line)
    for wrong, sentence in (
        (lines[: len(lines) // 2], "give all events that led to release"),
        ([*lines, '{"op": "release"}\n'], "make a release 5 that"),
        (lines[:first] + lines[first + 1 :], "they are not the events that led to it"),
    ):
        desk.events.write_text("".join(wrong))
        assert desk.report("--events", desk.events) == 2
        assert sentence in desk.error()
        assert not (desk.path / "report").exists()


def test_another_policy_is_refused(desk: Desk) -> None:
    desk.policy.write_text(desk.policy.read_text() + "# changed\n")
    assert desk.report() == 2
    assert desk.error() == "shoal: release 1 was made under another policy than this one.\n"


def test_a_broken_chain_is_a_broken_promise(desk: Desk) -> None:
    shutil.rmtree(desk.path / "out" / "release-0002")
    assert desk.report() == 1
    assert "the chain of releases is broken" in desk.error()


@pytest.mark.parametrize(("name", "sentence"), [("nowhere", "is not a folder"), ("clinic", "has no releases in it")])
def test_a_folder_without_releases_is_refused(desk: Desk, name: str, sentence: str) -> None:
    assert desk.report(out=name) == 2
    assert sentence in desk.error()


def test_it_writes_nothing_into_what_is_published(desk: Desk) -> None:
    assert desk.report(to="out/report") == 2
    assert desk.error() == "shoal: --out must not be inside OUT, which is published.\n"


def test_a_missing_membership_file_is_named(desk: Desk) -> None:
    (desk.path / "private" / "release-0003.members.jsonl").unlink()
    assert desk.report("--audit", desk.path / "private") == 2
    assert "release-0003.members.jsonl cannot be read" in desk.error()


def test_a_release_without_rows_is_reported_as_such(tmp_path: Path) -> None:
    write_clinic(tmp_path / "clinic", Clinic(people=300, nights=1))
    (tmp_path / "events.jsonl").write_text('{"op": "release"}\n' + (tmp_path / "clinic" / "events.jsonl").read_text())
    arguments = [str(tmp_path / "clinic" / "policy.yaml"), str(tmp_path / "events.jsonl")]
    assert main(["replay", *arguments, "--out", str(tmp_path / "out"), "--seed", "s"]) == 0
    places = [str(tmp_path / "out"), "--out", str(tmp_path / "report"), "--events", arguments[1], "--queries", "10"]
    assert main(["report", arguments[0], *places]) == 0
    first, second = json.loads((tmp_path / "report" / "report.json").read_text())["releases"]
    assert (first["people"], first["ncp"], first["query_error"]) == (0, None, 0)
    assert second["people"] > 0


def test_a_gap_in_a_line_and_many_releases_can_be_drawn() -> None:
    many = Line("many", list(range(100)), [None, 3, 4, None, *range(96)])
    plain, logarithmic = draw(Panel("a", "x", "y", [many])), draw(Panel("b", "x", "y", [many, many], is_log=True))
    assert "circle" not in plain
    assert plain.split('class="line c0" d="')[1].split('"')[0].count("M") == 2
    assert logarithmic.count("<li>") == 2
    assert "nan" not in plain + logarithmic


@pytest.mark.parametrize("values", [[], [None, None], [0, 0], [5], [1e-9, 1e9], [-3, 4]])
@pytest.mark.parametrize("is_log", [False, True])
def test_any_line_can_be_drawn(values: list[float | None], is_log: bool) -> None:
    picture = draw(Panel("a", "release", "y", [Line("one", list(range(len(values))), values)], is_log=is_log))
    assert picture.startswith(("<svg", '<p class="empty">'))
    assert "nan" not in picture


class Busiest(Metric):
    """A metric for this test: the group with the most people."""

    figures = {"busiest_group": Figure("busiest group", ",", "People of the fullest group.")}  # noqa: RUF012

    def measure(self, reading: Reading) -> Figures:
        return {"busiest_group": int(reading.published.group_rows.max())}

    def tiles(self, last: Figures) -> list[Tile]:
        return [Tile("busiest", self.write(last, "busiest_group"), "people")]

    def pictures(self, series: Sequence[Figures]) -> list[Picture]:
        panel = Panel("Busiest", "release", "people", [curve(series, "busiest_group", "busiest")])
        return [Picture(panel, "One line was enough.")]


def test_a_new_metric_is_a_class_and_one_line(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "METRICS", (*METRICS, Busiest))
    assert desk.report() == 0
    last = desk.figures()[-1]["busiest_group"]
    assert last >= 2
    assert {"busiest group", f"{last:,}"} <= set(Page(desk.page()).cells)
    for text in ("<dt>busiest</dt>", "People of the fullest group.", "One line was enough."):
        assert text in desk.page()
