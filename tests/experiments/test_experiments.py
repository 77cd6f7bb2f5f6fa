"""The experiments run, compare like with like, and docs/experiments.md says what they found."""

import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.core.audit.attack.chance import is_beyond_chance
from tests.experiments.__main__ import fill, load, main
from tests.experiments.lasting import PUBLISHERS, adult_with_churn
from tests.experiments.mondrian import View, anonymize, unsafe_share
from tests.experiments.rounds import Reactions
from tests.experiments.series import changes
from tests.experiments.show import SHOW
from tests.experiments.zipf import Crowd
from tests.support.root import ROOT

_PAGE = ROOT / "docs" / "experiments.md"
_FIGURES = ROOT / "docs" / "experiments"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("experiments")


def run(name: str, folder: Path) -> dict[str, Any]:
    main([name, "--quick", "--out", str(folder)])
    for file in SHOW[name](load(name, folder)).plots:
        assert (folder / file).read_bytes().startswith(b"\x89PNG")
    return load(name, folder)


def test_on_adult_the_tree_leaves_no_row_unsafe_and_independent_releases_do(quick: Path) -> None:
    figures = run("adult", quick)
    for found in (*figures["by_k"], *figures["by_increment"]):
        assert found["tight_unsafe"] == found["default_unsafe"] == 0
        assert found["independent_unsafe_eight"] > found["independent_unsafe"] > 0.1
        assert found["tight_ratio"] < 1.2
    assert all(found["unsafe"] == 0 for found in figures["series"])
    assert figures["series"][-1]["independent_unsafe"] > 0.1


@pytest.mark.slow
def test_beside_four_publishers_nobody_is_left_with_too_few_values(quick: Path) -> None:
    figures = run("baig", quick)
    for kind in ("job, even", "job, plain", "occupation, even", "occupation, plain"):
        for found in (*figures[kind]["by_u"], *figures[kind]["by_u_at_six"], *figures[kind]["by_alpha"]):
            assert found["exposed_with"] == 0
            assert found["few_with"] == 0 or "plain" in kind  # whose groups may have fewer values by themselves
            assert found["counterfeits_with"] <= 0.05
            assert found["few_without"] > 0.1
    assert figures["job, even"]["by_u"][0]["exposed_without"] > 0.85
    assert figures["job, even"]["by_u"][0]["suppressed_with"] < 0.1
    assert figures["occupation, even"]["by_u"][0]["suppressed_with"] < 0.05
    assert figures["occupation, plain"]["by_u"][0]["suppressed_with"] < 0.65


def test_the_model_answers_contrasts_better_than_the_even_estimate_and_shares_alone(quick: Path) -> None:
    figures = run("answers", quick)
    for name in ("adult", "clinic"):
        for publisher in ("lasting", "redrawn"):
            found = figures[name][publisher]
            assert found["contrast_true"] < found["contrast_error"] < found["contrast_even"] < found["contrast_alone"]
            assert found["contrast_error"] < 0.95 * found["contrast_even"]
            assert found["query_held"] > 0.75
        assert figures[name]["l-diversity"]["contrast_kept"] == pytest.approx(1, abs=0.05)


def test_where_values_last_only_signatures_keep_the_attacks_claims_wrong(quick: Path) -> None:
    figures = run("lasting", quick)
    for name, table in figures.items():
        if name == "engine":
            continue
        publishers = table["publishers"]
        assert set(publishers) == set(PUBLISHERS)
        for claims in publishers["lasting"]["attack"]:
            assert not is_beyond_chance(claims["over"], claims["over_right"], Fraction(1, 2))
            assert claims["sure_right"] == 0
        for end in (publishers["lasting"]["releases"][-1], publishers["m-invariance"]["releases"][-1]):
            assert end["hidden_share"] < 0.25
        assert publishers["m-invariance"]["releases"][-1]["spare_share"] < 0.05, "its counterfeits"
        assert publishers["lasting"]["releases"][-1]["max_breach"] <= 0.5
    naive = [table["publishers"]["l-diversity"]["attack"] for name, table in figures.items() if name != "engine"]
    assert any(is_beyond_chance(one["over"], one["over_right"], Fraction(1, 2)) for found in naive for one in found)


