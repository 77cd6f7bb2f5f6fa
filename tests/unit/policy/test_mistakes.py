"""Policies: every mistake in one is found at once, with its place, and none is passed over."""

import copy
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import PolicyError
from shoal.core.policy.policy import Policy
from tests.unit.policy.test_policy import FILES, FULL, LASTING, REMOVE, SMALL, build, changed

PRIVACY_KEYS = "k, l, values, insiders, signature, batch, strategy, headroom, participation, sampling, overlap, search"


def mistakes_in(document: object, files: dict[str, bytes | None] = FILES) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        build(document, files)
    assert str(caught.value) == "\n".join(map(str, caught.value.mistakes))
    return [str(mistake) for mistake in caught.value.mistakes]


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        ("table", REMOVE, "table: is missing"),
        ("table", None, "table: is empty"),
        ("table", 5, "table: must be text"),
        ("table", "", "table: must begin"),
        ("table", "Patients", "table: must begin"),
        ("table", "a b", "table: must begin"),
        ("table", "a\n", "table: must begin"),
        ("table", "-a", "table: must begin"),
        ("table", "a" * 101, "table: must have at most 100"),
        ("tabel", "x", "tabel: is not a known key; did you mean table?"),
        ("zzz", "x", "zzz: is not a known key; known are: table, attributes"),
        ("attributes", {}, "attributes: must name at least one"),
        ("attributes", [], "attributes: must be a mapping"),
        ("attributes", None, "attributes: is empty"),
        ("attributes", REMOVE, "attributes: is missing"),
        ("attributes.age", None, "attributes.age: is empty"),
        ("attributes.age", "int", "attributes.age: must be a mapping"),
        ("attributes.age.type", REMOVE, "attributes.age.type: is missing; it must be one of int, float, category"),
        ("attributes.age.type", "integer", "attributes.age.type: must be one of int, float, category"),
        ("attributes.age.type", "itn", "did you mean int?"),
        ("attributes.age.type", None, "attributes.age.type: must be one of"),
        ("attributes.age.type", ["int"], "attributes.age.type: must be one of"),
        ("attributes.age.minn", 0, "attributes.age.minn: is not a known key; did you mean min?"),
        ("attributes.age.hierarchy", "x.csv", "attributes.age.hierarchy: is for category attributes, not for int"),
        ("attributes.age.values", ["a"], "attributes.age.values: is for category attributes, not for int"),
        ("attributes.age.min", REMOVE, "attributes.age.min: is missing"),
        ("attributes.age.min", True, "attributes.age.min: must be a whole number"),
        ("attributes.age.min", 0.0, "attributes.age.min: must be a whole number"),
        ("attributes.age.min", "0", "attributes.age.min: must be a whole number"),
        ("attributes.age.max", 1e3, "attributes.age.max: must be a whole number"),
        ("attributes.age.max", 2**53 + 1, "attributes.age.max: must be at most 9007199254740992"),
        ("attributes.age.min", -(2**63), "attributes.age.min: must be at least -9007199254740992"),
        ("attributes.age.max", 0, "attributes.age.max: must be more than min"),
        ("attributes.age.max", -1, "attributes.age.max: must be more than min"),
        ("attributes.weight.max", NAN, "attributes.weight.max: must be a finite number"),
        ("attributes.weight.max", INF, "attributes.weight.max: must be a finite number"),
        ("attributes.weight.min", -INF, "attributes.weight.min: must be a finite number"),
        ("attributes.weight.max", True, "attributes.weight.max: must be a number"),
        ("attributes.weight.max", 10**400, "attributes.weight.max: must be a number"),
        ("attributes.weight.max", 0, "attributes.weight.max: must be more than min"),
        ("attributes.weight", {"type": "float", "min": -1.7e308, "max": 1.7e308}, "is too far from min"),
        ("attributes.sex.min", 0, "attributes.sex.min: is for int and float attributes, not for category"),
        ("attributes.sex.values", REMOVE, "attributes.sex: needs values or hierarchy"),
        ("attributes.sex.values", [], "attributes.sex.values: must not be empty"),
        ("attributes.sex.values", "female", "attributes.sex.values: must be a list"),
        ("attributes.sex.values", None, "attributes.sex.values: is empty"),
        ("attributes.sex.values", ["a", "b", "a"], "attributes.sex.values[2]: 'a' is there twice"),
        ("attributes.sex.values", [1, "1"], "attributes.sex.values[1]: '1' is there twice"),
        ("attributes.sex.values", ["1", 1], "attributes.sex.values[1]: '1' is there twice"),
        ("attributes.sex.values", ["a", "b\u2028c"], "control character"),
        ("attributes.sex.values", ["a", "*"], 'attributes.sex.values[1]: "*" stands for everything'),
        ("attributes.sex.values", ["a", ""], "attributes.sex.values[1]: a label is empty"),
        ("attributes.sex.values", ["a", " b"], "attributes.sex.values[1]: the label ' b' begins or ends"),
        ("attributes.sex.values", ["a", "b\t"], "attributes.sex.values[1]: the label 'b\\t'"),
        ("attributes.sex.values", ["a", "b\x00c"], "control character"),
        ("attributes.sex.values", ["a", "\ud800"], "half a surrogate pair"),
        ("attributes.sex.values", ["a", True], "attributes.sex.values[1]: must be text"),
        ("attributes.sex.values", ["a", None], "attributes.sex.values[1]: must be text"),
        ("attributes.sex.values", ["a", 1.0], "attributes.sex.values[1]: must be text"),
        ("attributes.sex.values", ["a", ["b"]], "attributes.sex.values[1]: must be text"),
        ("attributes.sex.hierarchy", "zip.csv", "attributes.sex.hierarchy: cannot stand beside values"),
        ("attributes.zip.hierarchy", "no.csv", "attributes.zip.hierarchy: the file no.csv cannot be read"),
        ("attributes.zip.hierarchy", 5, "attributes.zip.hierarchy: must be text"),
        ("attributes.zip.hierarchy", "", "attributes.zip.hierarchy: a text is empty"),
        ("snapshot", None, "snapshot: is empty"),
        ("snapshot", 24, "snapshot: must be a mapping"),
        ("snapshot", {"every_releases": 24}, "snapshot.to: is missing"),
        ("snapshot", {"to": "kept"}, "snapshot.every_releases: is missing"),
        ("snapshot", {"every_releases": 0, "to": "kept"}, "snapshot.every_releases: must be at least 1"),
        ("snapshot", {"every_release": 1, "to": "kept"}, "did you mean every_releases?"),
        ("sensitive", REMOVE, "sensitive: is missing"),
        ("sensitive", "disease", "sensitive: must be a mapping"),
        ("sensitive.name", REMOVE, "sensitive.name: is missing"),
        ("sensitive.name", "", "sensitive.name: "),
        ("sensitive.name", "age", "sensitive.name: is also the name of an attribute"),
        ("sensitive.hierarchy", REMOVE, "sensitive: needs values or hierarchy"),
        ("sensitive.values", ["a"], "sensitive.hierarchy: cannot stand beside values"),
        ("sensitive.opne", [], "sensitive.opne: is not a known key; did you mean open?"),
        ("sensitive.open", "flu", "sensitive.open: must be a list"),
        (
            "sensitive.open",
            ["flue"],
            "sensitive.open[0]: 'flue' is not a value of the sensitive attribute; did you mean flu?",
        ),
        ("sensitive.open", ["respiratory"], "sensitive.open[0]: 'respiratory' stands above other values"),
        ("sensitive.open", ["*"], 'sensitive.open[0]: "*" stands for everything'),
        ("sensitive.open", ["flu", "flu"], "sensitive.open[1]: 'flu' is there twice"),
        ("sensitive.permanent", ["hvi"], "sensitive.permanent[0]: 'hvi' is not a value"),
        ("sensitive.permanent", ["flu"], "sensitive.open[0]: 'flu' is also permanent"),
        ("privacy", REMOVE, "privacy: is missing"),
        ("privacy.k", REMOVE, "privacy.k: is missing"),
        ("privacy.k", 0, "privacy.k: must be at least 1"),
        ("privacy.k", True, "privacy.k: must be a whole number"),
        ("privacy.k", 5.0, "privacy.k: must be a whole number"),
        ("privacy.k", 10**12, "privacy.k: must be at most 1000000000"),
        ("privacy.l", 1, "privacy.l: must be more than 1"),
        ("privacy.l", NAN, "privacy.l: must be a finite number"),
        ("privacy.l", True, "privacy.l: must be a number"),
        ("privacy.l", REMOVE, "privacy.l: is missing"),
        ("privacy.strategy", "adaptive", "privacy.strategy: must be a mapping"),
        ("privacy.strategy", {}, "privacy.strategy.name: is missing"),
        ("privacy.strategy", {"name": "adaptve"}, "did you mean adaptive?"),
        ("privacy.strategy", {"name": "geometric"}, "privacy.strategy.alpha: is missing; geometric needs it"),
        ("privacy.strategy", {"name": "geometric", "alpha": 1}, "privacy.strategy.alpha: must be more than 1"),
        ("privacy.strategy", {"name": "geometric", "alpha": 2, "releases": 3}, "not for geometric"),
        (
            "privacy.strategy",
            {"name": "adaptive", "alpha": 2},
            "privacy.strategy.alpha: is for geometric, not for adaptive",
        ),
        (
            "privacy.strategy",
            {"name": "constant-ratio", "releases": 0},
            "privacy.strategy.releases: must be at least 1",
        ),
        ("privacy.strategy", {"name": "adaptive", "releases": None}, "privacy.strategy.releases: is empty"),
        ("privacy.headroom", -1, "privacy.headroom: must be at least 0"),
        ("privacy.participation", -1, "privacy.participation: must be a whole number from 0 up, or all"),
        ("privacy.participation", "some", "privacy.participation: must be a whole number from 0 up, or all"),
        ("privacy.participation", True, "privacy.participation: must be a whole number from 0 up, or all"),
        ("privacy.sampling", 0, "privacy.sampling: must be more than 0"),
        ("privacy.sampling", 1.5, "privacy.sampling: must be at most 1"),
        ("privacy.overlap", 0, "privacy.overlap: must be at least 1"),
        ("privacy.search", 2.5, "privacy.search: must be a whole number"),
        ("privacy.values", "redrawm", "privacy.values: must be one of lasting, redrawn; did you mean redrawn?"),
        ("privacy.values", True, "privacy.values: must be one of lasting, redrawn"),
        ("privacy.values", None, "privacy.values: is empty"),
        ("privacy.signature", 4, "privacy.signature: is only for tables with values: lasting"),
        ("privacy.signature", 0, "privacy.signature: must be at least 1"),
        ("privacy.batch", 16, "privacy.batch: is only for tables with values: lasting"),
        ("privacy.insiders", 0, "privacy.insiders: is only for tables with values: lasting"),
        ("privacy.insiders", 1, "privacy.insiders: is only for tables with values: lasting"),
        ("scale", None, "scale: is empty"),
        ("scale.shard", 1, "scale.shard: is not a known key; did you mean shards?"),
        ("scale.shards", 0, "scale.shards: must be at least 1"),
        ("scale.shards", 2, "scale.shards: must be 1 in a redrawn table"),
        ("release", None, "release: is empty"),
        ("release.full_every", 0, "release.full_every: must be at least 1"),
        ("release", [], "release: must be a mapping"),
        ("release.every_events", 0, "release.every_events: must be at least 1"),
        ("release.every_events", 1e3, "release.every_events: must be a whole number"),
        ("release.every_seconds", 0, "release.every_seconds: must be more than 0"),
        ("release.every_seconds", INF, "release.every_seconds: must be a finite number"),
        ("release.at", "0 3 * *", "release.at: a cron expression has five fields"),
        ("release.at", 5, "release.at: must be text"),
        ("release.timezone", "Mars/Olympus", "release.timezone: is not a known time zone"),
        ("release.timezone", "Europe/Viena", "did you mean Europe/Vienna?"),
        ("release.timezone", "../../etc/passwd", "release.timezone: is not a known time zone"),
        ("release.timezone", "Europe", "release.timezone: is not a known time zone"),
        ("release.at", REMOVE, "release.timezone: has no effect without at"),
        ("release.case_ids", "no", "release.case_ids: must be true or false"),
        ("release.case_ids", 1, "release.case_ids: must be true or false"),
    ],
)
def test_a_mistake_is_named_with_its_place(place: str, value: object, expected: str) -> None:
    assert any(expected in mistake for mistake in mistakes_in(changed(FULL, (place, value))))


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        ("privacy.strategy", {"name": "adaptive"}, "privacy.strategy: is only for tables with values: redrawn"),
        ("privacy.signature", 3, "privacy.signature: must be at least 2l, 4"),
        ("privacy.signature", 6, "privacy.signature: must be at most 5, the number of sensitive values"),
        ("privacy.signature", 4.0, "privacy.signature: must be a whole number, written without a point or exponent"),
        (
            "privacy.counterfeits",
            0.02,
            f"privacy.counterfeits: is not a known key; known are: {PRIVACY_KEYS}",
        ),
        ("privacy.insiders", -1, "privacy.insiders: must be at least 0"),
        ("privacy.insiders", 0.5, "privacy.insiders: must be a whole number, written without a point or exponent"),
        (
            "privacy.insiders",
            2,
            "privacy.insiders: needs signatures of 6 values, and there are 5; 2l + insiders must be at most 5",
        ),
        ("privacy.batch", 3, "privacy.batch: must be at least the signature, 4"),
        ("privacy.batch", 0, "privacy.batch: must be at least 1"),
        ("privacy.l", 3, "privacy.l: needs signatures of 6 values, and there are 5; l must be at most 2.5"),
        ("scale.shards", 0, "scale.shards: must be at least 1"),
        ("scale.shards", 11, "scale.shards: must be at most 10, the number of different quasi-identifiers"),
        ("release.case_ids", True, "release.case_ids: is only for tables with values: redrawn"),
    ],
)
def test_a_mistake_of_a_lasting_table_is_named_with_its_place(place: str, value: object, expected: str) -> None:
    assert mistakes_in(changed(LASTING, (place, value))) == [expected]


