"""The policy of one table: which attributes are published, and with which promises.

A policy with mistakes is refused with all of them at once: `build_policy` does not stop at the first one, and a mistake
in one section hides none in another.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from shoal.core.errors import CronError, HierarchyError, Mistake, PolicyError
from shoal.core.policy.cron import parse_cron
from shoal.core.policy.document import ATTRIBUTE_SECTIONS, PolicyDocument
from shoal.core.policy.hierarchy import Hierarchy, flat_hierarchy, parse_hierarchy, wrong_label
from shoal.core.policy.model_keys import Leaves, batch_size, signature_size, wrong_for_model
from shoal.core.policy.section import EMPTY, Path, did_you_mean, read_one_of, read_section, unknown_key
from shoal.core.policy.strategy import STRATEGIES, Adaptive, Strategy

SHOWN_PER_FILE = 20


class Attribute(NamedTuple):
    """A quasi-identifier. For a category the values are leaf codes of its hierarchy, from 0 to `high`."""

    name: str
    kind: Literal["int", "float", "category"]
    low: int | float
    high: int | float
    hierarchy: Hierarchy | None


class Sensitive(NamedTuple):
    """The sensitive attribute; `open` and `permanent` hold leaf codes, everything else is transient."""

    name: str
    hierarchy: Hierarchy
    open: frozenset[int]
    permanent: frozenset[int]


class Triggers(NamedTuple):
    """What makes a release, other than a request for one."""

    every_events: int | None
    every_seconds: float | None
    at: str | None
    timezone: str
    min_seconds: float = 0.0  # between two releases; whatever asks for one sooner waits

    def next_at(self, when: datetime) -> datetime | None:
        """The first moment after `when` (aware) that `at` names, in UTC; None without `at`."""
        return None if self.at is None else parse_cron(self.at).next_after(when, ZoneInfo(self.timezone))


class Snapshots(NamedTuple):
    """When the worker writes snapshots, how many stay, and the folder, as the policy writes it."""

    every_releases: int
    keep: int
    to: str


@dataclass(frozen=True)
class Policy:
    """Everything a policy file says, checked, with defaults filled in."""

    table: str
    attributes: tuple[Attribute, ...]
    sensitive: Sensitive
    k: int
    l: float
    values: Literal["lasting", "redrawn"]
    insiders: int  # lasting: how many people of the table the adversary may be or have asked
    signature: int  # lasting: how many values each value is shown among, at least
    batch: int  # lasting: how many newcomers wait as "*" until they are shown
    strategy: Strategy  # redrawn
    headroom: int
    participation: int | Literal["all"]
    sampling: float
    overlap: int
    search: int
    triggers: Triggers
    snapshot: Snapshots | None
    case_ids: bool  # whether cells list the pseudonyms of their rows
    digest: str  # sha256 of the policy file followed by its hierarchy files, in hexadecimal; see also meaning.py
    shards: int = 1  # lasting: regions that are planned apart
    full_every: int = 1  # between full releases, only what changed

    @property
    def is_plain(self) -> bool:
        """Whether every release is whole and in one part."""
        return self.shards == 1 and self.full_every == 1


def hierarchy_paths(document: object) -> list[str]:
    """The hierarchy files a policy names, as it writes them: the attributes' in order, then the sensitive one's.

    Takes any document, however wrong. A file named twice is listed twice, and the digest is over both.
    """
    if not isinstance(document, dict):
        return []
    attributes = document.get("attributes")
    sections = [*attributes.values()] if isinstance(attributes, dict) else []
    sections.append(document.get("sensitive"))
    paths = [section.get("hierarchy") for section in sections if isinstance(section, dict)]
    return [path for path in paths if isinstance(path, str)]


def build_policy(document: object, files: Mapping[str, bytes | None], source: bytes) -> Policy:
    """Turn a parsed policy file into a Policy.

    `files` holds the content of each file of `hierarchy_paths`, None for one that cannot be read; `source` is the file
    the document was parsed from. Raises PolicyError with every mistake.
    """
    mistakes: list[Mistake] = []
    read = read_section(PolicyDocument, document, (), mistakes)
    check = _Checker(files, mistakes)
    attributes = tuple(check.attributes(read["attributes"])) if "attributes" in read else ()
    sensitive = check.sensitive(read.get("sensitive", {}), read.get("attributes"))
    privacy = read.get("privacy", {})
    named = privacy.get("strategy")
    strategy = Adaptive() if named is None else check.strategy(named)
    check.model(read, sensitive)
    check.scale(read.get("scale", {}).get("shards", 1), attributes)
    release = read.get("release", {})
    triggers, case_ids = check.triggers(release), release.get("case_ids", False)
    check.case_ids(case_ids, sensitive, privacy.get("participation"))
    if mistakes:
        raise PolicyError(tuple(mistakes))
    assert sensitive is not None
    assert strategy is not None
    k, headroom = privacy["k"], privacy["headroom"]
    digest = hashlib.sha256(source)
    for path in hierarchy_paths(document):
        digest.update(files[path] or b"")
    return Policy(
        table=read["table"],
        attributes=attributes,
        sensitive=sensitive,
        k=k,
        l=privacy["l"],
        values=privacy["values"],
        insiders=privacy["insiders"] or 0,
        signature=signature_size(privacy),
        batch=batch_size(privacy),
        strategy=strategy,
        headroom=math.ceil(k / 2) if headroom is None else headroom,
        participation=privacy["participation"],
        sampling=privacy["sampling"],
        overlap=privacy["overlap"],
        search=privacy["search"],
        triggers=triggers,
        snapshot=Snapshots(**snapshot) if (snapshot := read["snapshot"]) else None,
        case_ids=case_ids,
        digest=digest.hexdigest(),
        shards=read["scale"]["shards"],
        full_every=release["full_every"],
    )


class _Checker:
    """Finds mistakes that concern more than one value. A value with a mistake of its own is not checked again."""

    def __init__(self, files: Mapping[str, bytes | None], mistakes: list[Mistake]) -> None:
        self._files = files
        self._mistakes = mistakes

    def _wrong(self, path: Path, message: str, *, at_key: bool = False) -> None:
        self._mistakes.append(Mistake(path, message, at_key))

    def attributes(self, raw: object) -> Iterator[Attribute]:
        if not isinstance(raw, dict):
            self._wrong(("attributes",), "must be a mapping of names to attributes")
            return
        if not raw:
            self._wrong(("attributes",), "must name at least one attribute")
        for name, section in raw.items():
            if not isinstance(name, str):
                self._mistakes.append(unknown_key(("attributes",), name, ()))
                continue
            path = ("attributes", name)
            wrong = wrong_label(name, "name")
            if wrong:
                self._wrong(path, wrong, at_key=True)
            attribute = self._attribute(name, section, path)
            if attribute is not None:
                yield attribute

    def _attribute(self, name: str, raw: object, path: Path) -> Attribute | None:
        if not isinstance(raw, dict):
            self._wrong(path, EMPTY if raw is None else "must be a mapping, as in {type: int, min: 0, max: 120}")
            return None
        read = read_one_of(ATTRIBUTE_SECTIONS, "type", " attributes", raw, path, self._mistakes)
        if read is None:
            return None
        kind, section = read
        if kind == "category":
            hierarchy = self._hierarchy(section, path)
            return None if hierarchy is None else Attribute(name, "category", 0, len(hierarchy.leaves) - 1, hierarchy)
        low, high = section.get("min"), section.get("max")
        if low is None or high is None:
            return None
        if low >= high:
            self._wrong((*path, "max"), "must be more than min")
        elif not math.isfinite(high - low):
            self._wrong((*path, "max"), "is too far from min")
        if kind == "float":
            return Attribute(name, "float", low + 0.0, high + 0.0, None)  # + 0.0 turns -0.0 into 0.0
        return Attribute(name, "int", low, high, None)

    def _hierarchy(self, section: Mapping[str, Any], path: Path) -> Hierarchy | None:
        """The hierarchy of a section that has either `values` or `hierarchy`."""
        # A key that was left out is None; a key with a mistake is not in the section.
        with_values, with_file = (section.get(key, "wrong") is not None for key in ("values", "hierarchy"))
        if with_values and with_file:
            self._wrong((*path, "hierarchy"), "cannot stand beside values; keep one of the two", at_key=True)
        elif not with_values and not with_file:
            self._wrong(path, "needs values or hierarchy")
        elif "values" in section and with_values:
            return flat_hierarchy(section["values"])
        elif "hierarchy" in section and with_file:
            return self._hierarchy_file(section["hierarchy"], (*path, "hierarchy"))
        return None

    def _hierarchy_file(self, file: str, path: Path) -> Hierarchy | None:
        content = self._files.get(file)
        if content is None:
            self._wrong(path, f"the file {file} cannot be read")
            return None
        try:
            return parse_hierarchy(content.decode())
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            self._wrong(path, f"{file}, line {line}: is not UTF-8")
        except HierarchyError as error:
            for mistake in error.mistakes[:SHOWN_PER_FILE]:
                self._wrong(path, f"{file}, {mistake}")
            if len(error.mistakes) > SHOWN_PER_FILE:
                self._wrong(path, f"{file}: and {len(error.mistakes) - SHOWN_PER_FILE} more mistakes")
        return None

    def sensitive(self, section: Mapping[str, Any], attributes: object) -> Sensitive | None:
        if not section:
            return None
        path: Path = ("sensitive",)
        name = section.get("name")
        if isinstance(attributes, dict) and name in attributes:
            self._wrong((*path, "name"), "is also the name of an attribute")
        hierarchy = self._hierarchy(section, path)
        codes = {key: self._leaves(section.get(key, []), hierarchy, (*path, key)) for key in ("permanent", "open")}
        for at, label in enumerate(section.get("open", [])):
            if label in section.get("permanent", []):
                self._wrong((*path, "open", at), f"{label!r} is also permanent")
        if name is None or hierarchy is None:
            return None
        return Sensitive(name, hierarchy, codes["open"], codes["permanent"])

    def _leaves(self, labels: list[str], hierarchy: Hierarchy | None, path: Path) -> frozenset[int]:
        if hierarchy is None:
            return frozenset()
        for at, label in enumerate(labels):
            if label not in hierarchy.node_of:
                hint = did_you_mean(label, hierarchy.leaves)
                self._wrong((*path, at), f"{label!r} is not a value of the sensitive attribute{hint}")
            elif label not in hierarchy.leaf_code:
                self._wrong((*path, at), f"{label!r} stands above other values; name the values themselves")
        return frozenset(hierarchy.leaf_code[label] for label in labels if label in hierarchy.leaf_code)

    def strategy(self, raw: object) -> Strategy | None:
        path: Path = ("privacy", "strategy")
        if not isinstance(raw, dict):
            self._wrong(path, "must be a mapping, as in {name: adaptive, releases: 10}")
            return None
        before = len(self._mistakes)
        read = read_one_of(STRATEGIES, "name", "", raw, path, self._mistakes)
        if read is None or len(self._mistakes) > before:
            return None
        name, parameters = read
        return STRATEGIES[name](**parameters)

    def model(self, read: Mapping[str, Any], sensitive: Sensitive | None) -> None:
        leaves = None
        if sensitive is not None:
            leaves = Leaves(len(sensitive.hierarchy.leaves), len(sensitive.permanent), len(sensitive.open))
        self._mistakes.extend(wrong_for_model(read, leaves))

    def scale(self, shards: int, attributes: tuple[Attribute, ...]) -> None:
        """Every shard is a region of its own, so there must be places for all of them."""
        if any(attribute.kind == "float" for attribute in attributes) or not attributes:
            return
        places = math.prod(int(attribute.high) - int(attribute.low) + 1 for attribute in attributes)
        if shards > places > 0:
            self._wrong(("scale", "shards"), f"must be at most {places}, the number of different quasi-identifiers")

    def triggers(self, section: Mapping[str, Any]) -> Triggers:
        path: Path = ("release",)
        at, timezone = section.get("at"), section.get("timezone")
        if at is not None:
            try:
                parse_cron(at)
            except CronError as error:
                self._wrong((*path, "at"), str(error))
        if timezone is not None:
            if section.get("at", "wrong") is None:
                self._wrong((*path, "timezone"), "has no effect without at", at_key=True)
            if not _is_timezone(timezone):
                hint = did_you_mean(timezone, sorted(available_timezones()), otherwise="; write it as in Europe/Vienna")
                self._wrong((*path, "timezone"), f"is not a known time zone{hint}")
        every_events, every_seconds = section.get("every_events"), section.get("every_seconds")
        return Triggers(every_events, every_seconds, at, timezone or "UTC", section.get("min_seconds") or 0.0)

    def case_ids(self, are_listed: bool, sensitive: Sensitive | None, participation: object) -> None:
        """A pseudonym that appears where a decoy's disappears would show who took over from whom."""
        if are_listed and sensitive is not None and sensitive.permanent and participation != "all":
            self._wrong(("release", "case_ids"), "with permanent values needs participation: all")


def _is_timezone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown; not a name at all; a folder of names
        return False
    return True