def test_every_star_of_a_long_series_has_a_reason_and_few_are_left_without_a_round(quick: Path) -> None:
    for found in run("settled", quick)["releases"]:
        reasons = [found[reason] for reason in ("full", "second", "unfit", "company", "waiting", "blank")]
        assert found["hidden"] == pytest.approx(sum(reasons), abs=1e-4)
        assert found["hidden"] < 0.3
        assert (found["vacant"] == 0) == (found["release"] == 1)


def test_adult_with_churn_changes_as_much_as_it_says() -> None:
    first, second = adult_with_churn(500, 2).tables
    stayed = first.keys() & second.keys()
    assert (len(first), len(second), len(stayed)) == (500, 500, 490)
    assert 1 <= sum(first[person] != second[person] for person in stayed) <= 10


def test_a_looser_bound_on_coarse_cells_covers_more_and_loses_more(quick: Path) -> None:
    figures = run("coarse", quick)
    for name in ("coarse", "covered", "ncp"):
        found = [release[name] for release in figures["releases"]]
        assert found == sorted(found)
        assert found[0] < found[1] < found[-1]
    shares = [series["coarse"] for series in figures["series"]]
    assert shares[0] == 0 < shares[1] < shares[2]


def test_in_bus_rounds_shoal_gives_nobody_away_against_whom_it_promises_and_the_others_do(quick: Path) -> None:
    figures = run("permanent", quick)
    for found in figures["runs"]:
        assert [one["breached_list"] for one in found["rounds"]] == [0] * 4
        assert found["rounds"][-1]["holders_shown"] > 20
    everyone = next(found for found in figures["runs"] if found["participation"] == "all")
    assert [one["breached_members"] for one in everyone["rounds"]] == [0] * 4
    for found in figures["baselines"]:
        assert found["rounds"][0]["breached_members"] == 0
        assert found["rounds"][-1]["breached_members_share"] > 0.1


def test_on_synthea_no_row_is_unsafe_though_people_come_and_go(quick: Path) -> None:
    figures = run("synthea", quick)
    assert "prediabetes" in figures["lasting_conditions"]
    assert "normal-pregnancy" not in figures["lasting_conditions"]
    for name in ("all", "passing"):
        assert all(found["unsafe"] == 0 for found in figures[name])
        assert figures[name][-1]["independent_unsafe"] > 0.2
        assert all(found["max_breach"] <= found["bound"] for found in figures[name])


def test_wongs_rounds_keep_the_bound_with_every_strategy(quick: Path) -> None:
    figures = run("rounds", quick)
    assert {found["strategy"] for found in figures["runs"]} == {"constant-ratio", "geometric", "adaptive"}
    for found in figures["runs"]:
        assert found["most_max_breach"] <= 1 / found["l"]
        assert len(found["rounds"]) == 4


def test_the_zipf_crowd_is_published_nearly_whole(quick: Path) -> None:
    figures = run("zipf", quick)
    assert figures["most_withheld_share"] < 0.05
    assert all(found["present"] == 2000 for found in figures["releases"])


def test_a_long_series_is_run_with_less_and_more_headroom(quick: Path) -> None:
    tight, wide = run("long", quick)["runs"]
    assert [found["release"] for found in tight["releases"]] == [1, 5]
    assert tight["headroom"] < wide["headroom"]
    assert tight["releases"][-1]["ncp"] < wide["releases"][-1]["ncp"]


def test_a_name_that_is_no_experiment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["nonsense", "--out", str(tmp_path)])


def test_plain_mondrian_makes_classes_of_at_least_k_that_hold_their_people() -> None:
    points = np.random.default_rng(1).integers(0, 30, (700, 3))
    people, boxes = anonymize(points, np.arange(50, 700), 7).view
    assert people.tolist() == list(range(50, 700))
    assert np.all((boxes[:, 0::2] <= points[people]) & (points[people] <= boxes[:, 1::2]))
    assert min(Counter(map(tuple, boxes.tolist())).values()) >= 7


def test_a_row_is_unsafe_once_its_boxes_have_less_than_k_rows_in_common() -> None:
    whole = np.array([[0, 9]] * 4)
    halves = np.array([[0, 4], [0, 4], [5, 9], [5, 9]])
    crossed = np.array([[0, 2], [3, 9], [0, 2], [3, 9]])
    people = np.arange(4)
    assert unsafe_share([View(people, whole), View(people, halves)], 2) == 0
    assert unsafe_share([View(people, halves), View(people, crossed)], 2) == 1
    assert unsafe_share([View(people, halves), View(people, crossed)], 1) == 0


