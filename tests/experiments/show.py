"""What the experiments found, as plots and as tables for docs/experiments.md."""

from collections.abc import Callable

from shoal.streams.report.panel import Line, Panel
from tests.experiments.drawing import Plot, Shown, curves, points, table
from tests.experiments.series import Figures
from tests.experiments.show_answers import show_answers
from tests.experiments.show_lasting import show_lasting, show_settled

_GROUPS = {"average_group": "average", "median_group": "median"}
_ROUNDS = (1, 2, 5, 10, 15, 20)  # of Bu's twenty, those in the tables
_ERRORS = {"query_error": "mean", "query_error_median": "median"}


def show_adult(figures: Figures) -> Shown:
    by_k, by_increment, series = figures["by_k"], figures["by_increment"], figures["series"]
    leaks = {
        "independent_unsafe_eight": "independent, eight attributes",
        "independent_unsafe": "independent, seven attributes",
        "default_unsafe": "tree",
    }
    quality = {
        "mondrian_discernibility": "Mondrian, whole table",
        "tight_discernibility": "tree, headroom 0",
        "default_discernibility": "tree, default headroom",
    }
    over_time = {"unsafe": "tree", "independent_unsafe": "independent releases"}
    new_rows = "new rows, of the first release's"
    plots = {
        "adult-leakage.png": Plot(
            [
                curves("Unsafe rows, second release of 50 % more", by_k, "k", leaks, "rows", is_percent=True),
                curves("Unsafe rows, k = 10", by_increment, "increment", leaks, "rows", new_rows, is_percent=True),
            ]
        ),
        "adult-quality.png": Plot(
            [
                curves("Discernibility of the second release", by_k, "k", quality, "rows squared"),
                curves("Discernibility, k = 10", by_increment, "increment", quality, "rows squared", new_rows),
            ]
        ),
        "adult-series.png": Plot(
            [
                curves("Unsafe rows over all releases so far", series, "release", over_time, "rows", is_percent=True),
                curves("People per group", series, "release", _GROUPS, "people"),
                curves("NCP", series, "release", {"ncp": "NCP"}, "of the domain", is_percent=True),
                curves("Error of COUNT queries", series, "release", _ERRORS, "relative error", is_percent=True),
            ]
        ),
    }
    leak_table = {
        "k": ("k", ""),
        "unsafe: independent, eight attributes": ("independent_unsafe_eight", "%"),
        "independent, seven": ("independent_unsafe", "%"),
        "tree": ("default_unsafe", "%"),
        "tree, headroom 0": ("tight_unsafe", "%"),
        "discernibility: Mondrian": ("mondrian_discernibility", ",.0f"),
        "tree with headroom 0, times that": ("tight_ratio", ".3f"),
        "tree with default headroom, times that": ("default_ratio", ".3f"),
    }
    series_table = {
        "release": ("release", ""),
        "rows": ("rows", ","),
        "unsafe, independent": ("independent_unsafe", "%"),
        "unsafe, tree": ("unsafe", "%"),
        "withheld": ("withheld", ","),
        "suppressed or raised": ("hidden_share", "%%"),
        "people per group": ("average_group", ".2f"),
        "NCP": ("ncp", "%"),
        "query error, median": ("query_error_median", "%"),
        "seconds to plan": ("plan_s", ".2f"),
    }
    by_increment_table = {"new rows": ("increment", "%"), **{h: c for h, c in leak_table.items() if h != "k"}}
    texts = [table(by_k, leak_table), table(by_increment, by_increment_table), table(series, series_table)]
    return Shown(plots, "\n\n".join(texts))


