"""`make soak`: fifty kills at random moments, and an hour of every fault there is, in an order nobody chose.

After each fault the judge, who reads only the topics, says whether everything published so far is right; when a table
is done, also whether anything is missing. SHOAL_SOAK_MINUTES says how long the second takes (60), SHOAL_SOAK_SEED
repeats a run's choices; moments still differ.
"""

import contextlib
import os
import random
import secrets
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deploy.local import Local, Service
from tests.fault.scene import KINDS, PATIENCE_S, Scene, signal_all
from tests.fault.tally import Tally, Waits
from tests.fault.test_crash_points import POINTS
from tests.support.services.any_redis import OtherRedis, hand_over
from tests.support.services.clock import FakeClock
from tests.support.services.frail import Frail, SmallDisk
from tests.support.services.proxy import Proxy
from tests.support.services.table import Worker

pytestmark = pytest.mark.soak

_MINUTES = float(os.environ.get("SHOAL_SOAK_MINUTES", "60"))
_KILLS = 50
_KILLS_PER_TABLE = 10  # the judge makes every release of a table again, so no table lives for ever
_TABLE_S = 240.0
_TWO_YEARS_S = 2 * 365 * 86_400
_FAULTS = (
    "kill", "kill", "leave", "join", "join", "crash", "crash", "sleep", "wake", "lose_redis", "lose_kafka", "hang",
    "slow", "cut", "cut", "fill_memory", "fill_redis_disk", "fill_kafka_disk", "jump", "mistake", "fail_over",
)  # fmt: skip
"""Methods of `_Trouble`; those that are there twice come twice as often."""


