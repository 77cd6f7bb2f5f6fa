"""The pages are readable and true: short lines, links that lead somewhere, words that are used, rooms that exist."""

import re
import shutil
from pathlib import Path

import pytest

from tests.support.root import ROOT, source_files

_LONGEST = 200
# A row of a table cannot be broken. The tables of figures on these pages are wide.
_WIDE_TABLES = frozenset(("docs/experiments.md", "docs/benchmarks.md"))
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/*/*.md"),
    )
)


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def long_lines(text: str, *, with_wide_tables: bool = False) -> list[int]:
    """The numbers of lines that are too long to read."""
    return [
        number
        for number, line in enumerate(text.splitlines(), start=1)
        if len(line) > _LONGEST and not (with_wide_tables and line.startswith("|"))
    ]


def slugs(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def dead_links(page: Path) -> list[str]:
    """Links of a page to files or headings that do not exist."""
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        file, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        target = page.parent / file if file else page
        if not target.exists() or (anchor and anchor not in slugs(target.read_text(encoding="utf-8"))):
            dead.append(link)
    return dead


def paths(text: str) -> set[str]:
    """Files and folders of the source that a page names in code: whole paths, and bare names of modules and scripts."""
    spans = re.findall(r"(?<!`)`([^`\s]+)`(?!`)", text)
    whole = {
        span for span in spans if re.fullmatch(r"(?:core|streams|shoal|deploy|tests|examples|docs)/[\w./-]*", span)
    }
    return whole | {span for span in spans if re.fullmatch(r"\w+\.(?:py|lua)", span)}


def terms(text: str) -> list[str]:
    """The first column of every table of the glossary."""
    rows = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    return [term.strip(" `") for row in rows if row not in ("word", "type") for term in row.split(",")]


def unused(words: list[str], text: str) -> list[str]:
    """Words that do not occur in a text, in the singular or the plural, in prose or in a name."""
    plain = re.sub(r"[\s_]+", " ", text.lower())
    return [word for word in words if not re.search(rf"(?<![a-z]){re.escape(word.lower())}", plain)]


def rooms(text: str) -> set[str]:
    """The folders named in the first column of a table."""
    return set(re.findall(r"^\| `([a-z0-9/_]+)/` \|", text, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES)
def test_no_line_of_a_page_is_too_long(page: str) -> None:
    assert long_lines(read(page), with_wide_tables=page in _WIDE_TABLES) == []


def test_a_long_line_is_noticed() -> None:
    assert long_lines("short\n" + 201 * "x") == [2]
    assert long_lines("| " + 200 * "x") == [1]
    assert long_lines(201 * "x" + "\n| " + 200 * "x", with_wide_tables=True) == [1]


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    assert dead_links(ROOT / page) == []


def test_a_dead_link_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A title\n\n## One truth, twice\n")
    page = tmp_path / "page.md"
    page.write_text("[a](other.md) [b](other.md#one-truth-twice) [c](gone.md) [d](other.md#gone) [e](https://x.org/y)")
    assert dead_links(page) == ["gone.md", "other.md#gone"]


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_exists(page: str) -> None:
    names = {Path(name).name for name in source_files()}
    missing = [path for path in paths(read(page)) if not ((ROOT / path).exists() or path in names)]
    assert missing == []


def test_a_file_that_is_named_is_found_in_a_page() -> None:
    assert paths("`core/plan.py`, `core/`, `plan.py`, `plan`, `OUT/x.py`, ```core/no.py```") == {
        "core/plan.py",
        "core/",
        "plan.py",
    }


def test_the_notebook_of_the_manual_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "examples" / "ward", tmp_path / "examples" / "ward")
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"^```python\n(.*?)^```$", read("docs/operating.md"), re.MULTILINE | re.DOTALL)
    exec(compile(example, "docs/operating.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1] == "True"


def test_every_page_is_in_the_index() -> None:
    index = read("docs/README.md")
    for page in PAGES:
        if page.startswith("docs/") and page.count("/") == 1 and page != "docs/README.md":
            assert f"({page.removeprefix('docs/')})" in index, page


def test_every_word_of_the_glossary_is_used_and_explained_once() -> None:
    words = terms(read("docs/glossary.md"))
    assert len(words) > 60
    assert len(words) == len(set(words))
    elsewhere = [
        name for name in source_files("core", "streams", "shoal", "deploy", "docs") if name != "docs/glossary.md"
    ]
    text = "\n".join(read(name) for name in elsewhere if name.endswith((".py", ".lua", ".md")))
    assert unused(words, text) == []


def test_a_word_that_nobody_uses_is_noticed() -> None:
    assert terms("| word | meaning |\n|---|---|\n| formed, carried | a group |\n") == ["formed", "carried"]
    assert unused(["cell", "coarse cell", "case id", "gone", "art"], "Cells, a coarse\n   cell, case_ids; apart") == [
        "gone",
        "art",
    ]


def test_every_room_is_in_the_table_of_rooms() -> None:
    found = {
        "/".join(parts[:2])
        for parts in (name.split("/") for name in source_files("core", "streams", "deploy", "tests"))
        if len(parts) > 2
    }
    assert found
    assert found | {"core", "streams", "shoal", "examples", "docs"} <= rooms(read("docs/contributing.md"))


def test_every_room_in_the_table_of_rooms_exists() -> None:
    assert [room for room in sorted(rooms(read("docs/contributing.md"))) if not (ROOT / room).is_dir()] == []