def test_mistakes_of_the_model_are_listed_with_all_others() -> None:
    document = changed(
        LASTING,
        ("privacy.k", 0),
        ("privacy.strategy", {"name": "adaptve"}),
        ("privacy.signature", 2),
        ("scale.shards", 0),
        ("release", {"case_ids": True, "full_every": 0, "every_events": 0}),
    )
    places = {mistake.partition(":")[0] for mistake in mistakes_in(document)}
    assert places == {
        "privacy.k", "privacy.strategy", "privacy.strategy.name", "privacy.signature", "scale.shards",
        "release.case_ids", "release.full_every", "release.every_events",
    }  # fmt: skip


def test_open_values_need_no_signature() -> None:
    build(changed(LASTING, ("sensitive.values", ["a", "b"]), ("sensitive.open", ["a", "b"])))


@pytest.mark.parametrize("name", ["", " age", "a\nb", "a\x00", "\ud800"])
def test_a_name_that_cannot_be_seen_is_refused(name: str) -> None:
    document = copy.deepcopy(SMALL)
    document["attributes"][name] = {"type": "int", "min": 0, "max": 1}
    mistakes = mistakes_in(document)
    assert len(mistakes) == 1
    assert mistakes[0].isprintable()


def test_keys_that_are_not_text_are_refused() -> None:
    assert mistakes_in(SMALL | {5: 1}) == ["has a key that is not text; write it in quotes"]
    assert mistakes_in(changed(SMALL, ("attributes", {5: {"type": "int", "min": 0, "max": 1}}))) == [
        "attributes: has a key that is not text; write it in quotes"
    ]
    assert mistakes_in(changed(SMALL, ("privacy", {"values": "redrawn", "k": 1, "l": 2, True: 3}))) == [
        "privacy: has a key that is not text; write it in quotes"
    ]