def show_synthea(figures: Figures) -> Shown:
    runs = {
        "all": "all conditions",
        "passing": "those that come and go",
        "permanent": "all, those that stay for ever permanent",
    }
    years = [
        {"year": found["year"], **{f"{name}:{key}": figures[name][at][key] for name in runs for key in found}}
        for at, found in enumerate(figures["all"])
    ]

    def panel(title: str, key: str, y: str, *, is_percent: bool = True) -> Panel:
        lines = {f"{name}:{key}": label for name, label in runs.items()}
        return curves(title, years, "year", lines, y, is_percent=is_percent)

    unsafe = {"all:unsafe": "tree", "all:independent_unsafe": "independent releases"}
    panels = [
        curves("Unsafe rows over all releases so far", years, "year", unsafe, "rows", is_percent=True),
        panel("Suppressed or raised", "hidden_share", "of the values"),
        panel("Withheld", "withheld_share", "of the people"),
        panel("People per group", "average_group", "people", is_percent=False),
        panel("NCP", "ncp", "of the domain"),
        panel("Median error of COUNT queries", "query_error_median", "relative error"),
    ]
    columns = {
        "year": ("year", ""),
        "present": ("present", ","),
        "values per person": ("values_per_person", ".2f"),
        "groups carried": ("carried", ","),
        "unsafe, independent": ("independent_unsafe", "%"),
        "unsafe, tree": ("unsafe", "%"),
        "withheld": ("withheld_share", "%"),
        "suppressed or raised": ("hidden_share", "%"),
        "people per group": ("average_group", ".1f"),
        "max_breach": ("max_breach", ".4f"),
        "query error, median": ("query_error_median", "%"),
    }
    texts = [f"{label[0].upper()}{label[1:]}:\n\n{table(figures[name], columns)}" for name, label in runs.items()]
    return Shown({"synthea.png": Plot(panels, 3)}, "\n\n".join(texts))


def show_rounds(figures: Figures) -> Shown:
    runs = figures["runs"]
    strategies = list(dict.fromkeys(run["strategy"] for run in runs))

    def plot(key: str, title: str, y: str, *, is_percent: bool = False) -> Plot:
        top = 1.1 * max(found[key] for run in runs for found in run["rounds"])
        panels = []
        for strategy in strategies:
            mine = [run for run in runs if run["strategy"] == strategy]
            lines = [Line(f"l = {run['l']}", *points(run["rounds"], "release", key)) for run in mine]
            panels.append(Panel(f"{title}, {strategy}", "round", y, lines, is_percent=is_percent, top=top))
        return Plot(panels, 3)

    plots = {
        "rounds-error.png": plot("query_error", "Query error", "mean relative error", is_percent=True),
        "rounds-average.png": plot("average_group", "Average group", "people"),
        "rounds-largest.png": plot("largest_group", "Largest group", "people"),
        "rounds-time.png": plot("plan_s", "Time per round", "seconds"),
    }
    columns = {
        "strategy": ("strategy", ""),
        "ℓ": ("l", ""),
        "query error": ("query_error", "%"),
        "average group": ("average_group", ".2f"),
        "largest group": ("largest_group", ".1f"),
        "seconds": ("plan_s", ".2f"),
        "second half to first: error": ("query_error_late_to_early", ".2f"),
        "average group ": ("average_group_late_to_early", ".2f"),
        "largest group ": ("largest_group_late_to_early", ".2f"),
        "seconds ": ("plan_s_late_to_early", ".2f"),
        "withheld at most": ("most_withheld_share", "%%"),
        "suppressed at most": ("most_hidden_share", "%%"),
        "max_breach": ("most_max_breach", ".4f"),
    }
    return Shown(plots, table(runs, columns))


def show_zipf(figures: Figures) -> Shown:
    releases = figures["releases"]
    x = [found["release"] for found in releases]
    asked = Line("asked for: under 0.5 %", x, [0.005] * len(x), is_bound=True)
    bound = Line("bound", x, [found["bound"] for found in releases], is_bound=True)
    hidden = {"withheld_share": "withheld (of the people)", "hidden_share": "suppressed or raised (of the values)"}
    panels = [
        curves("Withheld, suppressed or raised", releases, "release", hidden, "share", is_percent=True, beside=asked),
        curves("People per group", releases, "release", _GROUPS, "people"),
        curves("Breach", releases, "release", {"max_breach": "max_breach"}, "probability", beside=bound),
        curves("Error of COUNT queries", releases, "release", _ERRORS, "relative error", is_percent=True),
    ]
    columns = {
        "release": ("release", ""),
        "present": ("present", ","),
        "groups formed": ("formed", ","),
        "carried": ("carried", ","),
        "withheld": ("withheld_share", "%%"),
        "suppressed or raised": ("hidden_share", "%%"),
        "people per group": ("average_group", ".2f"),
        "largest": ("largest_group", ""),
        "max_breach": ("max_breach", ".4f"),
        "query error": ("query_error", "%"),
        "seconds to plan": ("plan_s", ".2f"),
    }
    return Shown({"zipf.png": Plot(panels)}, table(releases, columns))


