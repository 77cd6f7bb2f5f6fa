"""Reads a policy from a YAML file, and reports every mistake with its line and column.

Scalars are those of YAML 1.2, with fewer traps: only `true` and `false` are booleans; whole numbers have no leading
zeros, underscores or other bases; there are no dates and no merge keys. So `no`, `02139` and `12:30` stay text. A key
that appears twice is a mistake, and so is a tag other than those of YAML's own types.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import yaml

from shoal.core.errors import Mistake, PolicyError
from shoal.core.policy.policy import Policy, build_policy, hierarchy_paths
from shoal.streams.errors import InputError

_TAG: Final = "tag:yaml.org,2002:"
_STR, _INT, _FLOAT, _BOOL, _NULL = (_TAG + name for name in ("str", "int", "float", "bool", "null"))
_SEQ, _MAP = _TAG + "seq", _TAG + "map"
_UNKNOWN_TAG: Final = "this tag is not known; leave it out"
_DIGITS: Final = 1000  # Python refuses to convert many more
_PATTERNS: Final = {
    _NULL: re.compile(r"~|null|Null|NULL|"),
    _BOOL: re.compile(r"true|false"),
    _INT: re.compile(r"0|-?[1-9][0-9]*", re.ASCII),
    _FLOAT: re.compile(
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        re.ASCII,
    ),
}


class PolicyFileError(InputError):
    """A policy file that cannot be used; the text has one line for every mistake."""


class _Loader(yaml.SafeLoader):
    """Composes nodes; `Document` converts them to values."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own attribute, emptied of YAML 1.1


for _tag, _pattern in _PATTERNS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(f"(?:{_pattern.pattern})\\Z", _pattern.flags), None)


def load_policy(path: str | Path) -> Policy:
    """The policy in a file, with the hierarchy files it names (relative to it).

    Raises PolicyFileError, which lists every mistake as `policy.yaml:12:5: privacy.k: must be at least 1`.
    """
    path = Path(path)
    source = _read_source(path)
    return parse_policy(path, source, lambda name: _read_hierarchy(path.parent / name))


def read_policy_files(path: str | Path) -> tuple[bytes, dict[str, bytes]]:
    """The bytes of a policy that can be used, and of its hierarchy files by name. Raises PolicyFileError."""
    path = Path(path)
    source, files = _read_source(path), dict[str, bytes]()

    def keep(name: str) -> bytes | None:
        content = _read_hierarchy(path.parent / name)
        if content is not None:
            files[name] = content
        return content

    parse_policy(path, source, keep)
    return source, files


