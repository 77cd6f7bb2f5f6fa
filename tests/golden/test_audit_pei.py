"""Pei et al., tables 1 to 6: two releases, each 2-anonymous, that are not when put together."""

from typing import Any

from shoal.core.audit.attack.attacks import Inference, unsafe_rows
from shoal.core.audit.reading.regions import Region
from shoal.core.policy.policy import Policy, build_policy
from tests.support.engines.audited import ByHand

ZIPS = {"20433": 0, "20435": 1, "20437": 2}
SEXES = {"female": 0, "male": 1}

# Tables 1 and 3: zip code, gender, age, disease of cases 1 to 4, then of 5 and 6.
PATIENTS = {
    "1": ("20433", "female", 21, "bird-flu"),
    "2": ("20437", "male", 48, "hiv"),
    "3": ("20433", "female", 26, "insomnia"),
    "4": ("20437", "female", 31, "cancer"),
    "5": ("20437", "male", 54, "obesity"),
    "6": ("20435", "female", 31, "sars"),
}
TABLE_2 = {
    "1": ("2043*", "*", 21, 48),
    "2": ("2043*", "*", 21, 48),
    "3": ("2043*", "female", 26, 31),
    "4": ("2043*", "female", 26, 31),
}
TABLE_5 = {
    "1": ("20433", "female", 21, 26),
    "2": ("20437", "male", 48, 54),
    "3": ("20433", "female", 21, 26),
    "4": ("2043*", "female", 31, 31),
    "5": ("20437", "male", 48, 54),
    "6": ("2043*", "female", 31, 31),
}
TABLE_6 = {
    **TABLE_5,
    "2": ("20437", "male", 48, 48),
    "3": ("20433", "female", 26, 26),
}
NEVER_MOVED = dict.fromkeys(PATIENTS, 1)


def box(zip_code: str, sex: str, youngest: int, oldest: int) -> Region:
    zips = (0, 3) if zip_code == "2043*" else (ZIPS[zip_code], ZIPS[zip_code] + 1)
    sexes = (0, 2) if sex == "*" else (SEXES[sex], SEXES[sex] + 1)
    return Region((zips[0], sexes[0], youngest), (zips[1], sexes[1], oldest + 1))


def boxes(table: dict[str, tuple[str, str, int, int]]) -> dict[str, Region]:
    return {case: box(*row) for case, row in table.items()}


def test_tables_2_and_5_together_tell_what_table_6_says() -> None:
    inference = Inference()
    inference.see(boxes(TABLE_2), NEVER_MOVED)
    assert inference.see(boxes(TABLE_5), NEVER_MOVED) == list(boxes(TABLE_6).values())


def test_each_release_is_2_anonymous_and_four_of_six_rows_are_unsafe_in_both_together() -> None:
    inference = Inference()
    assert unsafe_rows(inference.see(boxes(TABLE_2), NEVER_MOVED), 2) == 0
    assert unsafe_rows(boxes(TABLE_5).values(), 2) == 0
    inferred = inference.see(boxes(TABLE_5), NEVER_MOVED)
    assert unsafe_rows(inferred, 2) == 4  # cases 1, 2 and 3, and case 5, a widow (example 6); 4 and 6 are alike


def test_somebody_who_moved_in_between_is_known_by_the_last_release_only() -> None:
    inference = Inference()
    inference.see(boxes(TABLE_2), NEVER_MOVED)
    inferred = inference.see(boxes(TABLE_5), {**NEVER_MOVED, "2": 2})
    assert inferred[1] == box(*TABLE_5["2"])


def policy() -> Policy:
    return build_policy(
        {
            "table": "pei",
            "attributes": {
                "zip": {"type": "category", "hierarchy": "zip.csv"},
                "sex": {"type": "category", "values": list(SEXES)},
                "age": {"type": "int", "min": 0, "max": 99},
            },
            "sensitive": {"name": "disease", "values": [row[3] for row in PATIENTS.values()]},
            "privacy": {"values": "redrawn", "k": 2, "l": 2},
        },
        {"zip.csv": "".join(f"{leaf};2043*;*\n" for leaf in ZIPS).encode()},
        b"pei",
    )


def region(zip_code: str, sex: str, youngest: int, oldest: int) -> dict[str, Any]:
    top = "*" if zip_code == "2043*" else zip_code  # the highest label that says the same
    return {"zip": {"nodes": [top]}, "sex": {"nodes": [sex]}, "age": {"min": youngest, "max": oldest}}


def test_the_auditor_sees_that_the_releases_come_from_no_one_tree_and_that_regions_grew() -> None:
    desk = ByHand(policy())
    for number, table in enumerate((TABLE_2, TABLE_5), start=1):
        for case in [case for case in table if case not in desk.truth.present]:
            zip_code, sex, age, disease = PATIENTS[case]
            qid = {"zip": zip_code, "sex": sex, "age": age}
            desk.tell({"op": "insert", "id": case, "qid": qid, "sensitive": disease})
        cells: dict[tuple[str, str, int, int], str] = {}
        regions = {case: (cells.setdefault(row, f"c{number}{len(cells)}"), region(*row)) for case, row in table.items()}
        # One group for everybody: this is about regions.
        groups = {f"g{number}": (number, list(table), {PATIENTS[case][3]: 1 for case in table})}
        desk.publish(groups, regions, max_breach=[1 / 4, 1 - 3 / 4 * 5 / 6][number - 1])
        if number == 1:
            assert desk.sentences() == set()  # one of its regions holds the other, which a tree allows
    assert desk.sentences() == {
        "G1: a region overlaps another without one holding the other",
        "G1: a person's region is not inside their earlier one",
        "G1: two people once told apart share a region",
        "contract: a group is broken although nobody in it changed and no cell of it closed",
    }
