"""The fuzzer: each input is accepted or rejected with a reason, in time linear in its size, and the next release comes.

It runs the real readers: the short cut beside the strict way, the auditor's own reading beside the engine's, the
planner behind both. A run is a number of inputs from a seed, so that a failure can be repeated.
"""

import json
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from shoal.core.audit.reading.truth import Truth
from shoal.core.errors import HierarchyError, PolicyError
from shoal.core.events.event import Reason, Reject, ReleaseRequest, SkipRequest, moment_of
from shoal.core.events.intake import Intake
from shoal.core.overlap.external import External, ExternalGroup, parse_external
from shoal.core.plan import Window, plan
from shoal.core.policy.hierarchy import parse_hierarchy
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.state import State
from shoal.streams.errors import GuaranteeError, InputError
from shoal.streams.intake.formats import EventReader
from shoal.streams.intake.taker import Taker, make_taker
from shoal.streams.kafka.manifest import manifest_of, read_origin, trigger_of
from shoal.streams.worker.trigger import Trigger, judge_request, read_trigger
from tests.fuzz import grammar, tables

PEOPLE = 150
INPUTS_A_RELEASE = 40
RELEASES_A_TABLE = 15
# Of processor time, so that a busy machine does not matter. A quadratic reader takes minutes for what is largest here.
SECONDS, SECONDS_A_BYTE = 0.5, 1e-6


class Table:
    """One table, fed with damaged events until a release is due, and again."""

    def __init__(self, rnd: Random) -> None:
        self.rnd, self.policy = rnd, tables.policy_of(rnd)
        self.state = State.empty(self.policy, b"secret")
        self._strict, self._quick = Intake(self.policy, {}), Intake(self.policy, {})
        self._take, self._take_quick = Taker(self._strict).take, make_taker(self._quick).take
        self._truth = Truth(self.policy)
        self._reader = EventReader(self.policy)
        self._others: list[ExternalGroup] = []
        self.offset = 0
        for number in range(40):
            event = {"op": "insert", "id": f"p{number}", "qid": grammar.qid_of(self.policy, rnd)}
            self.take(json.dumps({**event, "sensitive": grammar.values_of(self.policy, rnd)}).encode(), [])

    def take(self, value: bytes, headers: list[tuple[str, bytes]]) -> Reject | None:
        """An event, judged three times over."""
        self.offset += 1
        found = self._take(value, headers, self.offset)
        assert self._take_quick(value, headers, self.offset) == found, "the short cut judges otherwise"
        if not headers and value.strip() and b"\n" not in value:
            before = len(self._truth.rejected)
            self._truth.take(value)
            assert (len(self._truth.rejected) > before) == (found is not None), "the auditor judges otherwise"
        elif found is None:
            self._truth.take(json.dumps(self._reader.read(value, headers)).encode())
        return found

    def publish(self, value: bytes, headers: list[tuple[str, bytes]]) -> Reject | External:
        event = self._reader.read(value, headers)
        read = event if isinstance(event, Reject) else parse_external(event, self.policy)
        if isinstance(read, External):
            self._others += read.groups
        return read

    def release(self) -> None:
        self._strict.check_invariants()
        assert self._quick.window == self._strict.window
        number = self.state.meta.release + 1
        window = Window(None, {0: self._strict.cut()}, tuple(self._others))
        self._quick.cut()
        made = plan(self.state, window, self.policy, number)
        self.state.apply(made.change)
        self._truth.cut(number)
        assert {person for person, *_ in made.release.members} <= self._truth.present.keys()
        manifest = json.loads(made.release.manifest)
        assert manifest["max_breach"] <= 1 / self.policy.l + 1e-12
        self._others = []


