"""What the planner is doing and since when, and the figures of the last release: for `/ready` and `/metrics`.

The planner and the coordinator report where they are. No decision depends on it. A step is timed from where it is
entered to where the next one is, so that the steps of a release add up to the whole of it.
"""

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from shoal.core.cuts import people_needed
from shoal.core.policy.policy import Policy
from shoal.streams.prometheus import STEP_SECONDS, State

FIGURES: Final = (
    "rows",
    "groups",
    "formed",
    "carried",
    "withheld",
    "unsampled",
    "suppressed",
    "generalized",
    "counterfeits",
    "waiting",
    "vacant",
    "max_breach",
    "bound",
)
"""The fields of a manifest that are shown; a manifest without one of them does not show it."""


class Standing:
    """Where the planner of one worker stands."""

    def __init__(self) -> None:
        self.state = State.ELSEWHERE
        self.why: str | None = None
        self.step: str | None = None
        self._since = self._entered = time.monotonic()
        self.release = 0
        self.people = 0
        self.figures: dict[str, float] = {}
        self.published_at: float | None = None
        self.due_at: float | None = None
        self.snapshot: int | None = None  # the release of the newest one
        self.note: str | None = None
        """Why nobody is published although nothing is wrong."""

    @property
    def seconds(self) -> float:
        """How long it has been in this state, or, within a release, in this step."""
        return time.monotonic() - (self._since if self.step is None else self._entered)

    def say(self, state: State, why: str | None = None) -> None:
        """`why` is the class of an error or a fixed sentence, never a text with a value in it."""
        if (state, why) != (self.state, self.why):
            self.state, self.why, self._since = state, why, time.monotonic()

    # -- steps of a release -------------------------------------------------------------------------------------------

    def enter(self, step: str) -> None:
        """The next step begins, and the one before is done."""
        now = time.monotonic()
        if self.step is None:
            self.say(State.RELEASING)
        else:
            STEP_SECONDS.labels(self.step).observe(now - self._entered)
        self.step, self._entered = step, now

    def finish(self) -> None:
        """The last step is done."""
        if self.step is not None:
            STEP_SECONDS.labels(self.step).observe(time.monotonic() - self._entered)
        self.leave()

    def leave(self) -> None:
        """No release is under way any more; a step that was not done is not counted."""
        self.step = None
        if self.state is State.RELEASING:  # and not given up meanwhile
            self.say(State.WAITING)

    # -- the last release ---------------------------------------------------------------------------------------------

    def published(self, manifest: bytes | None, at_s: float, people: int, policy: Policy) -> None:
        """The last release as the world sees it. `at_s` is when it was published, as near as that is known."""
        found: Mapping[str, Any] = {} if manifest is None else json.loads(manifest)
        self.release, self.people = int(found.get("release", 0)), people
        self.figures = {name: found[name] for name in FIGURES if isinstance(found.get(name), int | float)}
        self.published_at = None if manifest is None else at_s
        self.due_at = due_at(policy, at_s)
        self.note = why_uncut(policy, found)


def why_uncut(policy: Policy, manifest: Mapping[str, Any]) -> str | None:
    """Why everybody is withheld in a release of a table with shards that is not cut yet; None of any other release."""
    if policy.shards == 1 or manifest.get("shards") != []:
        return None
    return (
        f"the table is cut into {policy.shards} shards once there are {people_needed(policy):,} people; until then all "
        "of them are withheld"
    )


def due_at(policy: Policy, last_s: float) -> float | None:
    """When the policy's clocks want the next release after one at `last_s`; None if no clock says."""
    moments = []
    if policy.triggers.every_seconds is not None:
        moments.append(last_s + policy.triggers.every_seconds)
    moment = policy.triggers.next_at(datetime.fromtimestamp(last_s, UTC))
    if moment is not None:
        moments.append(moment.timestamp())
    return min(moments, default=None)
