"""`shoal demo`: the whole pipeline on a made-up clinic, with nothing installed but Python packages.

The broker and Redis are embedded and forget everything at the end; the worker is the real one, in a process of its own.
The demo leaves a folder: the policy and the events that went in, the releases as a consumer read them from the topic,
and the private membership. A replay of the same events must make the same bytes, and an audit must find every promise
kept; the demo checks both.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer, TopicPartition

from shoal.core.audit import Report
from shoal.core.events.intake import Intake
from shoal.core.policy.policy import Policy
from shoal.core.published.manifest import PublishedRelease
from shoal.streams.demo.attack import Findings, View, learn, tables, view_of
from shoal.streams.demo.clinic import Clinic, write_clinic
from shoal.streams.demo.embedded import Embedded
from shoal.streams.demo.naive import publish_naively
from shoal.streams.errors import GuaranteeError, InputError, ServiceError
from shoal.streams.files.audit import audit
from shoal.streams.files.event_lines import open_events
from shoal.streams.files.fresh_file import write_fresh
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.produce import Sent, Watcher, produce
from shoal.streams.files.release_folder import read_releases, release_name
from shoal.streams.files.replay import Job, replay
from shoal.streams.files.unwatched import Unwatched
from shoal.streams.kafka.access import client_options
from shoal.streams.kafka.release_reader import open_releases
from shoal.streams.kafka.topics import Topics, partition_counts
from shoal.streams.settings import Settings
from shoal.streams.sink.folder import FolderSink
from shoal.streams.sink.release_sink import deliver

SIGN = "made-by-shoal-demo.txt"
STOP_S = 10.0
WAIT_S = 60.0


class Narrator(Protocol):
    """Tells the viewer what happens."""

    def step(self, sentence: str) -> None: ...

    def sending(self, total: int) -> AbstractContextManager[Watcher]: ...


PUBLIC_KEY = "public: the key of the demo, for nothing else"
FIGURES = "figures.json"


@dataclass(frozen=True)
class Story:
    """Everything that is shown after a demo."""

    folder: Path
    policy: Policy
    sent: Sent
    dead_letters: Counter[str]
    releases: list[PublishedRelease]
    naive: Findings
    shoal: Mapping[str, Findings]  # by model of values: the one of the policy, and the other, replayed
    audit: Report
    took_s: float

    @property
    def figures(self) -> dict[str, Any]:
        """What README.md and docs/attacks.md tell of the demo; a test compares them."""
        found = {"each night": self.naive, **{model: self.shoal[model] for model in ("redrawn", "lasting")}}
        insider = self.audit.private and self.audit.private.attacks.played.insider
        return {
            "people": self.naive.claims.people,
            "releases": len(self.releases),
            "claims": {
                name: {key: getattr(one.claims, key) for key in ("sure", "sure_right", "over", "over_right")}
                for name, one in found.items()
            },
            "insider": None if insider is None else {"people": insider.people, "over": insider.over},
        }

    @property
    def manifests(self) -> list[Mapping[str, Any]]:
        return [dict(release.meaning) for release in self.releases]


def run_demo(folder: Path, clinic: Clinic, narrator: Narrator, secret: str = PUBLIC_KEY) -> Story:
    """Runs the demo. With the public key it shows the same figures everywhere.

    Raises `StreamsError`; the worker and the embedded services are stopped in any case.
    """
    began = time.monotonic()
    take_folder(folder)
    lines = write_clinic(folder / "clinic", clinic)
    policy = load_policy(folder / "clinic" / "policy.yaml")
    narrator.step(f"A made-up clinic: {lines:,} changes over {clinic.nights} nights.")
    with Embedded() as services:
        settings = Settings(kafka=services.kafka, redis=services.redis, embedded=True)
        narrator.step("An embedded broker and Redis, for trying things out only, and the real worker on them.")
        with _worker(folder, settings, secret) as worker:
            sent, dead_letters = asyncio.run(_pipeline(folder, settings, policy, worker, lines, narrator))
    narrator.step("The same events once more, through `shoal replay`: the releases must be the same bytes.")
    _replay(folder, policy, secret)
    releases = list(read_releases(folder / "releases"))
    _compare(folder, releases)
    narrator.step("An attacker who kept every release: Shoal's, and those of a publisher who ignores the past.")
    naive, shoal = _attack(folder, policy, releases, secret)
    narrator.step("The auditor, which shares no code with the engine, checks every promise against the truth.")
    report = _audit(folder, policy, secret)
    story = Story(folder, policy, sent, dead_letters, releases, naive, shoal, report, time.monotonic() - began)
    write_fresh(folder / FIGURES, json.dumps(story.figures, indent=2).encode() + b"\n")
    return story


def take_folder(folder: Path) -> None:
    """Prepares a folder for the demo: a new or empty one, or one of an earlier demo. Raises `InputError`."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is not a folder.")
    if folder.exists() and any(folder.iterdir()):
        if not (folder / SIGN).exists():
            raise InputError(f"{folder} is not empty and was not made by an earlier demo; choose another --out.")
        for name in ("clinic", "releases", "replay", "private", "other-model"):
            shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_fresh(folder / SIGN, b"This folder was made by `shoal demo`, which will use it again.\n")


