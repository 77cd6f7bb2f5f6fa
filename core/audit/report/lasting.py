"""What a report says about a lasting table: how its values are shown, cliques, and who came nearest to the bound.

Like the rest of a report it holds no id and no value; people have pseudonyms.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from shoal.core.audit.criteria.lasting.marks import Mark
from shoal.core.audit.permanent.scarcity import number
from shoal.core.audit.reading.truth import exact
from shoal.core.policy.policy import Policy


class CliqueFigures(NamedTuple):
    """Cliques that were ever shown, the fewest people of one, and holders of the last release who are not shown."""

    shown: int
    fewest: int | None
    hidden: int
    marks: tuple[Mark, ...] = ()  # what other rows say about who the holder is


class LastingWorst(NamedTuple):
    """Somebody near the bound: so many values were shown under one signature; `alike` share their region now."""

    pseudonym: str
    breach: Fraction
    values: int
    among: int
    alike: int | None


@dataclass(frozen=True)
class Lasting:
    """Figures about a lasting table. `values` counts those of the last release by kind of group."""

    values: Mapping[str, int]
    signatures: int
    sizes: tuple[int, int] | None  # the smallest and the largest
    cliques: CliqueFigures
    worst: tuple[LastingWorst, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "values": dict(self.values),
            "signatures": self.signatures,
            "sizes": None if self.sizes is None else list(self.sizes),
            "cliques": {**self.cliques._asdict(), "marks": [mark._asdict() for mark in self.cliques.marks]},
            "worst": [{**one._asdict(), "breach": number(one.breach)} for one in self.worst],
        }


def summarise_cliques(policy: Policy, shown: int, found: Lasting | None) -> str:
    """Why G3 counts as kept in a lasting table, or why that is not decided, in one line."""
    if not policy.sensitive.permanent:
        return "the policy has no permanent values"
    if len(policy.sensitive.permanent) >= policy.signature:
        return "permanent values are shown under signatures of their own"
    if found is None:
        return "who is in which clique is a secret" if shown else "no clique was ever shown"
    cliques = found.cliques
    if cliques.fewest is None:
        return f"no clique was ever shown; {cliques.hidden:,} holders have no row for their value"
    return (
        f"{cliques.shown:,} holders, each among at least {cliques.fewest} people, always the same; "
        f"{cliques.hidden:,} have no row for their value now"
    )


def write_lasting(policy: Policy, found: Lasting) -> Iterator[str]:
    """The report's lines about signatures."""
    values, total = found.values, sum(found.values.values())
    yield "How the values of the last release are shown:"
    for kind, text in (
        ("signature", "among the values of a signature"),
        ("plain", "as they are: open values and empty guards"),
        ("starred", 'as "*"'),
        ("clique", "for a clique"),
    ):
        share = f" ({float(100 * Fraction(values[kind], total)):.1f} %)" if total else ""
        yield f"  {values[kind]:>9,}  {text}{share}"
    if found.sizes is not None:
        low, high = found.sizes
        sizes = str(low) if low == high else f"{low} to {high}"
        yield f"  {found.signatures:,} signatures were used in all, of {sizes} values each."
    for mark in found.cliques.marks:
        if mark.claims:
            yield (
                f"  Not promised: of {mark.claims:,} cliques in which one person {mark.what}, that is the holder in "
                f"{mark.right:,}."
            )
    yield ""
    if not found.worst:
        yield "Nobody was shown under a signature, so there is nothing to learn."
        return
    yield "What an adversary learns at worst who knows everything published, who was where and when values changed:"
    yield f"  {'':14}{'breach':>9}{'bound':>9}{'values':>9}{'among':>8}{'people alike':>14}"
    bound = float(1 / exact(policy.l))
    for one in found.worst:
        alike = "–" if one.alike is None else f"{one.alike:,}"
        yield (f"  {one.pseudonym:14}{float(one.breach):9.4f}{bound:9.4f}{one.values:>9,}{one.among:>8}{alike:>14}")
    yield "  breach: j/(m - insiders), the likeliest of a person's values, for ever; values: how many were"
    yield "  shown under one signature; among: the values of that signature; people alike: with the same region now."
