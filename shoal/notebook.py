"""The functions of the public interface: load a policy, replay events, read releases, audit them.

They do what the commands of the same names do, and return plain lists and dicts. Import them from `shoal`.
"""

import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, cast

from shoal.core.audit import Report
from shoal.core.errors import CoreError
from shoal.core.measure.count import METHODS, Answers, Count, Method
from shoal.core.measure.cross_table import Rows, cross_table, read_head
from shoal.core.measure.question import read_question
from shoal.core.measure.release_reader import read_columns
from shoal.core.policy.policy import Policy
from shoal.core.published.manifest import Manifest, PublishedRelease
from shoal.streams.errors import InputError
from shoal.streams.files import audit as audit_files
from shoal.streams.files import policy_yaml
from shoal.streams.files import replay as replay_files
from shoal.streams.files.event_lines import Events
from shoal.streams.files.formats.format import FormatChoice
from shoal.streams.files.frames import Frames, answer_columns, make_frame, make_frames
from shoal.streams.files.release_folder import read_regions, region_text, release_numbers, row_count
from shoal.streams.files.unwatched import Unwatched
from shoal.streams.files.whole_releases import whole_from, whole_release, whole_releases
from shoal.streams.settings import load_settings

Location = str | os.PathLike[str]
Columns = dict[str, list[Any]]
T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class Release:
    """One release: a line of JSON for each cell and each group as they stand in it, and `manifest_json`.

    These are the published bytes. Where a release holds only what changed, they are put together with those before it.
    """

    number: int
    cell_records: tuple[bytes, ...]
    group_records: tuple[bytes, ...]
    manifest_json: bytes
    policy: Policy | None = field(default=None, compare=False)
    """The policy that it was read with, if any."""
    _read: list[Answers] = field(default_factory=list, init=False, compare=False)  # filled by the first count

    def __repr__(self) -> str:
        """Short enough for a notebook: the records are not in it."""
        told = self.manifest
        return f"<release {self.number} of {told['table']}: {told['people']} people, {told['groups']} groups>"

    @property
    def records(self) -> tuple[bytes, ...]:
        """All lines in the order of a full release, without the manifest."""
        return self.cell_records + self.group_records

    @property
    def manifest(self) -> dict[str, Any]:
        """What the release says about itself: how many people and groups, the largest breach, the chain's digests."""
        return dict(self._head.told)

    @cached_property
    def _head(self) -> Manifest:
        return Manifest(self.manifest_json)

    def cells(self) -> list[dict[str, Any]]:
        """The cells, as they were published."""
        return [json.loads(record) for record in self.cell_records]

    def groups(self) -> list[dict[str, Any]]:
        """The groups, as they were published."""
        return [json.loads(record) for record in self.group_records]

    def rows(self) -> Columns:
        """Columns with one item per published row: its group, its cell, and each attribute as `rows.csv` writes it."""
        columns: Columns = {"group": [], "cell": []}
        regions = read_regions(self.cell_records)
        for group in self.groups():
            for cell, shown in group["cells"].items():
                count = row_count(shown)
                columns["group"] += [group["group"]] * count
                columns["cell"] += [cell] * count
                for name, part in regions[cell].items():
                    columns.setdefault(name, []).extend([region_text(part)] * count)
        return columns

    def values(self) -> Columns:
        """Columns with one item per sensitive value that a group shows: the group, the value, and how often."""
        columns: Columns = {"group": [], "value": [], "count": []}
        for group in self.groups():
            for value, count in group["sensitive"].items():
                columns["group"].append(group["group"])
                columns["value"].append(value)
                columns["count"].append(count)
        return columns

    def count(self, policy: Policy | None = None, /, *, method: Method = "model", **where: object) -> Count:
        """A count with its ranges: `release.count(age=(30, 50), disease=["asthma"])`.

        A release that was read without its policy needs it here, as the first argument.

        A number attribute takes a number or a pair of ends, both included, None for no end; a category and the
        sensitive attribute take a label or several. With values it counts values of people of the region, without any
        it counts people. The truth about everything this release shows is from `low` to `high`, and nine times in ten
        within `likely`. Withheld people, and values that are not shown, are in no count.

        `estimate` comes from a model of which values people have where, fitted to this release when it is first asked.
        With method="even" each value of a group is as likely any row's, and `likely` is all that is certain.

        Raises `InputError` for a condition that cannot be read, or another policy than the release was made with.
        """
        answers = self._answers(policy, method)
        try:
            return answers.count(read_question(answers.release.policy, where), method)
        except CoreError as error:
            raise InputError(f"{error}.") from None

    def table(
        self,
        policy: Policy | None = None,
        /,
        *,
        rows: Rows,
        values: str | Sequence[str] | None = None,
        method: Method = "model",
        kind: str = "pandas",
        **where: object,
    ) -> Any:
        """A cross table as a data frame: `release.table(rows={"age": [0, 30, 60]}, values=["asthma", "gout"])`.

        `rows` names an attribute or several, or says how each is cut: a number by a list of where its bins begin, a
        category by labels. `values` are labels of the sensitive attribute; without any, those below its root. A line
        has a bin of each attribute, its `people`, a value, and its count in the columns `estimate`, `likely_low`,
        `likely_high`, `low` and `high`. `where` and `method` are as in `count`, `kind` as in `frames`.

        Raises `InputError` as `count` does, and if the table would have more than 100,000 lines.
        """
        answers = self._answers(policy, method)
        try:
            head = read_head(answers, rows, values, where)
        except CoreError as error:
            raise InputError(f"{error}.") from None
        lines = list(cross_table(answers, head, method))
        bins = {name: [line.bins[at] for line in lines] for at, name in enumerate(head.attributes)}
        named = {answers.release.policy.sensitive.name: [line.value for line in lines]}
        people: Columns = {"people": [line.people for line in lines]}
        return make_frame({**bins, **named}, people | answer_columns([line.answer for line in lines]), kind)

    def _answers(self, policy: Policy | None, method: str) -> Answers:
        """The release with its policy, read and fitted once."""
        if method not in METHODS:
            raise InputError(f"the method is {' or '.join(METHODS)}.")
        policy = policy or self.policy
        if policy is None:
            raise InputError("a count needs the policy: name it here, or when the release is read.")
        if self.manifest["policy"] != policy.digest:
            raise InputError("the release was made with another policy; load the one that was published with it.")
        if not self._read:
            try:
                self._read.append(Answers(read_columns(policy, self.records)))
            except CoreError as error:
                raise InputError(f"{error}.") from None
        return self._read[0]

    def frames(self, kind: str = "pandas") -> Frames:
        """The tidy tables `cells`, `rows` and `values` as data frames, of pandas or, with "polars", of Polars.

        Their columns are those of `shoal export`. Raises `InputError` if the package is not installed; the extra
        `analysis` has both.
        """
        return make_frames(PublishedRelease(self.number, self.cell_records, self.group_records, self._head), kind)