def show_long(figures: Figures) -> Shown:
    runs = figures["runs"]

    def panel(title: str, key: str, y: str, *, is_percent: bool = False) -> Panel:
        lines = [Line(f"headroom {run['headroom']}", *points(run["releases"], "release", key)) for run in runs]
        return Panel(title, "release", y, lines, is_percent=is_percent)

    panels = [
        panel("Withheld", "withheld_share", "of the people", is_percent=True),
        panel("Suppressed or raised", "hidden_share", "of the values", is_percent=True),
        panel("People per group", "average_group", "people"),
        panel("NCP", "ncp", "of the domain", is_percent=True),
    ]
    columns = {
        "headroom": ("headroom", ""),
        "release": ("release", ""),
        "regions": ("cells", ","),
        "withheld": ("withheld_share", "%%"),
        "suppressed or raised": ("hidden_share", "%%"),
        "people per group": ("average_group", ".2f"),
        "NCP": ("ncp", "%"),
        "max_breach": ("max_breach", ".4f"),
        "seconds to plan": ("plan_s", ".2f"),
    }
    rows = [
        {"headroom": run["headroom"], **found}
        for run in runs
        for found in run["releases"]
        if found["release"] == 1 or found["release"] % 20 == 0
    ]
    return Shown({"long.png": Plot(panels)}, table(rows, columns))


def show_permanent(figures: Figures) -> Shown:
    runs = figures["runs"]

    def panel(title: str, key: str, y: str, *, is_percent: bool = False) -> Panel:
        lines = [Line(f"K = {run['participation']}", *points(run["rounds"], "release", key)) for run in runs]
        return Panel(title, "round", y, lines, is_percent=is_percent)

    panels = [
        panel("Permanent values not shown", "permanent_suppressed_share", "of those present", is_percent=True),
        panel("Query error", "query_error", "of the truth", is_percent=True),
        panel("Planning", "plan_s", "core seconds"),
        panel("People per group", "average_group", "people"),
    ]
    columns = {
        "K": ("participation", ""),
        "round": ("release", ""),
        "people": ("present", ","),
        "permanent values": ("permanent", ""),
        "of them not shown": ("permanent_suppressed", ""),
        "withheld": ("withheld_share", "%%"),
        "suppressed or raised": ("hidden_share", "%%"),
        "query error": ("query_error", "%"),
        "core seconds": ("plan_s", ".2f"),
    }
    rows = [
        {"participation": run["participation"], **found}
        for run in runs
        for found in run["rounds"]
        if found["release"] in _ROUNDS
    ]
    breaches, beside = _show_breaches(figures)
    plots = {"permanent.png": Plot(panels), "permanent-breach.png": breaches}
    return Shown(plots, f"{table(rows, columns)}\n\n{beside}")


def _show_breaches(figures: Figures) -> tuple[Plot, str]:
    """Shoal beside l-diversity and m-invariance, and who finds whom out."""
    series = {run["publisher"]: run["rounds"] for run in figures["baselines"]}
    series |= {f"Shoal, K = {run['participation']}": run["rounds"] for run in figures["runs"]}

    def panel(title: str, key: str, y: str, *, is_percent: bool = False) -> Panel:
        drawn = [name for name in series if name not in ("Shoal, K = 1", "Shoal, K = 5")]  # like K = 0
        lines = [Line(name, *points(series[name], "release", key)) for name in drawn]
        return Panel(title, "round", y, lines, is_percent=is_percent)

    panels = [
        panel("Found out, knowing who is where", "breached_members_share", "of the holders shown", is_percent=True),
        panel("Found out, knowing the list", "breached_list_share", "of the holders shown", is_percent=True),
        panel("Query error", "query_error", "of the truth", is_percent=True),
        panel("Publishing", "plan_s", "core seconds"),
    ]
    columns = {
        "publisher": ("publisher", ""),
        "round": ("release", ""),
        "holders shown so far": ("holders_shown", ""),
        "found out, knowing who is where": ("breached_members", ""),
        "of those shown": ("breached_members_share", "%"),
        "found out, knowing the list": ("breached_list", ""),
        "of those shown ": ("breached_list_share", "%"),
        "people or records per group": ("average_group", ".1f"),
        "counterfeits": ("counterfeits", ","),
        "query error": ("query_error", "%"),
        "core seconds": ("plan_s", ".2f"),
    }
    rows = [
        {"publisher": name, **found}
        for name, rounds in series.items()
        for found in rounds
        if found["release"] in _ROUNDS
    ]
    return Plot(panels), table(rows, columns)