@contextmanager
def _worker(folder: Path, settings: Settings, secret: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the worker in a process of its own, and stops it at the end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    environment |= {
        "SHOAL_KAFKA": settings.kafka,
        "SHOAL_REDIS": settings.redis,
        "SHOAL_POLICY": str((folder / "clinic" / "policy.yaml").resolve()),
        "SHOAL_KEY": secret,
        "SHOAL_EMBEDDED": "true",
        "SHOAL_WEB_PORT": "0",
    }
    (folder / "worker.log").unlink(missing_ok=True)  # it may be a link
    with (folder / "worker.log").open("xb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "shoal.streams.cli", "worker"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=folder / "clinic",  # away from any `.env` of the viewer
            start_new_session=True,  # Ctrl-C reaches this process only, which then stops the worker
        )
        try:
            yield worker
        finally:
            worker.terminate()
            try:
                worker.wait(STOP_S)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()


async def _pipeline(
    folder: Path,
    settings: Settings,
    policy: Policy,
    worker: "subprocess.Popen[bytes]",
    lines: int,
    narrator: Narrator,
) -> tuple[Sent, "Counter[str]"]:
    """Sends the events, waits for each release, and reads back what a consumer would."""
    async with _while_running(worker, folder / "worker.log"):
        narrator.step("The changes go to the events topic, and each night ends with a release.")
        source = str(folder / "clinic" / "events.jsonl")
        with open_events(policy, source) as events, narrator.sending(lines) as watcher:
            sent = await produce(settings, policy, events, watcher, wait_s=WAIT_S)
        narrator.step("The releases topic, read as any consumer would, and checked.")
        async with open_releases(settings.kafka_servers, policy.table, settings.connect_s) as reader:
            await deliver(reader, [FolderSink(folder / "releases", policy)])
        return sent, await _dead_letters(settings, policy, _count_rejected(policy, source))


@asynccontextmanager
async def _while_running(worker: "subprocess.Popen[bytes]", log: Path) -> AsyncIterator[None]:
    """Cancels the block if the worker ends before it, and says why the worker ended."""
    body = asyncio.current_task()
    assert body is not None

    async def watch() -> None:
        while worker.poll() is None:  # noqa: ASYNC110 - a Popen has no event to wait for
            await asyncio.sleep(0.1)
        body.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if worker.poll() is None:
            raise
        raise ServiceError(f"the worker stopped: {_last_line(log)}") from None
    finally:
        watcher.cancel()
        with suppress(asyncio.CancelledError):
            await watcher


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1].removeprefix("shoal: ") if lines else "it said nothing"


def _count_rejected(policy: Policy, source: str) -> int:
    """How many dead letters the events of a file must make."""
    intake, rejected = Intake(policy, {}), 0
    with open_events(policy, source) as lines:
        for line in lines:
            if line.event is None:
                rejected += 1
            elif line.event.get("op") != "release":
                rejected += intake.take(line.event) is not None
    return rejected


async def _dead_letters(settings: Settings, policy: Policy, expected: int) -> "Counter[str]":
    """How many dead letters there are of each reason. They may follow the release, so it waits for those expected."""
    topic = Topics(policy.table).dead_letter
    count = (await partition_counts(settings.kafka_servers)).get(topic, 0)
    consumer = AIOKafkaConsumer(
        **client_options(settings.kafka_servers), isolation_level="read_committed", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, number) for number in range(count)])
        reasons: Counter[str] = Counter()
        deadline = time.monotonic() + STOP_S
        while reasons.total() < expected and time.monotonic() < deadline:
            for messages in (await consumer.getmany(timeout_ms=200)).values():
                reasons.update(dict(message.headers)["reason"].decode() for message in messages)
        return reasons
    finally:
        await consumer.stop()


def _replay(folder: Path, policy: Policy, secret: str) -> None:
    _replay_to(folder, policy, secret, folder / "replay", folder / "private")


def _replay_to(folder: Path, policy: Policy, secret: str, out: Path, private: Path) -> None:
    events = str(folder / "clinic" / "events.jsonl")
    replay(Job(policy, events, out, audit=private, secret=secret.encode()), Unwatched())


def _compare(folder: Path, releases: list[PublishedRelease]) -> None:
    """The service's releases and the replay's must be the same bytes. Raises `GuaranteeError`."""
    if releases != list(read_releases(folder / "replay")):
        raise GuaranteeError("the releases of the service and of the replay differ.")


def _audit(folder: Path, policy: Policy, secret: str) -> Report:
    """What `shoal audit` finds. Raises `GuaranteeError` if a promise is broken."""
    events = [folder / "clinic" / "events.jsonl"]
    report = audit(policy, folder / "replay", folder / "private", events, secret.encode(), Unwatched())
    if not report.is_kept:
        raise GuaranteeError("the audit found a promise that was not kept; `shoal audit` says which.")
    return report


def _attack(
    folder: Path, policy: Policy, releases: list[PublishedRelease], secret: str
) -> tuple[Findings, Mapping[str, Findings]]:
    """What the attacker learns from the naive publisher's releases, and from Shoal's under either model of values."""
    lines = (folder / "clinic" / "events.jsonl").read_text(encoding="utf-8").splitlines()
    series = list(tables(policy, map(json.loads, lines)))
    naive = learn(policy, series, [publish_naively(policy, table) for table in series], is_naive=True)
    other = replace(policy, values="redrawn" if policy.values == "lasting" else "lasting")
    out, private = folder / "other-model" / "releases", folder / "other-model" / "private"
    _replay_to(folder, other, secret, out, private)
    shoal: dict[str, Findings] = {
        policy.values: learn(policy, series, _views(policy, releases, folder / "private")),
        other.values: learn(other, series, _views(other, list(read_releases(out)), private)),
    }
    return naive, shoal


def _views(policy: Policy, releases: list[PublishedRelease], private: Path) -> list[View]:
    found = []
    for release in releases:
        members = (private / f"{release_name(release.number)}.members.jsonl").read_text(encoding="utf-8").splitlines()
        rows = ((one["id"], one["group"], one["cell"], one.get("value")) for one in map(json.loads, members))
        found.append(view_of(policy, release, rows))
    return found
