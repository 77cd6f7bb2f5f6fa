"""What a report says about permanent values: cohorts, the linkage-exclusion attack, every suppression explained.

Like the rest of a report it holds no id and no value; people have pseudonyms.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from heapq import nlargest
from typing import Any, NamedTuple

from shoal.core.audit.permanent.learned import LISTED, pseudonym
from shoal.core.audit.permanent.permanent import Attack, Permanent
from shoal.core.audit.permanent.scarce import cohort_count
from shoal.core.policy.policy import Policy

EXPLAINED = 20  # lines of text; the JSON has them all


class Explained(NamedTuple):
    """A suppression of a permanent value: from which release on, in which group, whose, and why."""

    release: int
    group: str
    pseudonym: str
    why: str


class Risk(NamedTuple):
    """Somebody who holds a value in more than 1/ℓ of the holder sets that fit everything published, at worst."""

    pseudonym: str
    risk: Fraction


@dataclass(frozen=True)
class Scarcity:
    """Figures about permanent values. `counted` and `uncounted` are components of people whose worlds were, or were too
    many; `excluded` are people who owned an instance and whom somebody who knows everything can exclude by now.
    """

    holders: int
    owners: int
    switches: int
    excluded: int
    attacks: tuple[Attack, ...]
    counted: int
    uncounted: int
    largest_risk: Fraction
    over: tuple[Risk, ...]
    over_count: int
    suppressed: tuple[Explained, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "holders": self.holders,
            "owners": self.owners,
            "switches": self.switches,
            "excluded": self.excluded,
            "exclusion": [asdict(attack) for attack in self.attacks],
            "holder_sets": {
                "counted": self.counted,
                "uncounted": self.uncounted,
                "largest_risk": number(self.largest_risk),
                "over": self.over_count,
                "worst": [{"pseudonym": one.pseudonym, "risk": number(one.risk)} for one in self.over],
            },
            "suppressed": [one._asdict() for one in self.suppressed],
        }


def number(fraction: Fraction) -> dict[str, Any]:
    """A fraction for machines: as text, and about."""
    return {"exact": str(fraction), "about": float(fraction)}


def describe(permanent: Permanent, key: bytes) -> Scarcity:
    """Figures from what was seen."""
    alibis, over, components = permanent.alibis.of, permanent.over(), permanent.components
    left = {(value, person) for (value, _), alibi in alibis.items() for person in alibi.left}
    named = ((risk, pseudonym(key, person)) for person, risk in over.items())
    return Scarcity(
        holders=len(alibis),
        owners=len(permanent.balance.owners),
        switches=permanent.balance.switches,
        excluded=len(permanent.balance.owners - left),
        attacks=tuple(permanent.attacks()),
        counted=sum(component.sets is not None for component in components),
        uncounted=sum(component.sets is None for component in components),
        largest_risk=max(permanent.risks.values(), default=Fraction(0)),
        over=tuple(Risk(name, risk) for risk, name in nlargest(LISTED, named)),
        over_count=len(over),
        suppressed=tuple(
            Explained(one.release, one.group, pseudonym(key, one.person), one.why)
            for one in permanent.suppressions.found
        ),
    )


def summarise(policy: Policy, shown: int, found: Scarcity | None) -> str:
    """Why G3 counts as kept, or why that is not decided, in one line."""
    if not policy.sensitive.permanent:
        return "the policy has no permanent values"
    if found is None:
        return "who owns what is a secret" if shown else "no permanent value was ever shown"
    if policy.participation == "all":
        fewest = found.attacks[-1].fewest
        start = (
            "no holder's value was ever shown" if fewest is None else f"each could be any of at least {fewest} people"
        )
    else:
        start = f"the {cohort_count(policy)} cohorts balance in every group"
    return f"{found.holders:,} holders; {start}; {len(found.suppressed):,} suppressions"


def write_scarcity(policy: Policy, found: Scarcity) -> Iterator[str]:
    """The report's lines about permanent values."""
    least = cohort_count(policy)
    yield "What an adversary learns about permanent values:"
    for attack in found.attacks:
        fewest = "nobody was shown" if attack.fewest is None else f"at worst {attack.fewest} people could be it"
        yield (
            f"  knowing the participation {attack.known}: "
            f"of {found.holders:,} holders {attack.under:,} hide among fewer than {least}; {fewest}."
        )
    yield (
        f"  of {found.owners:,} owners {found.excluded:,} could be excluded by somebody who knew who is in which "
        f"group; {found.switches:,} went from one cohort of decoys to another."
    )
    yield (
        f"  holder sets, counted for {found.counted:,} of {found.counted + found.uncounted:,} components of people: "
        f"the largest share for one is {float(found.largest_risk):.4f}; {found.over_count:,} people are over 1/l."
    )
    for one in found.over:
        yield f"    {one.pseudonym}  {float(one.risk):.4f}  {one.risk}"
    if found.suppressed:
        yield "Permanent values that were suppressed, from which release on, where, whose and why:"
    for shown in found.suppressed[:EXPLAINED]:
        yield f"  release {shown.release}, {shown.group}, {shown.pseudonym}: {shown.why}."
    if len(found.suppressed) > EXPLAINED:
        yield f"  … and {len(found.suppressed) - EXPLAINED:,} more; --json lists them all."
