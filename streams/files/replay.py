"""`shoal replay`: events from a file, through the same core as the service, into a folder, without a broker.

The promises are the service's: the ledger is charged before a release can be seen, and a number is only ever used for
one content. Each release goes through numbered steps. After a crash or a full disk between any two of them, the next
run with the same `--state` finishes the release or starts it again:

1. plan it;
2. stage its folder, unseen, and sync it to the disk;
3. write the private files for the audit;
4. save the state: the ledger, the line to resume from, the size of the file of rejects. Now the release exists;
5. show the folder under its name.
"""

import errno
import fcntl
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from shoal.core.events.event import Reason, Reject, ReleaseRequest, is_before, parse_json, parse_release
from shoal.core.events.intake import Intake
from shoal.core.overlap.external import ExternalGroup, parse_external
from shoal.core.plan import Window
from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.faults import crash_point
from shoal.streams.files.event_lines import BY_NAME, EventLines, Events, names_of, open_lines
from shoal.streams.files.formats.format import EventLine, FormatChoice
from shoal.streams.files.fresh_file import PRIVATE, open_private, write_fresh
from shoal.streams.files.names import Names
from shoal.streams.files.policy_change import Changes, policy_at
from shoal.streams.files.rejects import Tally, rejects_beside
from shoal.streams.files.release_folder import ReleaseFolder, release_name
from shoal.streams.files.replay_series import Series, open_series
from shoal.streams.files.replay_state import Position, SavedState, StateFile
from shoal.streams.memory import without_cycle_search


@dataclass(frozen=True)
class Job:
    """One replay: what to read, and where to write. Without a secret the state's is kept, or a new one drawn.

    `policy` is the one that the table began with, if `changes` name others.
    """

    policy: Policy
    events: Events
    out: Path
    audit: Path | None = None
    state: Path | None = None
    secret: bytes | None = None
    format: FormatChoice = BY_NAME
    changes: Changes = field(default_factory=dict)
    jobs: int = 1  # processes that plan shards
    rejects: Path | None = None  # which events had no effect, and why; beside OUT unless named

    @property
    def rejects_path(self) -> Path:
        return self.rejects or rejects_beside(self.out)


@dataclass
class Outcome:
    """What a replay did. `waiting` accepted events came after the last release, from line `resume_line` on."""

    releases: int = 0
    last_release: int = 0
    accepted: int = 0
    rejected: int = 0
    waiting: int = 0
    resume_line: int = 1
    manifest: Mapping[str, Any] | None = None
    left_out: int = 0  # rows that a mapping leaves out
    rejects: Tally = field(default_factory=Tally)

    @property
    def is_anybody_there(self) -> bool:
        """Whether the last release is about anybody, shown or not."""
        made = self.manifest
        return made is not None and made["people"] + made["withheld"] + made["unsampled"] > 0


class Watcher(Protocol):
    """Shows a run's progress."""

    def note(self, sentence: str) -> None: ...

    def begin(self, total: int | None) -> None: ...

    def read(self, size_bytes: int) -> None: ...

    def released(self, number: int) -> None: ...


def replay(job: Job, watcher: Watcher) -> Outcome:
    """Runs a job to the end of its events. Raises `StreamsError`; every release made before then stays."""
    refuse_misplaced(job)
    outcome = Outcome()
    with _explained(job, outcome), ExitStack() as stack:
        lines = stack.enter_context(open_lines(job.policy, job.events, job.format))
        file = stack.enter_context(StateFile(job.state).locked()) if job.state else None
        saved = file.load(job.policy, job.secret, job.changes) if file else None
        refuse_occupied(job.out, saved)
        secret = job.secret or (saved.secret if saved else secrets.token_urlsafe(32).encode())
        policy = policy_at(saved.state.meta.release if saved else 0, job.policy, job.changes)
        series = stack.enter_context(
            open_series(policy, job.changes, secret, saved, job.state, jobs=job.jobs, has_audit=job.audit is not None)
        )
        run = _Run(job, lines, file, secret, saved, series, outcome, watcher)
        run.prepare(stack)
        run.go()
    return outcome


def refuse_misplaced(job: Job) -> None:
    """Raises `InputError` if a private file would be written into the folder that is published."""
    out = job.out.resolve()
    for option, path in (("--audit", job.audit), ("--state", job.state), ("--rejects", job.rejects)):
        if path is not None and (path.resolve() == out or out in path.resolve().parents):
            raise InputError(f"{option} is private and must not be inside --out, which is published.")
    for folder in (job.out, job.audit):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is not a folder.")