@pytest.mark.parametrize("document", [None, [], "table", 3, True])
def test_what_is_no_mapping_is_refused(document: object) -> None:
    assert len(mistakes_in(document)) == 1


def test_an_l_that_no_group_can_reach_is_refused_unless_open_values_can_help() -> None:
    assert mistakes_in(changed(SMALL, ("privacy.l", 2.5))) == [
        "privacy.l: 1/l cannot be reached with 2 values; l must be at most 2"
    ]
    assert build(changed(SMALL, ("privacy.l", 2.5), ("sensitive.open", ["a"]))).l == 2.5


def test_hierarchy_mistakes_name_the_file_and_the_line() -> None:
    files = {**FILES, "zip.csv": b"20433;2043*\n;*\n", "disease.csv": b"flu;*\n\xff;*\n"}
    assert mistakes_in(FULL, files) == [
        'attributes.zip.hierarchy: zip.csv, line 1: the line does not end in "*"',
        "attributes.zip.hierarchy: zip.csv, line 2: a label is empty",
        "sensitive.hierarchy: disease.csv, line 2: is not UTF-8",
    ]


def test_a_hopeless_hierarchy_does_not_bury_the_other_mistakes() -> None:
    files = {**FILES, "zip.csv": b"x\n" * 500}
    mistakes = mistakes_in(changed(FULL, ("privacy.k", 0)), files)
    assert len(mistakes) == 22
    assert "attributes.zip.hierarchy: zip.csv: and 480 more mistakes" in mistakes