@pytest.mark.timeout(3600)
def test_fifty_kills_at_random_moments_under_load_lose_nothing(native_services: Local, tmp_path: Path) -> None:
    dice = _dice()
    kills = 0
    for _ in range(_KILLS // _KILLS_PER_TABLE):
        with _scene(native_services, tmp_path, dice) as scene:
            worker = scene.start()
            scene.settle()
            with scene.load(pause_s=0.2):
                for _ in range(_KILLS_PER_TABLE):
                    time.sleep(dice.uniform(0.5, 6.0))  # also before it has begun to work
                    worker.kill()
                    kills += 1
                    scene.judge(complete=False)
                    worker = scene.start()
                worker.await_log("ingest.loaded", PATIENCE_S)
            scene.finish()
            print(f"{kills} kills; {_account(scene)}", flush=True)


@pytest.mark.timeout(60 * _MINUTES + 1800)
def test_an_hour_of_mixed_faults_loses_nothing(frail: Frail, clock: FakeClock, tmp_path: Path) -> None:
    dice, tally, deck = _dice(), Tally(), list[str]()
    end = time.monotonic() + 60 * _MINUTES
    try:
        while time.monotonic() < end:
            with _scene(frail.services, tmp_path, dice, frail.wired) as scene, Waits(scene) as waits:
                trouble = _Trouble(scene, frail, clock, dice, tmp_path, deck)
                scene.settle()
                with scene.load(pause_s=0.3):
                    trouble.make_until(min(end, time.monotonic() + _TABLE_S))
                tally.made.update(trouble.made)
                trouble.is_over()
                releases = scene.finish()
                for disk in (frail.kafka_disk, frail.redis_disk):
                    assert disk.free_share > 0.3, "the disks are too small for an hour of tables"
            tally.add(scene, releases, waits.longest_s)
            print(f"{_account(scene)} came through {dict(trouble.made)}", flush=True)
    except BaseException:
        for service in frail.services:
            shutil.copy(service.log_path, tmp_path)
        print(f"the logs of faults, workers and services are in {tmp_path}", flush=True)
        raise
    finally:
        print(tally, flush=True)


class _Trouble:
    """Faults, one after the other and sometimes two at once."""

    def __init__(
        self, scene: Scene, frail: Frail, clock: FakeClock, dice: random.Random, folder: Path, deck: list[str]
    ) -> None:
        self._scene, self._frail, self._services, self._dice = scene, frail, frail.services, dice
        self._clock, self._folder, self._deck = clock, folder, deck
        self._workers: list[Worker] = [scene.start_ready()]
        self._asleep: list[Worker] = []
        self._doomed: list[Worker] = []  # those that will kill themselves, perhaps while they are asked to leave
        self.made: Counter[str] = Counter()

    def make_until(self, end: float) -> None:
        while time.monotonic() < end:
            if not self._deck:  # each comes, before one comes again
                self._deck += self._dice.sample(_FAULTS, len(_FAULTS))
            fault = self._deck.pop()
            self._note(f"{fault} begins")
            getattr(self, fault)()
            self._note(f"{fault} is over")
            self.made[fault] += 1
            self._tidy()
            self._judge()
            time.sleep(self._dice.uniform(0.0, 4.0))

    def _note(self, what: str) -> None:
        """For whoever reads the workers' logs beside it."""
        with (self._folder / "faults.log").open("a") as notes:
            notes.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ} {self._scene.name} {what}\n")

    def is_over(self) -> None:
        """Everybody is awake, and somebody is at work who will not kill themselves."""
        for worker in list(self._asleep):
            self._wake(worker)
        self._tidy()
        if all(worker in self._doomed for worker in self._workers):
            self._workers.append(self._scene.start_ready())

    def _judge(self) -> None:
        """A broker that has had no room may end long after it has some again; then an operator starts it."""
        try:
            self._scene.judge(complete=False)
        except TimeoutError:
            self._services.kafka.restart()
            self._scene.judge(complete=False)

    @property
    def _awake(self) -> list[Worker]:
        return [worker for worker in self._workers if worker not in self._asleep]

    def kill(self) -> None:
        if self._workers:
            self._dice.choice(self._workers).kill()

    def leave(self) -> None:
        """SIGTERM. Before a worker listens to it, Python itself ends, with another code."""
        at_work = [worker for worker in self._awake if "worker.start" in worker.log]
        if at_work:
            worker = self._dice.choice(at_work)
            code = worker.stop(PATIENCE_S)
            assert code == 0 or (code == -signal.SIGKILL and worker in self._doomed), worker.log

    def join(self) -> None:
        if len(self._workers) < 3:
            self._workers.append(self._scene.start())

    def crash(self) -> None:
        """A worker that will kill itself right after some step, if it ever gets there."""
        point = self._dice.choice(POINTS).partition(":")[0]
        if len(self._workers) < 3:
            self._doomed.append(self._scene.start(CRASH_AT=f"{point}:{self._dice.randrange(1, 6)}"))
            self._workers.append(self._doomed[-1])

    def sleep(self) -> None:
        if self._awake:
            worker = self._dice.choice(self._awake)
            signal_all(worker, signal.SIGSTOP)
            self._asleep.append(worker)

    def wake(self) -> None:
        if self._asleep:
            self._wake(self._asleep[0])

    def lose_redis(self) -> None:
        self._lose(self._services.redis)

    def lose_kafka(self) -> None:
        self._lose(self._services.kafka)

    def hang(self) -> None:
        service = self._dice.choice(self._services)
        service.pause()
        time.sleep(self._dice.uniform(0.5, 5.0))
        service.resume()

    def slow(self) -> None:
        wire = self._dice.choice(self._wires)
        wire.slow(self._dice.uniform(0.05, 0.5))
        time.sleep(self._dice.uniform(1.0, 6.0))
        wire.heal()

    def cut(self) -> None:
        """Either wire or both, one way or both, for less than a session or for longer than any time limit."""
        wires = self._dice.choice((self._wires[:1], self._wires[1:], self._wires))
        ways = self._dice.choice(({}, {"requests": False}, {"answers": False}))
        is_torn = self._dice.random() < 0.5
        for wire in wires:
            wire.cut(**ways)
        time.sleep(45.0 if self._dice.random() < 0.1 else self._dice.uniform(0.2, 6.0))
        for wire in wires:
            wire.heal(torn=is_torn)

    def fill_memory(self) -> None:
        with self._scene.connect() as admin:
            admin.config_set("maxmemory", 1)
            time.sleep(self._dice.uniform(0.5, 5.0))
            admin.config_set("maxmemory", 0)

    def fill_redis_disk(self) -> None:
        self._fill(self._frail.redis_disk, self._services.redis)

    def fill_kafka_disk(self) -> None:
        self._fill(self._frail.kafka_disk, self._services.kafka)

    def jump(self) -> None:
        """The clock of some workers, by up to two years either way; those who are there already keep theirs."""
        if len(self._workers) < 3:
            self._workers.append(self._scene.start_under(self._clock.environment))
        self._clock.jump(self._dice.randrange(-_TWO_YEARS_S, _TWO_YEARS_S))

    def mistake(self) -> None:
        """A worker with another Redis. It may find that a service is away, and nothing else may come of it."""
        stranger = self._scene.start(REDIS=self._scene.redis.rpartition("/")[0] + "/1")
        code = self._scene.await_exit(stranger)
        assert code in (1, 2, 3), f"exit code {code}:\n{stranger.log[-3000:]}"

    def fail_over(self) -> None:
        """Redis hands over to a replica that has everything, which hands back after a while."""
        primary = self._services.redis
        with OtherRedis(Path(tempfile.mkdtemp(dir=self._folder)), [f"replicaof 127.0.0.1 {primary.port}"]) as replica:
            hand_over(primary.port, replica.port)
            self._turn_to(replica.port)
            time.sleep(self._dice.uniform(0.5, 6.0))
            hand_over(replica.port, primary.port)
            self._turn_to(primary.port)

    def _turn_to(self, port: int) -> None:
        self._frail.redis_wire.target = port
        self._frail.redis_wire.heal(torn=True)

    @property
    def _wires(self) -> list[Proxy]:
        return [self._frail.redis_wire, self._frail.kafka_wire]

    def _fill(self, disk: SmallDisk, service: Service) -> None:
        """Both services end when they cannot write, as soon as they have something to write."""
        disk.fill()
        time.sleep(self._dice.uniform(0.5, 5.0))
        disk.make_room()
        if not service.is_running or self._dice.random() < 0.5:
            service.restart()

    def _lose(self, service: Service) -> None:
        service.kill()
        time.sleep(self._dice.uniform(0.0, 2.0))
        service.restart()

    def _wake(self, worker: Worker) -> None:
        self._asleep.remove(worker)
        if worker.process.poll() is None:
            signal_all(worker, signal.SIGCONT)

    def _tidy(self) -> None:
        """Those that ended are replaced. A service that is away at the wrong moment ends a start (3), nothing else."""
        for worker in list(self._workers):
            code = worker.process.poll()
            if code is not None:
                assert code in (0, 3, -signal.SIGKILL), f"exit code {code}:\n{worker.log[-3000:]}"
                self._workers.remove(worker)
                with contextlib.suppress(ValueError):
                    self._asleep.remove(worker)
        if len(self._workers) == len(self._asleep):
            self._workers.append(self._scene.start())


def _account(scene: Scene) -> str:
    counts = scene.mixture.counts
    events = f"{counts.total()} events, {counts['bad']} bad, {counts['publications']} of others,"
    return f"{scene.name}: {scene.asked} requests, {events}"


def _dice() -> random.Random:
    seed = os.environ.get("SHOAL_SOAK_SEED") or secrets.token_hex(4)
    print(f"SHOAL_SOAK_SEED={seed}", flush=True)
    return random.Random(seed)


@contextlib.contextmanager
def _scene(
    services: Local, folder: Path, dice: random.Random, worker_settings: Mapping[str, str] | None = None
) -> Iterator[Scene]:
    """A table on which everything is promised at once; one in five, or so, is a redrawn one."""
    kind = dice.choice(("cliques", "cliques", "signed", "signed", "redrawn"))
    name = f"soak-{kind}-{secrets.token_hex(4)}"
    kafka, redis = services.kafka.address, services.redis.address
    made = Scene(kafka, redis, folder, name, worker_settings=worker_settings, **KINDS[kind])
    try:
        yield made
    finally:
        made.close()