def refuse_occupied(out: Path, saved: SavedState | None) -> None:
    """Raises `InputError` if there are releases in OUT and their state was not given: nothing may be added to them."""
    if saved is None and out.exists() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; choose another --out, or give the --state of the releases in it.")


class _Run:
    """A replay under way."""

    def __init__(
        self,
        job: Job,
        lines: EventLines,
        file: StateFile | None,
        secret: bytes,
        saved: SavedState | None,
        series: Series,
        outcome: Outcome,
        watcher: Watcher,
    ) -> None:
        self._job, self._lines, self._file, self._secret, self._watcher = job, lines, file, secret, watcher
        self._position = saved.position if saved else Position.start()
        self._is_new = saved is None
        self._series = series
        self._names = Names(job.audit, series.keyed) if job.audit else None
        self._folder = ReleaseFolder(job.out, [attribute.name for attribute in job.policy.attributes])
        self._intake = self._open_intake()
        self._externals: list[ExternalGroup] = []  # of the open window
        self._last_at: str | None = None  # the last time that a release has named
        self._rejects: IO[bytes]
        self._outcome = outcome
        self._outcome.last_release = series.meta.release

    def _open_intake(self) -> Intake:
        roster, held = self._series.known()
        handle_of = self._names.handle if self._names else self._series.keyed.handle
        return Intake(self._series.policy, roster, held=held, handle_of=handle_of)

    def prepare(self, stack: ExitStack) -> None:
        """Brings OUT to where the state is: finishes or removes what a crash left, and cuts the file of rejects."""
        if self._file and self._is_new:
            # Saved before anything is written to OUT, so that a run can resume from any crash after this line.
            self._file.path.parent.mkdir(parents=True, exist_ok=True)
            self._series.save(self._file, self._secret, self._position)
        self._series.tidy()
        self._job.out.mkdir(parents=True, exist_ok=True)
        stack.enter_context(_locked(self._job.out))
        self._folder.finish(self._series.meta.release, self._series.meta.manifest)
        self._last_at = self._folder.last_time(self._series.meta.release)
        if self._job.audit and self._names:
            self._job.audit.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._names.open(self._intake.roster)
        # Private: with the order of events, a rejected update tells who has a permanent value.
        self._rejects = stack.enter_context(open_private(self._job.rejects_path))
        self._rejects.truncate(min(self._position.rejects_bytes, self._rejects.tell()))
        self._rejects.seek(0, os.SEEK_END)

    def go(self) -> None:
        """Reads the events to their end."""
        done = self._position.line
        if self._lines.skip(done, self._position.digest):
            if done:
                self._watcher.note(f"goes on after line {done:,}, where release {self._series.meta.release} was made.")
        elif done and self._lines.is_panel:
            raise InputError(
                "the periods that were released before are missing or differ: give all periods of a panel again, "
                "unchanged, and the new ones with them."
            )
        elif done:
            names = names_of(self._job.events)
            name = "the list of events" if names is None else ", ".join(names)
            self._watcher.note(
                f"{name} does not begin with the {done:,} lines done before, so all of it is taken as new."
            )
        self._outcome.resume_line = self._lines.number + 1
        self._watcher.begin(self._lines.size_bytes)
        for block in self._lines.blocks():
            self._take(block)
        self._outcome.waiting = self._intake.accepted
        self._outcome.accepted += self._intake.accepted
        self._outcome.left_out = self._lines.left_out
        self._rejects.flush()

    def _take(self, block: list[bytes]) -> None:
        """Takes one block of lines. This is the only loop that runs once per event."""
        take, every = self._intake.take, self._series.policy.triggers.every_events or 0
        first, done = self._lines.number + 1, 0
        rejected: Reject | None
        for index, raw in enumerate(block):
            event = parse_json(raw)
            if isinstance(event, dict) and event.get("op") == "release":
                request = parse_release(event)
                if isinstance(request, ReleaseRequest) and not is_before(request.at, self._last_at):
                    done = self._done(block, done, index + 1)
                    self._release(request.at)
                    take, every = self._intake.take, self._series.policy.triggers.every_events or 0
                    continue
                out_of_order = Reject(Reason.OUT_OF_ORDER, "release", "at")
                rejected = request if isinstance(request, Reject) else out_of_order
            elif isinstance(event, Reject):
                if not raw.strip():
                    continue  # a blank line
                rejected = event
            elif isinstance(event, dict) and event.get("op") == "external":
                rejected = self._take_external(event)
            else:
                rejected = take(event)
            if rejected is not None:
                self._reject(first + index, rejected, raw)
            elif every and self._intake.accepted >= every:
                done = self._done(block, done, index + 1)
                self._release(None)
                take, every = self._intake.take, self._series.policy.triggers.every_events or 0
        self._done(block, done, len(block))

    def _take_external(self, event: dict[str, Any]) -> Reject | None:
        """Takes what another publisher has released; it counts as an event like any other."""
        read = parse_external(event, self._series.policy)
        if isinstance(read, Reject):
            return read
        self._externals += read.groups
        self._intake.accepted += 1
        return None

    def _done(self, block: list[bytes], start: int, end: int) -> int:
        """Counts lines of a block as done, and returns the index of the next line."""
        lines = block[start:end]
        self._lines.done(lines)
        self._watcher.read(sum(map(len, lines)) + len(lines))
        return end

    def _reject(self, line: int, reject: Reject, raw: bytes) -> None:
        file = None
        if isinstance(raw, EventLine):
            line, file, reject = raw.number, raw.file, raw.reject or reject
        known = {"line": line, "op": reject.op, "reason": str(reject.reason), "field": reject.field, "file": file}
        known = {name: value for name, value in known.items() if value is not None}
        self._rejects.write(json.dumps(known).encode() + b"\n")
        self._outcome.rejected += 1
        self._outcome.rejects.add(reject, line, file)

    def _release(self, at: str | None) -> None:
        series, number = self._series, self._series.meta.release + 1
        self._outcome.accepted += self._intake.accepted
        window = Window(at, {0: self._intake.cut()}, self._externals)
        self._externals = []
        people = list(window.deltas[0]) if self._names else []
        with without_cycle_search():
            manifest = series.plan(window)  # 1
        crash_point("replay.1")
        try:
            series.stage(self._folder)  # 2
            crash_point("replay.2")
            self._write_audit(number, people)  # 3
            crash_point("replay.3")
        except BaseException:
            self._folder.discard(number)  # nobody was charged for it, and the disk may be full
            raise
        series.apply()
        if number in self._job.changes:
            self._intake = self._open_intake()
        self._save()  # 4
        crash_point("replay.4")
        self._folder.show(number)  # 5
        crash_point("replay.5")
        series.tidy()
        self._outcome.releases += 1
        self._outcome.last_release = number
        self._outcome.resume_line = self._lines.number + 1
        self._outcome.manifest = json.loads(manifest)
        self._last_at = at or self._last_at
        self._watcher.released(number)

    def _write_audit(self, number: int, people: Iterable[str]) -> None:
        if self._job.audit is None or self._names is None:
            return
        self._names.write(people)
        name, (members, cohorts) = release_name(number), self._series.private(self._names)
        write_fresh(self._job.audit / f"{name}.members.jsonl", "".join(members).encode(), PRIVATE)
        listed = json.dumps(cohorts, ensure_ascii=False) + "\n"
        write_fresh(self._job.audit / f"{name}.cohorts.json", listed.encode(), PRIVATE)

    def _save(self) -> None:
        if self._file is None:
            return
        self._rejects.flush()
        os.fsync(self._rejects.fileno())
        position = Position(self._lines.number, self._lines.digest.digest(), self._rejects.tell())
        self._series.save(self._file, self._secret, position)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keeps two runs from writing to one folder at once."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder} is in use by another run of `shoal replay`.") from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _explained(job: Job, outcome: Outcome) -> Iterator[None]:
    """Turns a failed write into a sentence that says which releases are whole and what to do."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of our output has gone; nothing is wrong with the files
    except OSError as error:
        reason = "there is no space left on the disk" if error.errno == errno.ENOSPC else os.strerror(error.errno or 0)
        number = outcome.last_release
        intact = f"every release up to {number} is whole" if number else "no release was made"
        then = "run the same command again" if job.state else "run the command again with an empty --out"
        place = error.filename or job.out
        raise InputError(f"{place} could not be written: {reason}; {intact}; correct this and {then}.") from error