def show_baig(figures: Figures) -> Shown:
    panels = []
    kinds = {
        f"{sensitive}, {kind}": f"{sensitive}, others {label}"
        for sensitive in ("job", "occupation")
        for kind, label in (("even", "each value once"), ("plain", "as they are"))
    }
    for title, key, y in (
        ("Left with one value, without looking", "exposed_without", "of the overlapping"),
        ("Left with one value, beside them", "exposed_with", "of the overlapping"),
        ("Counterfeits", "counterfeits_with", "of the values"),
        ("Suppressed", "suppressed_with", "of the values"),
        ("Query error, median, wide ranges", "error_with_wide", "relative"),
    ):
        for x, name in (("by_u", "u"), ("by_alpha", "alpha")):
            lines = [Line(label, *points(figures[kind][x], name, key)) for kind, label in kinds.items()]
            panels.append(Panel(title, name, y, lines, is_percent=True))
    columns = {
        "sensitive, others": ("others", ""),
        "u": ("u", ","),
        "alpha": ("alpha", ""),
        "rows": ("rows", ","),
        "overlapping": ("overlapping", ","),
        "one value left: without": ("exposed_without", "%"),
        "with": ("exposed_with", "%"),
        "fewer than alpha: without": ("few_without", "%"),
        "with ": ("few_with", "%"),
        "counterfeits": ("counterfeits_with", "%"),
        "suppressed": ("suppressed_with", "%"),
        "query error, wide: without": ("error_without_wide", "%"),
        "with  ": ("error_with_wide", "%"),
        "middle: without": ("error_without_middle", "%"),
        "with   ": ("error_with_middle", "%"),
        "narrow: without": ("error_without_narrow", "%"),
        "with    ": ("error_with_narrow", "%"),
        "seconds: without": ("seconds_without", ".2f"),
        "with     ": ("seconds_with", ".2f"),
    }
    rows = [
        {"others": f"{label}, {groups}" if "even" in kind else label, **found}
        for kind, label in kinds.items()
        for by, groups in (("by_u", "groups of 4"), ("by_u_at_six", "groups of 10"), ("by_alpha", "groups of 10"))
        for found in figures[kind][by]
    ]
    speed = {
        "sensitive, others": ("others", ""),
        "rows": ("rows", ","),
        "groups of others": ("groups", ","),
        "seconds without": ("without_s", ".2f"),
        "with": ("with_s", ".2f"),
        "times": ("times", ".2f"),
    }
    times = [{"others": label, **figures[kind]["many"]} for kind, label in kinds.items()]
    return Shown({"baig.png": Plot(panels)}, f"{table(rows, columns)}\n\n{table(times, speed)}")


def show_coarse(figures: Figures) -> Shown:
    columns = {
        "others": ("others", ""),
        "values in a group": ("different", ""),
        "u": ("u", ","),
        "releases": ("releases", ""),
        "bound": ("bound", ""),
        "coarse rows": ("coarse", "%"),
        "coarse cells": ("cells", ".0f"),
        "covered": ("covered", "%"),
        "NCP": ("ncp", "%%"),
        "query error, median": ("error", "%"),
        "withheld": ("withheld", "%%"),
        "suppressed": ("suppressed", "%"),
    }
    once = {name: column for name, column in columns.items() if name != "releases"}
    series = {name: column for name, column in columns.items() if column[0] in figures["series"][0]}
    return Shown({}, f"{table(figures['releases'], once)}\n\n{table(figures['series'], series)}")


SHOW: dict[str, Callable[[Figures], Shown]] = {
    "adult": show_adult,
    "synthea": show_synthea,
    "rounds": show_rounds,
    "zipf": show_zipf,
    "long": show_long,
    "permanent": show_permanent,
    "baig": show_baig,
    "coarse": show_coarse,
    "lasting": show_lasting,
    "settled": show_settled,
    "answers": show_answers,
}