class Releases(list[Release]):
    """Releases of one table, in order."""

    def trend(
        self, policy: Policy | None = None, /, *, method: Method = "model", kind: str = "pandas", **where: object
    ) -> Any:
        """One count over all releases, as a data frame: `releases.trend(age=(0, 17), disease="asthma")`.

        A line has the number of a `release`, when it was `published_at`, and the count in the columns `estimate`,
        `likely_low`, `likely_high`, `low` and `high`. Arguments and errors are those of `Release.count`.
        """
        counts = [release.count(policy, method=method, **where) for release in self]
        when: Columns = {
            "release": [release.number for release in self],
            "published_at": [release.manifest["published_at"] for release in self],
        }
        return make_frame(when, answer_columns(counts), kind)


@dataclass(frozen=True)
class Replay:
    """What a replay did.

    `releases` are those that this run made. `waiting` counts the accepted events after the last release. Each of
    `rejects` has the line (from 1) and the reason, and nothing that the event said.
    """

    releases: tuple[Release, ...]
    accepted: int
    waiting: int
    rejects: tuple[Mapping[str, Any], ...]


def _source(events: Location | Sequence[Location] | Iterable[Mapping[str, Any]]) -> Events:
    """The paths of events as text, or the events themselves."""
    if isinstance(events, str | os.PathLike):
        return os.fspath(events)
    if isinstance(events, list | tuple) and events and all(isinstance(one, str | os.PathLike) for one in events):
        return tuple(os.fspath(one) for one in events)
    return cast(Iterable[Mapping[str, Any]], events)


def load_policy(path: Location) -> Policy:
    """The policy in a YAML file, with the hierarchies it names. Raises `InputError`, which lists every mistake."""
    return policy_yaml.load_policy(Path(path))


def replay(
    policy: Policy,
    events: Location | Sequence[Location] | Iterable[Mapping[str, Any]],
    out: Location | None = None,
    *,
    private: Location | None = None,
    state: Location | None = None,
    key: str | bytes | None = None,
    format: str | None = None,  # noqa: A002 - the word a caller looks for
    mapping: Location | None = None,
) -> Replay:
    """Replays events into the folder `out`, or, without one, into memory only.

    `events` is the path of a file, a list of paths, or the events themselves as dicts; {"op": "release"} makes a
    release. `format` and `mapping` are what `shoal replay` calls --csv and --map. `private` is a folder for who was
    published where, which an audit needs. `state` is a file to resume from. `key` is the secret that all randomness
    comes from: the same events and key give the same bytes, and without one a new one is drawn.

    Raises `StreamsError`; every release that was made until then is whole.
    """
    if out is None:
        if private is not None or state is not None:
            raise InputError("a replay in memory has no private files and no state; give a folder `out`.")
        with TemporaryDirectory(prefix="shoal-") as folder:
            return replay(policy, events, Path(folder) / "out", key=key, format=format, mapping=mapping)
    source = _source(events)
    choice = FormatChoice(format, _path(mapping))
    job = replay_files.Job(policy, source, Path(out), _path(private), _path(state), _bytes(key), choice)
    outcome = replay_files.replay(job, Unwatched())
    numbers = range(outcome.last_release - outcome.releases + 1, outcome.last_release + 1)
    made = tuple(_release(files, policy) for files in whole_from(Path(out), numbers))
    rejects = job.rejects_path.read_bytes().splitlines()[-outcome.rejected :]
    read = tuple(json.loads(line) for line in rejects) if outcome.rejected else ()
    return Replay(made, outcome.accepted, outcome.waiting, read)


