"""What attackers claim who believe that values stay, or know how long each lasts, and how often the claims are right.

It needs the membership and the true tables, and looks at all releases together, so its figures stand with the last one.
In a redrawn table nothing is promised about it. In a lasting one no more than 1/l of the claims of the persistence
attack may be right, but for chance, and `shoal audit` says whether that is so; nothing is promised about the duration
attack (docs/attacks.md).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from shoal.core.audit.attack.persistence import Claims
from shoal.core.audit.attack.played import TableAttack
from shoal.core.measure.release_reader import ReleaseColumns
from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Picture, Reading, Request, Tile
from shoal.streams.report.panel import Line, Panel

STAY = 0.8  # the probability of staying that the page shows; report.json has them all


class PersistenceClaims(Metric):
    """Claims over 1/l and over 0.9, and those of them that are right."""

    figures = {  # noqa: RUF012
        "claims": Figure(
            "claims",
            ",",
            f"People about whom somebody who believes that values stay from release to release with {STAY:g} would "
            "claim to know a value, with more than the bound, from all releases together.",
        ),
        "claims_right": Figure("of them right", ",", "How many of these claims are true."),
        "sure_claims": Figure("sure claims", ",", "The same with more than 0.9."),
        "sure_claims_right": Figure("of them right", ",", "How many of these claims are true."),
        "duration_claims": Figure(
            "claims from durations",
            ",",
            "Lasting tables: people about whom somebody who knows how long each value usually lasts would claim to "
            "know a value, with more than the bound.",
        ),
        "duration_claims_right": Figure("of them right", ",", "How many of these claims are true."),
    }

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._attack = TableAttack(request.policy)
        self._is_asked = False
        self._leaves = request.policy.sensitive.hierarchy.leaf_code

    def measure(self, reading: Reading) -> Figures:
        if reading.members is not None and reading.truth is not None:
            self._is_asked = True
            held = {person: record.values for person, record in reading.truth.table.items()}
            rows: dict[str, list[tuple[str, int | None]]] = defaultdict(list)
            for row in reading.members:
                if row.person in held:
                    rows[row.group].append((row.person, None if row.value is None else self._leaves.get(row.value)))
            self._attack.see(_groups(reading.published, rows), held)
        return {}

    def conclude(self) -> Figures:
        if not self._is_asked:
            return {}
        claims = {found.stay: found for found in self._attack.claims()}
        shown, lasted = claims[STAY], self._attack.lasted()
        durations = (
            {} if lasted is None else {"duration_claims": lasted.over, "duration_claims_right": lasted.over_right}
        )
        return durations | {
            "claims": shown.over,
            "claims_right": shown.over_right,
            "sure_claims": shown.sure,
            "sure_claims_right": shown.sure_right,
            "claims_by_stay": {f"{stay:g}": _counts(found) for stay, found in claims.items()},
        }

    def tiles(self, last: Figures) -> Sequence[Tile]:
        if last.get("claims") is None:
            return ()
        promise = "at most 1/l of them may be right" if self.request.policy.values == "lasting" else "not promised"
        right = f"{self.write(last, 'claims_right')} of {self.write(last, 'claims')}"
        return (Tile("claims that are right", right, f"if values stay with {STAY:g}; {promise}"),)

    def warnings(self, last: Figures) -> Iterable[str]:
        if last.get("claims") is None:
            yield (
                "How many guesses of somebody who believes that values stay are right takes the truth to say: "
                "`shoal report --events … --audit …`."
            )
            return
        yield (
            f"Believing that values stay with {STAY:g}: {self.write(last, 'claims')} claims over the bound, of which "
            f"{self.write(last, 'claims_right')} are right, and {self.write(last, 'sure_claims')} over 0.9, of which "
            f"{self.write(last, 'sure_claims_right')} are right."
        )
        if last.get("duration_claims") is not None:
            yield (
                f"Knowing how long each value lasts: {self.write(last, 'duration_claims')} claims over the bound, of "
                f"which {self.write(last, 'duration_claims_right')} are right."
            )

    def pictures(self, series: Sequence[Figures]) -> Sequence[Picture]:
        found = series[-1].get("claims_by_stay")
        if found is None:
            return ()
        stays, counts = [float(stay) for stay in found], list(found.values())
        bound = 1 / self.request.policy.l
        lines = [Line("claims", stays, [one["over"] for one in counts])]
        lines.append(Line("of them right", stays, [one["over_right"] for one in counts]))
        promise = "Nothing is promised about it: the model of a redrawn table is that values do not last."
        if self.request.policy.values == "lasting":
            promise = f"Promised: no more than {bound:.0%} of the claims are right, but for chance."
        panel = Panel("Persistence attack", "believed probability that a value stays", "people", lines)
        return (Picture(panel, f"Claims to know a value with more than {bound:.2g}. {promise}"),)


def _counts(found: Claims) -> Mapping[str, int]:
    return {name: getattr(found, name) for name in ("people", "over", "over_right", "sure", "sure_right")}


def _groups(
    published: ReleaseColumns, rows: Mapping[str, Sequence[tuple[str, int | None]]]
) -> Iterator[tuple[str, Mapping[int, int], Sequence[tuple[str, int | None]]]]:
    """Of each group its name, what it shows, and the person and value of each row."""
    shown: list[dict[int, int]] = [{} for _ in published.group_names]
    columns = (published.shown_group, published.shown_node, published.shown_count)
    for group, node, count in zip(*(column.tolist() for column in columns), strict=True):
        shown[group][node] = count
    return ((name, shown[at], rows.get(name, ())) for at, name in enumerate(published.group_names))