def _read_source(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PolicyFileError(f"{path}: the policy cannot be read ({error.strerror or 'unknown reason'})") from None
    except ValueError:
        raise PolicyFileError("the policy's path cannot be the path of a file") from None


def parse_policy(path: Path, source: bytes, read: Callable[[str], bytes | None]) -> Policy:
    """The policy in these bytes; `read` gives the content of a hierarchy file. Raises PolicyFileError."""
    document = Document(path, source)
    files = {name: read(name) for name in hierarchy_paths(document.content)}
    try:
        policy = build_policy(document.content, files, source)
    except PolicyError as error:
        raise document.error([*document.mistakes, *(document.locate(mistake) for mistake in error.mistakes)]) from None
    if document.mistakes:
        raise document.error(document.mistakes)
    return policy


def _read_hierarchy(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() else None
    except (OSError, ValueError):
        return None


_Place = tuple[int, int]  # line and column, from 1


class Document:
    """A YAML file as plain values (`content`), the mistakes in the YAML itself, and the place of every value."""

    def __init__(self, path: Path, source: bytes, noun: str = "policy") -> None:
        self._path, self._noun = path, noun
        self._converted: dict[int, object] = {}
        self.mistakes: list[tuple[_Place, str]] = []
        try:
            self._root = self._compose(self._decode(source))
            self.content = self._convert(self._root)
        except RecursionError:
            raise self.error([((1, 1), f"the {self._noun} is nested too deeply")]) from None

    def error(self, mistakes: list[tuple[_Place, str]]) -> PolicyFileError:
        # Two checks may find the same mistake, and its author needs to read it once.
        lines = (
            f"{self._path}:{line}:{column}: {message}" for (line, column), message in dict.fromkeys(sorted(mistakes))
        )
        return PolicyFileError("\n".join(lines))

    def locate(self, mistake: Mistake) -> tuple[_Place, str]:
        """The place of a mistake: its value, its key if the key is wrong, or the key under which a value is missing."""
        node, place = self._root, (1, 1)
        for depth, step in enumerate(mistake.path, start=1):
            found = _step(node, step)
            if found is None:
                break
            key, node = found
            place = _place(node)
            if key is not None and (place[0] != _place(key)[0] or (mistake.at_key and depth == len(mistake.path))):
                place = _place(key)
        return place, str(mistake)

    def _decode(self, source: bytes) -> str:
        try:
            return source.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            before = source[: error.start]
            place = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
            raise self.error([(place, f"the {self._noun} is not UTF-8")]) from None

    def _compose(self, text: str) -> yaml.Node:
        try:
            node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
        except yaml.MarkedYAMLError as error:
            at = error.problem_mark or error.context_mark
            place = (1, 1) if at is None else (at.line + 1, at.column + 1)
            why = ", ".join(part for part in (error.context, error.problem) if part)
            raise self.error([(place, f"this is not one YAML document: {why}")]) from None
        except yaml.reader.ReaderError as error:
            before = text[: error.position]
            place = before.count("\n") + 1, len(before) - before.rfind("\n")
            raise self.error([(place, "this character is not allowed in YAML")]) from None
        if node is None:
            raise self.error([((1, 1), f"the {self._noun} is empty")])
        return node

    def _wrong(self, node: yaml.Node, message: str) -> None:
        self.mistakes.append((_place(node), message))

    def _convert(self, node: yaml.Node) -> object:
        """The plain value of a node. A node with aliases is converted once, so that the aliases cannot multiply it."""
        if id(node) in self._converted:
            found = self._converted[id(node)]
            if found is _UNDERWAY:
                self._wrong(node, "this value contains itself")
                return None
            return found
        self._converted[id(node)] = _UNDERWAY
        found = self._convert_new(node)
        self._converted[id(node)] = found
        return found

    def _convert_new(self, node: yaml.Node) -> object:
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if node.tag not in (_SEQ, _MAP):
            self._wrong(node, _UNKNOWN_TAG)
        if isinstance(node, yaml.SequenceNode):
            return [self._convert(item) for item in node.value]
        assert isinstance(node, yaml.MappingNode)
        return dict(self._items(node))

    def _items(self, node: yaml.MappingNode) -> Iterator[tuple[str, object]]:
        seen: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != _STR:
                self._wrong(key, "a key must be text; write it in quotes")
                self._convert(value)
                continue
            line, _ = _place(key)
            converted = self._convert(value)
            if key.value in seen:
                self._wrong(key, f"the key {key.value!r} is there twice, first on line {seen[key.value]}")
                continue
            seen[key.value] = line
            yield key.value, converted

    def _scalar(self, node: yaml.ScalarNode) -> object:
        text, tag = node.value, node.tag
        if tag == _STR:
            return text
        if tag not in _PATTERNS or not _PATTERNS[tag].fullmatch(text):
            self._wrong(node, "this value is not what its tag says" if tag in _PATTERNS else _UNKNOWN_TAG)
            return text
        if tag == _NULL:
            return None
        if tag == _BOOL:
            return text == "true"
        if tag == _FLOAT:
            return float(text.replace(".", "") if text[-1].isalpha() else text)  # .inf and .nan
        if len(text) > _DIGITS:
            self._wrong(node, "this number has too many digits")
            return 0
        return int(text)


_UNDERWAY: Final = object()


def _step(node: yaml.Node, step: str | int) -> tuple[yaml.Node | None, yaml.Node] | None:
    """The key (of a mapping) and the value that a step of a path leads to."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == step:
                return key, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        return None, node.value[step]
    return None


def _place(node: yaml.Node) -> _Place:
    return node.start_mark.line + 1, node.start_mark.column + 1