def test_a_newcomer_alone_in_an_old_region_is_unsafe_with_those_who_shared_it() -> None:
    before = View(np.array([0, 1]), np.array([[0, 4], [0, 4]]))
    after = View(np.array([0, 1, 2]), np.array([[0, 6], [0, 6], [0, 6]]))
    assert unsafe_share([before, after], 2) == pytest.approx(1 / 3)
    assert unsafe_share([before, after], 3) == 1


def test_the_zipf_crowd_changes_as_it_is_said_to() -> None:
    crowd = Crowd(people=5000, releases=3)
    first, second, _ = tables = list(crowd.tables())
    assert [len(table) for table in tables] == [5000] * 3
    assert len(first.keys() - second.keys()) == len(second.keys() - first.keys()) == 100
    both = first.keys() & second.keys()
    assert 50 < sum(first[person] != second[person] for person in both) <= 100  # some draw the value they had
    counts = Counter(values[0] for _, values in first.values())
    chances = np.arange(1, 401) ** -1.1
    assert counts[0] / 5000 == pytest.approx(1 / chances.sum(), abs=0.02)
    assert len(crowd.policy().sensitive.open) == 160
    assert list(crowd.tables()) == tables


def test_the_reactions_have_the_shape_of_wongs_table() -> None:
    reactions = Reactions(people=4_048, reactions=10_542, kinds=232, sensitive=23)
    tables = list(reactions.tables())
    assert len(tables) == 20
    assert len({person for table in tables for person in table}) == 4_048
    first, second = (sum(len(values) for _, values in table.values()) for table in tables[:2])
    assert first <= 10_542 / 20 + 1
    assert 1.1 * first < second <= 1.2 * 10_542 / 20 + 2
    policy = reactions.policy(2, {"name": "adaptive", "releases": 3})
    assert len(policy.sensitive.hierarchy.leaves) - len(policy.sensitive.open) == 23


def test_changes_turn_one_table_into_the_next() -> None:
    one, other = {"a": ((1,), (2,)), "b": ((1,), (2,)), "c": ((3,), (4,))}, {"b": ((1,), (5,)), "c": ((3,), (4,))}
    found = changes(one, other)
    assert sorted(found) == ["a", "b"]
    assert found["b"][1:3] == ((1,), (5,))
    assert found["a"][1] is None


def test_the_page_shows_what_the_figures_beside_it_say() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- figures: (\w+) -->", page)) == set(SHOW)
    assert fill(page, _FIGURES) == page


def test_every_plot_of_an_experiment_is_on_the_page_with_words_for_those_who_cannot_see_it() -> None:
    shown = dict(re.findall(r"!\[([^]]*)\]\(experiments/([^)]+)\)", _PAGE.read_text(encoding="utf-8")))
    plots = {file for name in SHOW for file in SHOW[name](load(name, _FIGURES)).plots}
    assert set(shown.values()) == plots
    assert all(len(words) > 15 for words in shown)
    assert {path.name for path in _FIGURES.glob("*.png")} == plots


def test_what_the_page_says_was_asked_for_was_reached() -> None:
    zipf, adult = load("zipf", _FIGURES), load("adult", _FIGURES)
    assert zipf["crowd"] == vars(Crowd())
    assert zipf["most_withheld_share"] < 0.005
    assert zipf["most_hidden_share"] < 0.005
    assert max(found["average_group"] for found in zipf["releases"]) <= 6.5
    assert all(found["tight_ratio"] <= 1.1 for found in (*adult["by_k"], *adult["by_increment"]))
    assert all(found["default_unsafe"] == found["tight_unsafe"] == 0 for found in adult["by_k"])
    assert next(found for found in adult["by_k"] if found["k"] == 10)["independent_unsafe_eight"] > 0.4
    for found in load("permanent", _FIGURES)["runs"]:
        assert not any(one["breached_list"] for one in found["rounds"])
        assert found["participation"] != "all" or not any(one["breached_members"] for one in found["rounds"])
    for found in load("rounds", _FIGURES)["runs"]:
        for name in ("query_error", "average_group"):
            assert found[f"{name}_late_to_early"] == pytest.approx(1, abs=0.1)
