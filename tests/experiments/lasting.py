"""Values that last, over fifty releases: what is hidden, how well questions are answered, and what an attacker names.

Three tables: Adult with people who come, go and change their occupation; Synthea, whose ten years are all there are;
and the Zipf crowd with 1 % leaving, changing and coming. Four publishers of the same tables: Shoal's two models,
l-diversity for each release by itself, and m-invariance. All are attacked by the auditor's persistence attack.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoal.core.audit.attack.persistence import PersistenceAttack
from shoal.core.audit.attack.shown import ShownGroup, tokens_by_node
from shoal.core.measure.hidden_values import hidden_share
from shoal.core.measure.query import Query, count_true, draw_queries, estimate, query_error, truth_of
from shoal.core.measure.release_reader import ReleaseColumns
from shoal.core.policy.policy import Policy
from shoal.streams.files.policy_yaml import load_policy
from tests.experiments import synthea
from tests.experiments.adult import SEED, load_adult
from tests.experiments.baselines import LDiversity, MInvariance
from tests.experiments.series import Figures, Table, Watcher, redrawn, run
from tests.experiments.sheet import Sheet, sheet_of
from tests.experiments.zipf import Crowd

CHURN = 0.02  # of Adult's people, per release: so many leave, come, and change


@dataclass(frozen=True)
class Series:
    """The true tables of a series, under its lasting policy, and the exposures that a redrawn one foresees."""

    policy: Policy
    tables: Sequence[Table]
    foreseen: int


@dataclass(frozen=True)
class Published:
    """A release by any publisher, and what only some of them state."""

    sheet: Sheet
    withheld: int = 0
    max_breach: float | None = None


Publisher = Callable[[Series], Iterator[Published]]


def adult_with_churn(people: int, releases: int) -> Series:
    """Adult, of which a part is there at a time; somebody who changes takes the occupation of anyone.

    When all of Adult has been there, those who come are like them, and others.
    """
    adult = load_adult()
    random = np.random.default_rng(SEED)
    order = random.permutation(len(adult.points))
    records: list[tuple[tuple[int, ...], int]] = [(tuple(codes[:-1]), codes[-1]) for codes in adult.points.tolist()]
    present = order[:people].tolist()
    everybody = len(order) * (1 + releases * round(CHURN * people) // len(order))  # who comes again is somebody else
    waiting = iter([*order[people:].tolist(), *range(len(order), everybody + people)])
    held = {row: records[row][1] for row in present}
    tables: list[Table] = []
    moved = round(CHURN * people)
    for release in range(releases):
        if release:
            for at in sorted(random.choice(len(present), moved, replace=False).tolist(), reverse=True):
                del held[present.pop(at)]
            for at in random.choice(len(present), moved, replace=False).tolist():
                held[present[at]] = records[int(random.integers(len(records)))][1]
            for row in (row for _, row in zip(range(moved), waiting, strict=False)):
                present.append(row)
                held[row] = records[row % len(order)][1]
        tables.append({f"p{row}": (records[row % len(order)][0], (held[row],)) for row in present})
    return Series(replace(adult.policy, values="lasting"), tables, foreseen=3)


def zipf_crowd(people: int, releases: int) -> Series:
    crowd = Crowd(people=people, deleted=0.01, updated=0.01, inserted=0.01, releases=releases)
    return Series(replace(crowd.policy(), values="lasting"), list(crowd.tables()), foreseen=5)


def synthea_years(releases: int, share: int = 1) -> Series:
    policy = load_policy(synthea.FOLDER / "policy.yaml")
    tables = synthea.load_tables(policy)[:releases]
    kept = [{person: one for person, one in table.items() if int(person[1:]) % share == 0} for table in tables]
    return Series(policy, kept, foreseen=10)


def lasting(series: Series) -> Iterator[Published]:
    return _engine(series.policy, series.tables)


def redrawing(series: Series) -> Iterator[Published]:
    return _engine(redrawn(series.policy, series.foreseen), series.tables)


def _engine(policy: Policy, tables: Sequence[Table]) -> Iterator[Published]:
    for step in run(policy, tables):
        sheet = sheet_of(step)._replace(is_by_person=policy.values == "redrawn")
        yield Published(sheet, step.manifest["withheld"], step.manifest["max_breach"])


def l_diversity(series: Series) -> Iterator[Published]:
    publisher = LDiversity(redrawn(series.policy, series.foreseen))
    return (Published(publisher.publish(table)) for table in series.tables)


def m_invariance(series: Series) -> Iterator[Published]:
    publisher = MInvariance(series.policy, m=series.policy.signature)
    return (Published(publisher.publish(table)) for table in series.tables)


PUBLISHERS: dict[str, Publisher] = {
    "lasting": lasting,
    "redrawn": redrawing,
    "l-diversity": l_diversity,
    "m-invariance": m_invariance,
}


def follow(series: Series, publisher: Publisher, queries: tuple[Query, ...]) -> Figures:
    """The figures of every release of one publisher, and what the attack claims in the end."""
    policy = series.policy
    attack: PersistenceAttack | None = None
    releases = []
    for number, (table, made) in enumerate(zip(series.tables, publisher(series), strict=True), start=1):
        if attack is None:
            attack = PersistenceAttack(len(policy.sensitive.hierarchy.leaves), made.sheet.is_by_person)
        attack.see(_shown(made.sheet), {person: frozenset(values) for person, (_, values) in table.items()})
        releases.append({"release": number, **_measure(policy, table, made, queries)})
    assert attack is not None
    claims = attack.claims(1 / policy.l, policy.sensitive.open)
    return {"releases": releases, "attack": [found._asdict() for found in claims]}


def _measure(policy: Policy, table: Table, made: Published, queries: tuple[Query, ...]) -> Figures:
    published = made.sheet.published
    shown = int(published.shown_count.sum())
    truth = truth_of(policy, table.values())
    error = query_error(estimate(published, queries), count_true(truth, queries), len(truth.leaves))
    return {
        "present": len(table),
        "withheld_share": made.withheld / len(table),
        "hidden_share": hidden_share(published),
        "spare_share": int(published.spare.sum()) / shown,
        "query_error": error.mean,
        "query_error_median": error.median,
        "max_breach": made.max_breach,
    }


def _shown(sheet: Sheet) -> Iterator[ShownGroup]:
    """The groups of a release as the attack sees them."""
    published = sheet.published
    rows: dict[int, list[str]] = defaultdict(list)
    for person, group in zip(sheet.person.tolist(), sheet.group.tolist(), strict=True):
        rows[group].append(f"p{person}")
    for group, values in _values(published).items():
        is_plain = not sheet.is_by_person and 0 not in values and list(values.values()) == [len(rows[group])]
        shown = tokens_by_node(published.policy.sensitive.hierarchy, values)
        yield ShownGroup(published.group_names[group], rows[group], shown, is_plain)


def _values(published: ReleaseColumns) -> dict[int, dict[int, int]]:
    found: dict[int, dict[int, int]] = defaultdict(dict)
    columns = (published.shown_group, published.shown_node, published.shown_count)
    for group, node, count in zip(*(column.tolist() for column in columns), strict=True):
        found[group][node] = count
    return found


def experiment(watch: Watcher, *, quick: bool = False) -> Figures:
    """Every publisher on every table."""
    if quick:
        tables = {"adult": adult_with_churn(800, 4), "synthea": synthea_years(3, 4), "zipf": zipf_crowd(1_500, 4)}
    else:
        tables = {"adult": adult_with_churn(12_000, 50), "synthea": synthea_years(10), "zipf": zipf_crowd(20_000, 50)}
    found: Figures = {}
    for name, series in tables.items():
        queries = draw_queries(series.policy, count=50 if quick else 1_000)
        found[name] = {"people": len({person for table in series.tables for person in table}), "publishers": {}}
        for label, publisher in PUBLISHERS.items():
            watch(f"{name}: {label}")
            found[name]["publishers"][label] = follow(series, publisher, queries)
    return found
