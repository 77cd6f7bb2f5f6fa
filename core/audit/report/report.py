"""The report of an audit: a verdict per promise, what an adversary learns, and what naive releases would have told.

Facts, and the same as JSON for machines; `core/audit/reading/text.py` is for people. Neither holds an id, a value or a
quasi-identifier.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from shoal.core.audit.attack.attacks import Linked, Pinned, Unsafe
from shoal.core.audit.attack.played import Played
from shoal.core.audit.criteria.composition import Exposed
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.permanent.learned import Learned
from shoal.core.audit.permanent.scarcity import Scarcity, number
from shoal.core.audit.reading.truth import exact
from shoal.core.audit.report.lasting import Lasting
from shoal.core.policy.policy import Policy

KEPT, BROKEN, OPEN = "kept", "broken", "not decided"


class PublicFigures(NamedTuple):
    """What can be said without secrets: the largest share of a value in one group, and the most a breach can be.

    `permanent` is how often permanent values are shown, over all releases.
    """

    largest_share: Fraction
    most: Fraction
    permanent: int


class Attacks(NamedTuple):
    """The attacks on naive releases, and beside them on these."""

    local: Linked
    intersection: Unsafe
    inference: Unsafe
    played: Played
    naive_pinned: Pinned | None = None  # redrawn: if, against the model, values persisted
    pinned: Pinned | None = None
    beside: tuple[Exposed, Exposed] | None = None  # other publications, naive and here; None if there are none


class PrivateFigures(NamedTuple):
    """What takes secrets to say. `nearest_guard` is the largest breach of a guard as a share of its bound.

    `worst` and `permanent` are for redrawn tables, `lasting` for the others.
    """

    people: int
    max_breach: Fraction
    guarded: int
    unguarding: int
    nearest_guard: Fraction | None
    worst: tuple[Learned, ...]
    attacks: Attacks
    permanent: Scarcity | None  # redrawn; None if the policy has no permanent values
    lasting: Lasting | None = None


@dataclass(frozen=True)
class Report:
    """Everything an audit found. `private` is None if only what is published was looked at."""

    policy: Policy
    releases: int
    findings: Findings
    notes: tuple[str, ...]
    public: PublicFigures
    private: PrivateFigures | None

    @property
    def is_kept(self) -> bool:
        """Whether no promise is known to be broken."""
        return not len(self.findings)

    @property
    def is_lasting(self) -> bool:
        return self.policy.values == "lasting"

    def status(self, promise: Promise) -> str:
        if self.findings.about(promise):
            return BROKEN
        if self.private is None and (
            promise in (Promise.G4, Promise.G5)
            or (promise is Promise.G3 and self.public.permanent)
            or (promise is Promise.G2 and (self.is_lasting or self.public.most > 1 / exact(self.policy.l)))
        ):
            return OPEN
        return KEPT

    def as_json(self) -> dict[str, Any]:
        """The report for machines; fractions as text, beside them as numbers."""
        promises = {
            str(promise): {
                "verdict": self.status(promise),
                "broken": [
                    {"sentence": b.sentence, "times": b.times, "releases": b.releases, "places": b.places}
                    for b in self.findings.about(promise)
                ],
            }
            for promise in Promise
        }
        return {
            "table": self.policy.table,
            "values": self.policy.values,
            "releases": self.releases,
            "kept": self.is_kept,
            "promises": promises,
            "notes": list(self.notes),
            "public": {
                "largest_share": number(self.public.largest_share),
                "most": number(self.public.most),
                "permanent": self.public.permanent,
            },
            "private": None if self.private is None else _private_json(self.private),
        }


def _private_json(figures: PrivateFigures) -> dict[str, Any]:
    attacks = figures.attacks
    return {
        "people": figures.people,
        "max_breach": number(figures.max_breach),
        "guarded": figures.guarded,
        "unguarding": figures.unguarding,
        "nearest_guard": None if figures.nearest_guard is None else number(figures.nearest_guard),
        "worst": [
            {
                "pseudonym": one.pseudonym,
                "breach": number(one.breach),
                "bound": number(one.bound),
                "guarded": one.is_guarded,
                "earlier": one.is_earlier,
                "formations": one.formations,
                "enumerated": None if one.enumerated is None else number(one.enumerated),
                "rows_alike": one.hidden_among,
                "candidates": one.candidates,
            }
            for one in figures.worst
        ],
        "attacks": {
            "local": {**attacks.local._asdict(), "largest": number(attacks.local.largest)},
            "intersection": {"naive": attacks.intersection._asdict(), "here": attacks.inference._asdict()},
            "persistence": {"naive": _pinned_json(attacks.naive_pinned), "here": _pinned_json(attacks.pinned)},
            "claims": attacks.played.as_json(),
            "composition": None
            if attacks.beside is None
            else {"naive": attacks.beside[0]._asdict(), "here": attacks.beside[1]._asdict()},
        },
        "permanent": None if figures.permanent is None else figures.permanent.as_json(),
        "lasting": None if figures.lasting is None else figures.lasting.as_json(),
    }


def _pinned_json(pinned: Pinned | None) -> dict[str, Any] | None:
    if pinned is None:
        return None
    return {**pinned._asdict(), "sizes": {str(size): count for size, count in pinned.sizes.items()}}