def test_every_mistake_is_reported_at_once() -> None:
    document = changed(
        FULL,
        ("table", "T"),
        ("extra", 1),
        ("attributes.age.max", -1),
        ("attributes.weight.min", NAN),
        ("attributes.sex.values", ["a", "a", None, "*"]),
        ("attributes.zip.hierarchy", "no.csv"),
        ("sensitive.name", "age"),
        ("sensitive.open", ["nope", "flu", "flu"]),
        ("privacy.k", 0),
        ("privacy.strategy", {"name": "adaptive", "alpha": 2}),
        ("privacy.sampling", 1.1),
        ("release.at", "x"),
        ("release.timezone", "x"),
    )
    places = [mistake.split(": ")[0] for mistake in mistakes_in(document)]
    assert sorted(places) == sorted(
        [
            "table",
            "extra",
            "attributes.age.max",
            "attributes.weight.min",
            "attributes.sex.values[1]",
            "attributes.sex.values[2]",
            "attributes.sex.values[3]",
            "attributes.zip.hierarchy",
            "sensitive.name",
            "sensitive.open[2]",
            "privacy.k",
            "privacy.strategy.alpha",
            "privacy.sampling",
            "release.at",
            "release.timezone",
        ]
    )


def test_unknown_open_values_are_reported_beside_other_mistakes_of_the_section() -> None:
    document = changed(FULL, ("sensitive.open", ["nope"]), ("sensitive.name", REMOVE))
    assert [mistake.split(": ")[0] for mistake in mistakes_in(document)] == ["sensitive.name", "sensitive.open[0]"]


_junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3),
    max_leaves=6,
)
_PLACES = [
    *FULL,
    *(f"{section}.{key}" for section, content in FULL.items() if isinstance(content, dict) for key in content),
    *(f"attributes.{name}.{key}" for name, section in FULL["attributes"].items() for key in section),
    *(f"privacy.strategy.{key}" for key in ("name", "alpha", "releases")),
]


@given(st.lists(st.tuples(st.sampled_from(_PLACES), _junk), min_size=1, max_size=3))
def test_junk_anywhere_gives_a_policy_or_mistakes_and_nothing_else(changes: list[tuple[str, object]]) -> None:
    document = copy.deepcopy(FULL)
    for place, value in changes:
        *parents, last = place.split(".")
        section: Any = document
        for parent in parents:
            section = section.get(parent) if isinstance(section, dict) else None
        if isinstance(section, dict):
            section[last] = value
    try:
        found: Policy | PolicyError = build(document)
    except PolicyError as error:
        found = error
    assert isinstance(found, Policy) or (found.mistakes and all(mistake.message for mistake in found.mistakes))
