"""The least share of `*` that any publisher of lasting values has on Synthea: `python -m tests.experiments.least`.

Two bounds, each of one rule alone, for a publisher that knows the future and asks nothing of k or of places. Neither
can be added to the other: one `*` may be there for both.

*S3.* Signatures of 4 or 5 values show two values of a person. After the first release that shows anything of somebody,
one new value could be shown in each, wherever it lay. `least_by_person` chooses the year in which somebody is first
shown, and in each later year the value that is worth most.

*S4.* A signature with m values shows each as often as any other, so who is shown with a frequent value needs m - 1 rows
of others beside it. Of the same person these are at most m/l - 1 (S2, S3), and m = 4 needs least. `least_of_value`
counts whose rows could be there, counterfeits included.
"""

from collections.abc import Sequence

from shoal.streams.files.policy_yaml import load_policy
from tests.experiments.series import Table
from tests.experiments.synthea import FOLDER, load_tables

COUNTERFEITS = 0.02
Held = Sequence[frozenset[int]]  # by year, the protected values of one person


def least_by_person(held: Held) -> int:
    """How many values are `*` over all years, at least."""
    fewest = sum(map(len, held))
    for first, values in enumerate(held):
        if values:
            hidden = sum(map(len, held[:first]))
            fewest = min(fewest, hidden + _least_after(values, held[first + 1 :]))
    return fewest


def _least_after(known: frozenset[int], later: Held) -> int:
    """What is `*` in these years, if one value besides those known begins to be shown in each of them."""
    values = sorted(frozenset().union(*later) - known)
    worth = [
        [sum(value in one for one in later[year:]) * (value in later[year]) for value in values]
        for year in range(len(later))
    ]
    return sum(len(one - known) for one in later) - _most_worth(worth, len(values))


def _most_worth(worth: Sequence[Sequence[int]], values: int) -> int:
    """The most that choosing one value each year is worth, by the sets of values chosen so far."""
    best: dict[frozenset[int], int] = {frozenset(): 0}
    for line in worth:
        for chosen, total in list(best.items()):
            for value in range(values):
                if line[value] and value not in chosen:
                    wider = chosen | {value}
                    best[wider] = max(best.get(wider, 0), total + line[value])
    return max(best.values())


def least_of_value(table: Table, value: int, protected: frozenset[int]) -> int:
    """How many with this value are `*` in a release, at least."""
    rows = sum(len(values) for _, values in table.values())
    sets = [protected.intersection(values) for _, values in table.values()]
    others = sum(len(mine - {value}) for mine in sets) + int(rows * COUNTERFEITS / (1 - COUNTERFEITS))
    lost = sorted(max(0, len(mine) - 2) for mine in sets if value in mine)  # of their other values one can stand beside
    shown = 0
    for count, gone in enumerate(lost, start=1):
        others -= gone
        if 3 * count <= others:
            shown = count
    return len(lost) - shown


def main() -> None:
    policy = load_policy(FOLDER / "policy.yaml")
    tables, sensitive = load_tables(policy), policy.sensitive
    protected = frozenset(range(len(sensitive.hierarchy.leaves))) - sensitive.open
    rows = [sum(len(values) for _, values in table.values()) for table in tables]
    people = {person for table in tables for person in table}
    nobody = ((), ())
    held = [[protected.intersection(table.get(person, nobody)[1]) for table in tables] for person in sorted(people)]
    found = sum(map(least_by_person, held))
    print(f"S3, signatures of 4 or 5: {found} of {sum(rows)} values over all years, {found / sum(rows):.1%}")
    pregnancy = sensitive.hierarchy.leaf_code["normal-pregnancy"]
    for year, table in enumerate(tables, start=1):
        alone = least_of_value(table, pregnancy, protected - sensitive.permanent)
        print(f"S4, year {year}: {alone} pregnancies of {rows[year - 1]} values, {alone / rows[year - 1]:.1%}")


if __name__ == "__main__":
    main()