def read_releases(out: Location, *, policy: Policy | Location | None = None) -> Releases:
    """The releases in a folder, in order. With the policy that was published with them, they can count.

    Raises `InputError` if one cannot be read, and `GuaranteeError` if their chain is broken: if one is missing,
    changed, or does not follow from the one before it.
    """
    if not Path(out).is_dir():
        raise InputError(f"{out} is not a folder of releases.")
    rules = _policy(policy)
    return Releases(_release(files, rules) for files in whole_releases(Path(out)))


def read_topic(policy: Policy, *, kafka: str | None = None) -> Releases:
    """The releases on a table's topic, in order. `kafka` and how to get in come from the settings unless given.

    Raises `GuaranteeError` if their chain is broken, `ServiceError` without Kafka, `InputError` without the topic.
    """
    from shoal.streams.files.topic_releases import topic_releases  # Kafka's client takes a while to import

    settings = load_settings(kafka=kafka)
    return _beside(lambda: Releases(_release(one, policy) for one in topic_releases(settings, policy.table)))


def read_release(
    place: Location, number: int | None = None, *, policy: Policy | Location | None = None, kafka: str | None = None
) -> Release:
    """One release, the newest unless a number is named, of a folder or of a topic such as "shoal.ward.releases".

    With the policy that was published with it, it can count. A topic needs the policy; `kafka` is as in `read_topic`.
    The release is checked to be what its manifest says, and the chain of releases is not, but for those that it needs:
    if it holds only what changed, they are read back to the last ones in full.

    Raises `InputError` if there is no such release or it cannot be read, `GuaranteeError` if it was changed or one that
    it needs is missing, and for a topic what `read_topic` does.
    """
    rules = _policy(policy)
    if Path(place).is_dir() or not _is_topic(place):
        return _release(whole_release(Path(place), number or _newest(place)), rules)
    if rules is None or os.fspath(place) != f"shoal.{rules.table}.releases":
        raise InputError("a topic is read with the policy of its table: name it as `policy`.")
    from shoal.streams.files.topic_releases import topic_release  # as above

    settings, table = load_settings(kafka=kafka), rules.table
    found = _beside(lambda: topic_release(settings, table, number))
    if found is None:
        raise InputError(f"{place} has no release {number}." if number else f"{place} has no releases.")
    return _release(found, rules)


def audit(
    policy: Policy,
    out: Location,
    *,
    private: Location | None = None,
    events: Sequence[Location] = (),
    external: Sequence[Location] = (),
    key: str | bytes | None = None,
    format: str | None = None,  # noqa: A002 - as in `replay`
    mapping: Location | None = None,
) -> Report:
    """Checks every promise for the releases in a folder, as `shoal audit` does, trusting nothing that made them.

    With `private` (what `replay` wrote) and `events` (files that led to the releases, in order) against the truth;
    with neither, what anyone can check. `external` is what others had published before. People appear in the report
    under pseudonyms made with `key`. `format` and `mapping` say how `events` are written, as in `replay`. `is_kept`
    says whether no promise is broken; `as_json()` is the whole report.

    Raises `InputError` if something cannot be read.
    """
    if (private is None) != (not events):
        raise InputError("`private` and `events` go together.")
    secret = _bytes(key) or secrets.token_bytes(32)
    paths = [Path(path) for path in events]
    others = [Path(path) for path in external]
    choice = FormatChoice(format, _path(mapping))
    return audit_files.audit(
        policy, Path(out), _path(private), paths, secret, Unwatched(), external=others, choice=choice
    )


def _release(found: PublishedRelease, policy: Policy | None) -> Release:
    """What a caller is given of a release in full."""
    return Release(found.number, found.cells, found.groups, found.manifest, policy)


def _beside(read: Callable[[], T]) -> T:
    """Run it in a thread: a notebook has an event loop of its own, which must not be entered twice."""
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(read).result()


def _newest(folder: Location) -> int:
    if not Path(folder).is_dir():
        raise InputError(f"{folder} is neither a folder of releases nor a topic of them.")
    numbers = release_numbers(Path(folder))
    if not numbers:
        raise InputError(f"{folder} has no releases in it.")
    return numbers[-1]


def _is_topic(place: Location) -> bool:
    name = os.fspath(place)
    return name.startswith("shoal.") and name.endswith(".releases")


def _policy(policy: Policy | Location | None) -> Policy | None:
    return load_policy(policy) if isinstance(policy, str | os.PathLike) else policy


def _path(location: Location | None) -> Path | None:
    return None if location is None else Path(location)


def _bytes(key: str | bytes | None) -> bytes | None:
    if key is not None and not key:
        raise InputError("an empty key is no secret.")
    return key.encode() if isinstance(key, str) else key
