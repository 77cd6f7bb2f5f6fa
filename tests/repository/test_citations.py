"""Every page and heading that the source cites can be opened, and nothing cites a page outside the repository."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.root import ROOT, source_files

_SOURCE = (
    "core",
    "streams",
    "tests",
    "shoal",
    "deploy",
    "docs",
    "examples",
    "README.md",
    "CONTRIBUTING.md",
    "Makefile",
)
_TEXT = frozenset((".py", ".lua", ".md", ".yaml", ".yml", ".html", ".css", ".toml", ""))
# `docs/design.md, "G2 Global"`, and with several headings `docs/design.md, "G1 Cells" and "G2 Global"`.
_CITATION = re.compile(r'docs/([\w/-]+\.md)((?:(?:,| and|, and) \\?"[^"\\\n]+\\?")*)')
_QUOTED = re.compile(r'"([^"\\]+)\\?"')
# A citation may go on in the next line of a docstring, a comment or a table.
_LINE_BREAK = re.compile(r"[ \t]*\n[ \t]*(?:#|--|\|)?[ \t]*")
# Written in pieces, so that this file does not contain what it looks for.
_OUTSIDE = re.compile(r"\b(?:DES" + r"IGN|CONT" + r"RACT)\b|\bshared" + "/")


def headings(page: Path) -> frozenset[str]:
    """The headings of a Markdown page, code in fences aside."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return frozenset(line.lstrip("#").strip() for line in text.splitlines() if re.match(r"#{1,4} ", line))


def citations(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(page, headings) of each citation in a text."""
    for found in _CITATION.finditer(_LINE_BREAK.sub(" ", text)):
        yield found[1], tuple(_QUOTED.findall(found[2]))


def unresolved(text: str, docs: Path) -> list[str]:
    """What a text cites and `docs` does not have."""
    wrong = []
    for page, cited in citations(text):
        if not (docs / page).is_file():
            wrong.append(f"docs/{page} does not exist")
            continue
        known = headings(docs / page)
        wrong += [f'docs/{page} has no heading "{heading}"' for heading in cited if heading not in known]
    return wrong


def prose(name: str, text: str) -> Iterator[tuple[int, str]]:
    """The lines of a file that people read: of Python its comments and strings, of anything else all of it."""
    if not name.endswith(".py"):
        yield from enumerate(text.splitlines(), start=1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield from enumerate(token.string.splitlines(), start=token.start[0])


def outside(name: str, text: str) -> list[str]:
    """Lines that cite a page which readers of the repository do not have."""
    return [f"{name}:{line}" for line, words in prose(name, text) if _OUTSIDE.search(words)]


def sources() -> Iterator[tuple[str, str]]:
    """(name, text) of every file that belongs to the source, tracked or about to be."""
    for name in source_files(*_SOURCE):
        path = ROOT / name
        if path.suffix in _TEXT:
            yield name, path.read_text(encoding="utf-8")


def test_every_cited_page_and_heading_exists() -> None:
    wrong, pages = [], set()
    for name, text in sources():
        if name.startswith(("core/", "streams/")):
            pages |= {page for page, _ in citations(text)}
        if name != "tests/repository/test_citations.py":
            wrong += [f"{name}: {what}" for what in unresolved(text, ROOT / "docs")]
    assert {"design.md", "contract.md", "protocol.md"} <= pages
    assert wrong == []


def test_nothing_cites_a_page_outside_the_repository() -> None:
    assert [place for name, text in sources() for place in outside(name, text)] == []


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    (tmp_path / "design.md").write_text("# The design\n\n## G1 Cells\n\n```sh\n# no heading\n```\n\n### G2 Global\n")
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        "see docs/design.md.",
        'see docs/design.md, "G1 Cells".',
        'the same draw (docs/design.md, "G1\n    Cells" and "G2 Global")',
        'why = 1  # docs/design.md,\n         # "G1 Cells"',
        'raise Wrong("see docs/design.md, \\"G2 Global\\"")',
        'a page, docs/design.md, and then "some words in quotes"',
    ],
)
def test_a_citation_that_resolves_is_accepted(docs: Path, text: str) -> None:
    assert list(citations(text))
    assert unresolved(text, docs) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("see docs/plan.md.", "docs/plan.md does not exist"),
        ('docs/design.md, "G7 Nothing"', 'docs/design.md has no heading "G7 Nothing"'),
        ('docs/design.md, "G1 Cells" and\n# "G3 Permanent"', 'docs/design.md has no heading "G3 Permanent"'),
        ('docs/design.md, "no heading"', 'docs/design.md has no heading "no heading"'),
        ("raise Wrong('docs/design.md, \"G3\"')", 'docs/design.md has no heading "G3"'),
    ],
)
def test_a_citation_that_resolves_to_nothing_is_noticed(docs: Path, text: str, wrong: str) -> None:
    assert unresolved(text, docs) == [wrong]


@pytest.mark.parametrize("word", ["DES" + "IGN, G2", "CONT" + "RACT.md", "shared" + "/papers"])
def test_a_page_outside_is_noticed_in_comments_strings_and_pages(word: str) -> None:
    assert outside("a.py", f'"""Why:\n\nsee {word}."""\n') == ["a.py:3"]
    assert outside("a.py", f"x = 1\ny = 2  # {word}\n") == ["a.py:2"]
    assert outside("a.lua", f"-- {word}\n") == ["a.lua:1"]


def test_a_name_in_code_is_no_citation() -> None:
    assert outside("a.py", "say(Promise.CONT" + "RACT, FORM)\n") == []
