"""What the pages show can be used as it stands: every block of YAML, JSON and shell, of every page."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from shoal.core.schema import policy_schema
from shoal.streams.cli import shoal
from shoal.streams.errors import InputError
from shoal.streams.files.mapping.document import mapping_schema
from shoal.streams.files.policy_yaml import Document
from tests.repository.test_pages import PAGES
from tests.support.root import ROOT

_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


def blocks(text: str, *languages: str) -> list[str]:
    """The blocks of a page in these languages, without their indent."""
    found = [(indent, name, body) for indent, name, body in _BLOCK.findall(text) if name in languages]
    return [re.sub(rf"^{indent}", "", body, flags=re.MULTILINE) for indent, _, body in found]


def wrong_yaml(block: str) -> str | None:
    """Why a block is no YAML as Shoal reads it or, if it is a whole policy or mapping, not one of these."""
    try:
        document = Document(Path("page"), block.encode())
    except InputError as error:
        return str(error)
    if document.mistakes:
        return str(document.mistakes)
    content: Any = document.content
    schema = None
    if isinstance(content, dict) and {"table", "attributes", "sensitive", "privacy"} <= content.keys():
        schema = policy_schema()
    elif isinstance(content, dict) and {"people", "attributes"} <= content.keys():
        schema = mapping_schema()
    if schema is None:
        return None
    found = next(jsonschema.Draft202012Validator(schema).iter_errors(content), None)
    return None if found is None else found.message


def wrong_json(block: str) -> str | None:
    """Why a block is not a row of JSON texts."""
    decoder, rest = json.JSONDecoder(), block.strip()
    while rest:
        try:
            _, end = decoder.raw_decode(rest)
        except ValueError as error:
            return f"{error}: {rest[:60]}"
        rest = rest[end:].strip()
    return None


def wrong_shell(block: str) -> str | None:
    """Why a block is no shell, or which command or option of Shoal it names that there is not."""
    done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr
    with click.Context(shoal) as ctx:
        for line in block.replace("\\\n", " ").splitlines():
            for call in re.findall(r"(?:^|[;&|]\s*|\$\()(?:\S*/)?shoal ([^;|&)>]+)", line.partition(" #")[0]):
                words = shlex.split(call)
                command = shoal.get_command(ctx, words[0]) if not words[0].startswith("-") else shoal
                if isinstance(command, click.Group) and command is not shoal:
                    inner = command.get_command(ctx, words[1]) if len(words) > 1 else None
                    command = inner or command.get_command(ctx, getattr(command, "default", "")) or command
                if command is None:
                    return f"there is no `shoal {words[0]}`"
                known = {
                    option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
                }
                unknown = (
                    {word.partition("=")[0] for word in words if word.startswith("--")}
                    - known
                    - {"--help", "--version"}
                )
                if unknown:
                    return f"`shoal {words[0]}` has no {', '.join(sorted(unknown))}"
    return None


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_can_be_used(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [(block, wrong_yaml(block)) for block in blocks(text, "yaml")]
    found += [(block, wrong_json(block)) for block in blocks(text, "json", "jsonl")]
    found += [(block, wrong_shell(block)) for block in blocks(text, "sh", "bash", "shell")]
    assert [(block[:80], wrong) for block, wrong in found if wrong] == []


def test_a_block_that_is_wrong_is_noticed() -> None:
    assert wrong_yaml("privacy:\n    k: 3\n  l: 2\n")
    assert wrong_yaml("people: {id: a}\nattributes: {age: {colum: b}}\nsensitive: c\n")
    assert not wrong_yaml("people: {id: a}\nattributes: {age: {column: b}}\nsensitive: c\n")
    assert wrong_json('{"a": 1}\n{"b": }')
    assert not wrong_json('{"a": 1}\n{"b":\n 2}')
    assert wrong_shell("for x in")
    assert wrong_shell("shoal replay a b --where c")
    assert wrong_shell("export A=1; .venv/bin/shoal nothing")
    assert not wrong_shell("shoal replay a b --out c 2> log & shoal source check a b")
    assert blocks("a\n\n  ```yaml\n  b: 1\n    c\n  ```\n", "yaml") == ["b: 1\n  c\n"]
