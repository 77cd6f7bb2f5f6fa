"""Changes of policy: which are allowed, which are refused, and that each says what becomes of it."""

from pathlib import Path

import pytest

from shoal.core.policy.difference import differences
from shoal.core.policy.policy import Policy
from shoal.streams.files.policy_yaml import load_policy

FILE = """
table: ward
attributes:
  age: {type: int, min: 0, max: 110}
  zip: {type: category, hierarchy: zip.csv}
sensitive: {name: disease, hierarchy: disease.csv, open: [flu, cold], permanent: [hiv]}
privacy: {k: 3, l: 2}
release: {every_events: 100}
"""
REDRAWN = FILE.replace("l: 2", "l: 2, values: redrawn")
ZIP = "20433;2043*;*\n20437;2043*;*\n31000;3*;*\n"
DISEASE = "flu;lung;*\nasthma;lung;*\ncold;*\nulcer;*\ngout;*\nhiv;*\n"


def read(folder: Path, text: str, **files: str) -> Policy:
    for name, content in {"zip": ZIP, "disease": DISEASE, **files}.items():
        (folder / f"{name}.csv").write_text(content)
    (folder / "policy.yaml").write_text(text)
    return load_policy(folder / "policy.yaml")


def judged(folder: Path, before: str, after: str, **files: str) -> dict[str, bool]:
    found = differences(read(folder, before), read(folder, after, **files))
    return {f"{one.place}: {one.change}": one.is_allowed for one in found}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("k: 3", "k: 4", {"privacy.k: 3 to 4": True}),
        ("k: 3", "k: 2", {"privacy.k: 3 to 2": False, "privacy.headroom: 2 to 1": True}),
        (
            "l: 2",
            "l: 2.5",
            {"privacy.l: 2.0 to 2.5": False, "privacy.signature: 4 to 5": False, "privacy.batch: 16 to 20": True},
        ),
        ("l: 2", "l: 2, signature: 5, batch: 16", {"privacy.signature: 4 to 5": False}),
        ("l: 2", "l: 2, headroom: 5", {"privacy.headroom: 2 to 5": True}),
        ("l: 2", "l: 2, batch: 8", {"privacy.batch: 16 to 8": True}),
        (
            "l: 2",
            "l: 2, insiders: 1, batch: 16",
            {"privacy.insiders: 0 to 1": False, "privacy.signature: 4 to 5": False},
        ),
        ("l: 2", "l: 2, values: redrawn", {"privacy.values: lasting to redrawn": False}),
        ("l: 2", "l: 2, sampling: 0.5", {"privacy.sampling: 1.0 to 0.5": False}),
        ("l: 2", "l: 2, participation: all", {"privacy.participation: 0 to all": False}),
        ("l: 2", "l: 2, overlap: 3", {"privacy.overlap: 2 to 3": False}),
        ("l: 2", "l: 2, search: 3", {"privacy.search: 32 to 3": True}),
        ("table: ward", "table: yard", {"table: ward to yard": False}),
        ("max: 110", "max: 120", {"attributes.age: int 0 to 110 to int 0 to 120": False}),
        ("  age: {type: int, min: 0, max: 110}\n", "", {"attributes: age, zip to zip": False}),
        ("every_events: 100", "every_events: 50", {"release.every_events: 100 to 50": True}),
        ("name: disease", "name: illness", {"sensitive.name: disease to illness": False}),
        ("open: [flu, cold]", "open: [flu, cold, gout]", {"sensitive.open: gout becomes open": False}),
        ("open: [flu, cold]", "open: [flu]", {"sensitive.open: cold is open no more": False}),
        ("permanent: [hiv]", "permanent: [hiv, gout]", {"sensitive.permanent: gout becomes permanent": False}),
    ],
)
def test_every_difference_is_named_with_what_becomes_of_it(
    tmp_path: Path, old: str, new: str, said: dict[str, bool]
) -> None:
    assert judged(tmp_path, FILE, FILE.replace(old, new)) == said


@pytest.mark.parametrize(
    ("zips", "said"),
    [
        (
            ZIP + "20438;2043*;*\n40000;4*;*\n",
            {"20438 is new, below 2043*": True, "4* is new, below *": True, "40000 is new, below 4*": True},
        ),
        (
            ZIP.replace("20437;2043*", "20435;2043*;*\n20437;2043*"),
            {"20435 is new, below 2043*": True, "new labels stand before older ones below 2043*": False},
        ),
        (ZIP.replace("31000;3*;*\n", ""), {"3* is gone": False, "31000 is gone": False}),
        ("20433;2043*;*\n31000;3*;*\n20437;3*;*\n", {"20437 stands below 3*": False}),
        ("\n".join(reversed(ZIP.split())), {"another order below *": False, "another order below 2043*": False}),
        (
            ZIP.replace("31000;3*", "31000-1;31000;3*"),
            {"31000 is node above others": False, "31000-1 is new, below 31000": True},
        ),
    ],
)
def test_labels_may_be_added_behind_their_siblings_and_nothing_else(
    tmp_path: Path, zips: str, said: dict[str, bool]
) -> None:
    wanted = {f"attributes.zip: {sentence}": allowed for sentence, allowed in said.items()}
    assert judged(tmp_path, FILE, FILE, zip=zips) == wanted


def test_a_new_value_may_be_of_any_kind_but_among_permanent_ones_that_are_shown_among_each_other(
    tmp_path: Path,
) -> None:
    more = DISEASE + "rash;skin;*\nitch;skin;*\nals;*\n"
    found = judged(tmp_path, FILE, FILE.replace("cold]", "cold, rash]").replace("[hiv]", "[hiv, als]"), disease=more)
    assert len(found) == 4, found
    assert all(found.values())
    more += "ms;*\nptsd;*\n"
    found = judged(tmp_path, FILE, FILE.replace("[hiv]", "[hiv, als, ms, ptsd]"), disease=more)
    assert found.pop("sensitive.permanent: 1 to 4 values") is False
    assert all(found.values())


def test_below_a_node_that_was_charged_to_its_leaves_a_redrawn_table_takes_no_more(tmp_path: Path) -> None:
    for more, is_allowed in (("rash;*\n", True), ("rash;skin;*\n", True), ("angina;lung;*\n", False)):
        found = judged(tmp_path, REDRAWN, REDRAWN, disease=DISEASE + more)
        assert found.get("sensitive: new labels below lung", True) is is_allowed
        assert judged(tmp_path, FILE, FILE, disease=DISEASE + more).get("sensitive: new labels below lung") is None


def test_comments_layout_and_defaults_make_no_difference(tmp_path: Path) -> None:
    assert judged(tmp_path, FILE, f"# a comment\n{FILE.replace('l: 2', 'l: 2.0, signature: 4')}") == {}


def test_a_refusal_is_a_sentence_with_a_reason(tmp_path: Path) -> None:
    (found,) = differences(read(tmp_path, FILE), read(tmp_path, FILE.replace("k: 3", "k: 2, headroom: 2")))
    assert str(found) == (
        "privacy.k: 3 to 2: refused, regions were promised to be shared by 3; begin a new table for it"
    )