class Fuzzer:
    """Inputs from a seed; `counts` says how many of each kind came to what."""

    def __init__(self, seed: int) -> None:
        self.rnd = Random(seed)
        self.counts: Counter[str] = Counter()
        self._table = Table(self.rnd)
        self._since = 0
        self._kinds: list[tuple[str, Callable[[], tuple[int, Callable[[], str]]]]] = [
            *[("event", self._event)] * 50,
            *[("external", self._external)] * 15,
            *[("trigger", self._trigger)] * 10,
            *[("header", self._header)] * 10,
            *[("policy", self._policy)] * 8,
            *[("hierarchy", self._hierarchy)] * 7,
        ]

    def run(self, inputs: int, say: Callable[[str], None] = lambda _: None) -> None:
        for number in range(1, inputs + 1):
            self._one()
            if number % 5_000 == 0:
                say(f"{number:,} inputs")
        self._table.release()

    def _one(self) -> None:
        name, make = self.rnd.choice(self._kinds)
        size, judge = make()
        began = time.process_time()
        word = judge()
        taken = time.process_time() - began
        assert taken <= SECONDS + SECONDS_A_BYTE * size, f"{name} of {size} bytes took {taken:.2f} s"
        self.counts[f"{name}: {word}"] += 1
        self._since += 1
        if self._since % INPUTS_A_RELEASE == 0:
            self._table.release()
            if self._table.state.meta.release == RELEASES_A_TABLE:
                self._table = Table(self.rnd)

    def _written(self, document: Any) -> tuple[bytes, list[tuple[str, bytes]]]:
        """A record, damaged in its structure, in its bytes, in its headers, or not at all."""
        rnd = self.rnd
        for _ in range(rnd.choice((0, 0, 1, 1, 2, 3))):
            document = grammar.damage(document, rnd)
        value, headers = grammar.write(document, rnd)
        if rnd.random() < 0.15:
            value = grammar.damage_bytes(value, rnd)
        if rnd.random() < 0.05:
            headers = grammar.damage_headers(headers, rnd)
        return value, headers

    def _event(self) -> tuple[int, Callable[[], str]]:
        event = grammar.event_of(self._table.policy, self.rnd, PEOPLE)
        if self.rnd.random() < 0.01:  # nearly as long as a record may be
            event["sensitive"] = ["flu"] * 50_000
        value, headers = self._written(event)
        return len(value), lambda: _word(self._table.take(value, headers))

    def _external(self) -> tuple[int, Callable[[], str]]:
        value, headers = self._written(grammar.external_of(self._table.policy, self.rnd))
        return len(value), lambda: _word(self._table.publish(value, headers))

    def _trigger(self) -> tuple[int, Callable[[], str]]:
        value, headers = self._written(grammar.trigger_of(self.rnd))
        reader = EventReader(self._table.policy)
        last = self.rnd.choice((None, "2026-01-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"))

        def judge() -> str:
            asked = read_trigger(Trigger(0, value, headers), reader)
            if isinstance(asked, ReleaseRequest):
                asked = judge_request(asked, last)
                if isinstance(asked, ReleaseRequest) and asked.at is not None:
                    moment_of(asked.at).timestamp()  # a rebuild asks for it
            return "skip" if isinstance(asked, SkipRequest) else _word(asked)

        return len(value), judge

    def _header(self) -> tuple[int, Callable[[], str]]:
        """What stands in headers: of events, and of manifests on the releases topic."""
        rnd = self.rnd
        wrong = (b"[1]", b"{}", b"[null]", b'["1",2]', b"[1e999,2]", b"\xff", b"[" * 5_000, b"", b"-1", b'{"0":3}')
        headers = {"offsets": b"[1,2]", "external": b"[0]", "trigger": b"7", "at": b"2026-01-01", "kind": b"manifest"}
        headers |= {"policy": b"0" * 64, "key": b"0" * 64}
        if rnd.random() < 0.5:
            headers["skipped"] = b'{"0":[3]}'
        for name in rnd.sample(sorted(headers), rnd.choice((0, 1, 1, 2))):
            headers[name] = rnd.choice(wrong)
        for name in rnd.sample(sorted(headers), rnd.choice((0, 0, 1))):
            del headers[name]
        manifest = b'{"table":"t","release":3,"previous":null}'
        if rnd.random() < 0.5:
            manifest = grammar.damage_bytes(manifest, rnd)
        message = type("Message", (), {"headers": list(headers.items()), "value": manifest, "topic": "t", "offset": 1})

        def judge() -> str:
            trigger_of(headers)
            try:
                read_origin(1, headers, 2)
                manifest_of(message)
            except (InputError, GuaranteeError) as error:
                return type(error).__name__
            return "accepted"

        return len(manifest) + sum(map(len, headers.values())), judge

    def _policy(self) -> tuple[int, Callable[[], str]]:
        document = tables.damaged_document(self.rnd)
        return len(repr(document)) + 20_000, lambda: self._try_policy(document, tables.FILES)

    def _hierarchy(self) -> tuple[int, Callable[[], str]]:
        text = tables.damaged_hierarchy(self.rnd)
        document = tables.document_of(self.rnd)
        document["attributes"]["zip"] = {"type": "category", "hierarchy": "zip.csv"}
        files = {**tables.FILES, "zip.csv": text.encode(errors="replace")}

        def judge() -> str:
            try:
                parse_hierarchy(text).check_invariants()
            except HierarchyError:
                return "mistakes"
            return self._try_policy(document, files)

        return len(text) + 20_000, judge

    def _try_policy(self, document: Any, files: dict[str, bytes]) -> str:
        try:
            policy = build_policy(document, files, b"")
        except PolicyError:
            return "mistakes"
        release_of(policy, Random(1))
        return "accepted"


def release_of(policy: Policy, rnd: Random) -> None:
    """Two releases of some people under a policy that was accepted."""
    intake, state = Intake(policy, {}), State.empty(policy, b"secret")
    for number in (1, 2):
        for person in range(12):
            event = {"op": "insert", "id": f"{number}-{person}", "qid": grammar.qid_of(policy, rnd)}
            refused = intake.take({**event, "sensitive": grammar.values_of(policy, rnd)})
            assert refused is None, refused
        made = plan(state, Window(None, {0: intake.cut()}, ()), policy, number)
        state.apply(made.change)


def _word(judged: object) -> str:
    if isinstance(judged, Reject):
        assert isinstance(judged.reason, Reason)
        return str(judged.reason)
    return "accepted"
