"""`shoal policy init`: a first policy that can be used as it stands, and says of every line why it is there."""

from pathlib import Path

import pytest

from shoal.streams.cli import main
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.source.first.profile import wide
from tests.support.panel import make_panel

DISEASES = ("flu", "gout", "asthma", "lupus", "migraine")


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Sixty people in a CSV file, whose columns are of every kind."""
    path = tmp_path / "people.csv"
    header = "number,name,age,weight,zip,sex,born,nothing,disease"
    rows = [
        f"{n},Person {n},{20 + n % 40},{60.5 + n % 9},{80100 + n % 7},{'fm'[n % 2]},19{60 + n % 40}-01-02,,"
        f"{DISEASES[n % 5]}"
        for n in range(60)
    ]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_what_it_writes_is_a_policy_that_replays_the_same_file(people: Path, tmp_path: Path) -> None:
    first = tmp_path / "first"
    assert (
        main(["policy", "init", "--from", str(people), "--id", "number", "--sensitive", "disease", "--out", str(first)])
        == 0
    )
    policy = load_policy(first / "policy.yaml")
    assert {one.name: one.kind for one in policy.attributes} == {
        "age": "int", "weight": "float", "zip": "category", "sex": "category", "born": "int",
    }  # fmt: skip
    text = (first / "policy.yaml").read_text()
    assert '# "name" is left out: it differs on nearly every row' in text
    assert '# "nothing" is left out: it is empty' in text
    assert (first / "zip.csv").read_text().splitlines()[0] == "80100;8010*;801**;80***;8****;*"
    assert "Person 1" not in text
    command = ["replay", str(first / "policy.yaml"), str(people), "--map", str(first / "mapping.yaml")]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out.rejects.jsonl").read_text() == ""


def test_every_line_says_what_was_seen(people: Path, tmp_path: Path) -> None:
    first = tmp_path / "first"
    assert (
        main(["policy", "init", "--from", str(people), "--id", "number", "--sensitive", "disease", "--out", str(first)])
        == 0
    )
    lines = (first / "policy.yaml").read_text().splitlines()
    start, end = (
        lines.index(next(line for line in lines if line.startswith("attributes:"))),
        lines.index(next(line for line in lines if line.startswith("sensitive:"))),
    )
    for line in lines[start + 1 : end]:
        assert "# on 60 of 60 rows; " in line or "is left out: " in line


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "name the column of people's ids with --id; these are different on every row: number, name."),
        (["--id", "number"], "name the sensitive column with --sensitive; of 4 to 1,000 labels are zip, disease."),
        (["--id", "nobody"], "there is no column nobody; there are number, name, age"),
        (["--id", "number", "--sensitive", "sex"], "it must have from 4 to 1,000 values, and has 2."),
        (["--id", "number", "--sensitive", "nothing"], "and has 0."),
    ],
)
def test_nothing_is_guessed_silently(
    people: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main(["policy", "init", "--from", str(people), "--out", str(tmp_path / "first"), *options]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "first").exists()


def test_blanks_around_labels_are_trimmed_and_labels_that_a_policy_cannot_have_are_named(
    people: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["policy", "init", "--from", str(people), "--id", "number", "--sensitive", "disease", "--out"]
    text = people.read_text()
    people.write_text(text.replace(",m,", ",m ,").replace(",gout", ", gout"))
    assert main([*command, str(tmp_path / "first")]) == 0
    assert '"sex": {column: "sex", trim: true}' in (tmp_path / "first" / "mapping.yaml").read_text()
    replay = ["replay", str(tmp_path / "first" / "policy.yaml"), str(people), "--out", str(tmp_path / "out")]
    assert main([*replay, "--map", str(tmp_path / "first" / "mapping.yaml")]) == 0
    assert (tmp_path / "out.rejects.jsonl").read_text() == ""
    people.write_text(text.replace(",f,", ",*,"))
    assert main([*command, str(tmp_path / "second")]) == 0
    assert '"sex" is left out: ' in (tmp_path / "second" / "policy.yaml").read_text()
    people.write_text(text.replace(",gout", ",*"))
    assert main([*command, str(tmp_path / "third")]) == 2
    assert "disease cannot be the sensitive column: " in capsys.readouterr().err


def init(source: Path, out: Path, *more: str) -> int:
    return main(["policy", "init", "--from", str(source), "--out", str(out), *more])


def test_a_panel_is_recognised_and_what_is_written_makes_its_releases(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    panel, first = make_panel(tmp_path), tmp_path / "first"
    assert init(panel, first) == 2
    assert "no column is different on every row, so people have several rows" in capsys.readouterr().err
    assert init(panel, first, "--id", "pid") == 2
    assert "labels are educ, region, hours, job." in capsys.readouterr().err
    assert init(panel, first, "--id", "pid", "--sensitive", "job") == 0
    said = capsys.readouterr().err
    assert "pid repeats: " in said
    assert "year tells them apart, so the mapping takes the file for a panel of 6 periods" in said
    assert "taken for codes, not amounts: sex, educ, region, hours, job." in said
    assert "rows without a value: educ (" in said
    policy, text = load_policy(first / "policy.yaml"), (first / "policy.yaml").read_text()
    assert [(one.name, one.kind) for one in policy.attributes] == [
        ("born", "int"),
        *((name, "category") for name in ("sex", "educ", "region", "hours")),
    ]
    assert policy.sensitive.hierarchy.leaves == tuple(map(str, range(1, 13)))
    assert '# "year" is left out: it names the period' in text
    assert "For amounts write {type: int, min: 0, max: 50}" in text
    mapping = (first / "mapping.yaml").read_text()
    assert '"educ": {column: "educ", no_value: ["NA"], missing: withhold}   # ' in mapping
    files = ["--map", str(first / "mapping.yaml"), "--out", str(tmp_path / "out")]
    assert main(["replay", str(first / "policy.yaml"), str(panel), *files]) == 0
    assert (tmp_path / "out.rejects.jsonl").read_text() == ""
    assert len([*(tmp_path / "out").glob("release-*")]) == 6


def test_the_whole_file_is_looked_at(tmp_path: Path) -> None:
    rows = "".join(f"p{n},{n % 60},{'abcd'[n % 4] if n < 10_500 else 'rare'}\n" for n in range(11_000))
    (tmp_path / "people.csv").write_text("id,age,disease\n" + rows)
    assert init(tmp_path / "people.csv", tmp_path / "first", "--sensitive", "disease") == 0
    assert "rare" in load_policy(tmp_path / "first" / "policy.yaml").sensitive.hierarchy.leaves


@pytest.mark.parametrize(
    ("change", "more", "said"),
    [
        ("2017", (), "and no column tells the rows of a person apart"),
        ("2017", ("--period", "year"), "and people have two rows with the same year."),
        ("soon", ("--period", "year"), "and year is not a year, a month, a date or a whole number on every row"),
        ("2016", ("--period", "when"), "there is no column when; there are pid, year"),
    ],
)
def test_ids_that_repeat_without_a_period_are_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str, more: tuple[str, ...], said: str
) -> None:
    panel = make_panel(tmp_path)
    panel.write_text(panel.read_text().replace(",2016,", f",{change},"))
    assert init(panel, tmp_path / "first", "--id", "pid", "--sensitive", "job", *more) == 2
    assert said in capsys.readouterr().err


def test_a_file_with_semicolons_and_a_date_gets_a_mapping_that_says_so(tmp_path: Path) -> None:
    rows = "".join(f"p{n};19{60 + n % 30}-03-04;{'abcd'[n % 4]}\n" for n in range(60))
    (tmp_path / "people.csv").write_text("id;born;disease\n" + rows)
    assert init(tmp_path / "people.csv", tmp_path / "first", "--sensitive", "disease") == 0
    text = (tmp_path / "first" / "mapping.yaml").read_text()
    assert 'delimiter: ";"' in text
    assert "# the day on which the rows are true: ages are as of then. Change it" in text


def test_a_file_that_is_none_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "short.csv").write_text("a,b\n1\n1,2,3\n")
    for path in (tmp_path / "short.csv", tmp_path / "none.csv"):
        assert main(["policy", "init", "--from", str(path), "--out", str(tmp_path / "first")]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(18, 93, (10, 100)), (0, 0, (0, 1)), (-7, 3, (-7, 4)), (1013, 4999, (1000, 5000))]
)
def test_a_range_is_round_and_ends_above_what_was_seen(low: float, high: float, expected: tuple[float, float]) -> None:
    assert wide(low, high) == expected
    assert wide(low, high)[1] > high


def test_a_row_that_is_there_twice_does_not_hide_the_period_and_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        f"p{n};{wave};{20 + n % 50 + wave};{'-9' if n % 30 == 0 else n % 2};{1000 * (n % 3)};{n % 7}"
        for n in range(200)
        for wave in (1, 2, 3)
    ]
    (tmp_path / "waves.csv").write_text("\n".join(["id;welle;alter;sex;pay;job", *lines, "p3;1;70;1;1000;1"]) + "\n")
    assert init(tmp_path / "waves.csv", tmp_path / "first", "--id", "id", "--sensitive", "job") == 0
    said = capsys.readouterr().err
    assert "welle tells them apart, so the mapping takes the file for a panel of 3 periods" in said
    assert "1 row is about a person and a period that an earlier row is about, and will be rejected." in said
    mapping = (tmp_path / "first" / "mapping.yaml").read_text()
    assert 'period: "welle"   # 3 periods; the first release names no time' in mapping
    assert '"sex": {column: "sex", no_value: ["-9"], missing: withhold}' in mapping
    assert not (tmp_path / "first" / "pay.csv").exists(), "round amounts are no postcodes"
