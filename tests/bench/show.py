"""The figures as tables that read the same on a terminal and in docs/benchmarks.md, goals beside what was measured."""

from collections.abc import Sequence
from textwrap import fill

from tests.bench.figures import Figures
from tests.bench.worker import STEPS

Line = tuple[str, ...]
BYTES = {"lasting": 250, "redrawn": 400}
BYTES_S = {"lasting": 0.5, "redrawn": 1.5}


def table(head: Line, lines: Sequence[Line]) -> str:
    """A Markdown table, its columns aligned so that it can be read as it is."""
    widths = [max(len(line[column]) for line in (head, *lines)) for column in range(len(head))]
    rows = [head, tuple("-" * width for width in widths), *lines]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    )


def show_service(found: Figures) -> str:
    if "skipped" in found:
        return f"Skipped: {found['skipped']}."
    ingest = found["ingest"]
    kinds = {
        "raw": "aiokafka `getmany` + msgpack",
        "faust": "a plain Faust agent + msgpack",
        "shoal": "Shoal, topic to committed in Redis",
    }
    lines = [
        (
            text,
            f"{ingest[f'{kind}_per_s']:,.0f}",
            f"{ingest[f'{kind}_core_us']:.1f}",
            "" if kind == "shoal" else f"{ingest[f'of_{kind}']:.2f}",
            "" if kind == "shoal" else f"{ingest[f'of_{kind}_by_core']:.2f}",
            {"raw": "≥ 0.5", "faust": "≥ 5"}.get(kind, ""),
        )
        for kind, text in kinds.items()
    ]
    head = ("reader", "events/s", "core µs/event", "Shoal is … times", "by core seconds", "goal")
    parts = [f"{ingest['events']:,} msgpack events of 4 attributes in 8 partitions, median of 3.", table(head, lines)]
    releases = [
        (
            f"{one['people']:,}, {one['values']}",
            f"{one['first_s']:.1f} ({one['first_core_s']:.1f})",
            f"{one['later_s']:.2f} ({one['later_core_s']:.2f})",
            f"{one['settled']['worker_mib']:,.0f} ({one['settled']['worker_peak_mib']:,.0f})",
            f"{one['settled']['redis_mib']:,.0f} ({one['settled']['redis_rss_mib']:,.0f})",
            f"{one['settled']['bytes_per_person']:.0f} (goal ≤ {BYTES[one['values']]})",
        )
        for one in found["releases"]
    ]
    head = (
        "people",
        "first release s (core)",
        "1 % changed s (core)",
        "worker MiB (peak)",
        "Redis MiB (resident)",
        "Redis bytes/person",
    )
    parts += ["Seconds from the trigger to the release as a `read_committed` consumer sees it.", table(head, releases)]
    steps = [
        (f"{one['people']:,}, {one['values']}, {name}", *(f"{one[key][step]:.2f}" for step in STEPS[1:]))
        for one in found["releases"]
        for key, name in (("first_steps", "first"), ("later_steps", "1 % changed"))
    ]
    parts += [
        "The same time by step: seconds on the clock up to each of these lines of the worker's log.",
        table(("people", *STEPS[1:]), steps),
    ]
    return "\n\n".join(parts)


def show_page(found: Figures) -> str:
    if "skipped" in found:
        return f"Skipped: {found['skipped']}."
    lines = [
        (name, f"{found[f'{key}_per_s']:,.0f}", f"{found[f'{key}_core_us']:.1f}", ratio)
        for name, key, ratio in (
            ("nobody", "alone", ""),
            (f"{found['visitors']} visitors", "visited", f"{found['of_alone']:.2f}"),
        )
    ]
    answered = (
        f"{found['answers']} requests were answered meanwhile, in {found['answer_ms']:.0f} ms (median), the slowest in "
        f"{found['slowest_ms']:.0f} ms."
    )
    head = ("at the page", "events/s", "core µs/event", "of ingest with nobody there")
    return f"{found['events']:,} events, median of 3.\n\n{table(head, lines)}\n\n{answered}"


def show_engine(found: Figures) -> str:
    adult, uniform = found["adult"], found["uniform"]
    lines = [
        (
            name,
            f"{one['rows']:,}",
            f"{one['tree_s']:.3f}",
            f"{one['numpy_s']:.3f}",
            f"{one['of_numpy']:.2f} (goal ≤ 2)",
            f"{one['recursive_s']:.3f}",
        )
        for name, one in (("Adult", adult), ("three uniform attributes", uniform))
    ]
    head = ("tree alone, k = 10", "rows", "tree s", "numpy, level by level s", "ratio", "numpy, class by class s")
    parts = [table(head, lines)]
    years = adult["by_years"]
    ncp_head = ("NCP on Adult, k = 10, headroom 0", "tree", "bare numpy", "goal")
    losses = [
        (
            "education in years, rows' own boxes, labels in steps",
            f"{years['ncp_steps']:.2%}",
            f"{years['numpy_ncp_steps']:.2%}",
            "≤ 3.8 %",
        ),
        ("as in examples/adult, rows' own boxes", f"{adult['ncp']:.2%}", f"{adult['numpy_ncp']:.2%}", ""),
        ("the same as published: the tree's regions", f"{adult['ncp_published']:.2%}", "", ""),
    ]
    parts.append(table(ncp_head, losses))
    for values in ("lasting", "redrawn"):
        parts += _whole_releases(values, found[values]["releases"], found[values]["steady"])
        parts += [_delta(values, deltas) for deltas in found[values].get("deltas", ())]
    return "\n\n".join(parts)


def _delta(values: str, deltas: Figures) -> str:
    return (
        f"With `full_every`, {values}, {deltas['people']:,} people: a release after 1 % changed has "
        f"{deltas['delta_mib']:.1f} MiB, {deltas['delta_of_full']:.2f} of the {deltas['full_mib']:.1f} MiB in full "
        f"(goal ≤ 0.3); bytes {deltas['later_bytes_s']:.2f} s, after a restart {deltas['restarted_bytes_s']:.2f} s."
    )


def _whole_releases(values: str, releases: Figures, steady: Figures) -> list[str]:
    rounds = [
        (
            name,
            f"{releases[f'{key}_plan_s']:.2f}",
            f"{releases[f'{key}_bytes_s']:.2f}",
            f"{releases[f'{key}_total_s']:.2f}",
            f"{releases[f'{key}_wall_s']:.2f}",
            goal,
        )
        for name, key, goal in (
            ("first", "first", "≤ 15 s, 2 GiB"),
            ("after 1 % changed", "later", f"planning ≥ 20 times faster, bytes ≤ {BYTES_S[values]} s"),
        )
    ]
    head = f"{values}, release of {releases['people']:,} people"
    whole = (
        f"Planning after 1 % changed is {releases['planning_faster']:.0f} times faster than the first; peak memory "
        f"{releases['peak_mib']:,.0f} MiB; the release is {releases['release_mib']:.0f} MiB."
    )
    many = (
        f"{steady['releases']} releases at {steady['people']:,} people, 1 % changed each: {steady['early_s']:.3f} s at "
        f"first, {steady['late_s']:.3f} s at last, {steady['late_of_early']:.2f} times (medians of a fifth).\n"
        f"Of the last one's {steady['rows']:,} rows {steady['suppressed']:,} are suppressed, of which "
        f"{steady['waiting']:,} wait; {steady['vacant']:,} values are vacant, {steady['counterfeits']:,} counterfeit, "
        f"{steady['withheld']:,} people withheld."
    )
    return [table((head, "planning s", "bytes s", "both s", "on the clock s", "goal"), rounds), whole, many]


def show_peers(found: Figures) -> str:
    return "\n\n".join(_beside_peers(name, found[key]) for key, name in (("adult", "Adult"), ("uniform", "uniform")))


def _beside_peers(name: str, found: Figures) -> str:
    tree = found["tree"]
    lines: list[Line] = [
        ("Shoal's tree", f"{tree['tree_s']:.3f}", "1", f"{tree['ncp']:.2%}", ""),
        (
            "bare numpy, level by level",
            f"{tree['numpy_s']:.3f}",
            f"{tree['numpy_s'] / tree['tree_s']:.2f}",
            f"{tree['numpy_ncp']:.2%}",
            "",
        ),
    ]
    for peer, one in found.items():
        if peer == "tree":
            continue
        if "skipped" in one:
            lines.append((peer, "", "", "", one["skipped"]))
            continue
        ncp = f"{one['ncp']:.2%}" if "ncp" in one else ""
        said = f"{one['suppressed']:,} rows suppressed, {one['count']} classes" if "suppressed" in one else ""
        lines.append((f"{peer} {one['version']}", f"{one['seconds']:.2f}", f"{one['of_tree']:.1f}", ncp, said))
    head = (f"{name}, {tree['rows']:,} rows, k = {tree['k']}", "core s", "times the tree's (goal > 1)", "NCP", "")
    return table(head, lines)


def show_permanent(found: Figures) -> str:
    head = f"{found['people']:,} people, {found['holders']:,} holders"
    lines: list[Line] = []
    for values in ("lasting", "redrawn"):
        all_of_it = found[values]
        plain = f"{all_of_it['plain_first_s']:.2f}", "1", f"{all_of_it['plain_s']:.3f}", "1"
        lines.append((f"{values}, none permanent", *plain))
        for participation in ("0", "5", "all"):
            one = all_of_it[participation]
            ratios = f"{one['first_ratio']:.2f}", f"{one['later_ratio']:.2f}"
            name = f"{values}, participation {participation}"
            lines.append((name, f"{one['first_s']:.2f}", ratios[0], f"{one['later_s']:.3f}", ratios[1]))
    return table((head, "first release, core s", "times", "1 % changed, core s", "times (goal: 2)"), lines)


def show_snapshots(found: Figures) -> str:
    if "skipped" in found:
        return f"Skipped: {found['skipped']}."
    lines = [
        (
            f"{one['people']:,}, {one['values']}",
            f"{one['taken']['wall_s']:.1f} ({one['taken']['core_s']:.1f})",
            f"{one['restored']['wall_s']:.1f} ({one['restored']['core_s']:.1f})",
            f"{one['bytes_per_person']:.0f}",
        )
        for one in found["tables"]
    ]
    return table(("people", "`shoal snapshot` s (core)", "`shoal restore` s (core)", "bytes/person in the file"), lines)


def show_shards(found: Figures) -> str:
    head = (
        "people",
        "shards",
        "jobs",
        "first release s",
        "1 % changed s",
        "memory MiB",
        "delta / full",
        "`*`",
        "waiting",
        "query error",
    )
    lines = [
        (
            f"{one['people']:,}",
            str(one["shards"]),
            str(one["jobs"]),
            f"{one['release_s'][0]:.1f}",
            f"{min(one['release_s'][1:]):.1f}",
            f"{one['memory_mib']:,.0f}",
            f"{one['bytes'][-1] / one['bytes'][0]:.2f}",
            f"{one['suppressed']:.2%}",
            f"{one['waiting']:.2%}",
            f"{one['query_error']:.2%}" if "query_error" in one else "",
        )
        for one in found["tables"]
    ]
    return table(head, lines)


def show_workers(found: Figures) -> str:
    if "skipped" in found:
        return f"Skipped: {found['skipped']}."
    lines = [
        (
            f"{one['people']:,}",
            str(one["shards"]),
            str(one["workers"]),
            f"{one['first_s']:.1f}",
            f"{one['later_s']:.2f} ({one['later_core_s']:.2f})",
            ", ".join(f"{here:,.0f} ({peak:,.0f})" for here, peak in zip(*_memory_of(one), strict=True)),
        )
        for one in found["tables"]
    ]
    ratios, ingest = found["ratios"], found["ingest"]
    goals = [
        ("trigger to manifest, 1 % changed", f"{ratios['later_s']:.2f}", "≤ 0.65"),
        ("trigger to manifest, first release", f"{ratios['first_s']:.2f}", ""),
        ("memory of a worker", f"{ratios['worker_mib']:.2f} (peak {ratios['worker_peak_mib']:.2f})", "≤ 0.6"),
        ("events/s of ingest, one worker", f"{ingest['of_one']:.2f}", "≥ 0.95"),
        ("the same by core seconds", f"{ingest['of_one_by_core']:.2f}", "≥ 0.95"),
    ]
    whole, steps = found["tables"][-1], [f"`{name}` {took:.2f}" for name, took in _seconds(found["tables"][-1])]
    head = ("people", "shards", "workers", "first release s", "1 % changed s (core)", "MiB of each worker (peak)")
    name = f"{whole['shards']} shards on {whole['workers']} workers, times one shard on one"
    return "\n\n".join(
        (
            "Seconds from the trigger to the manifest as a `read_committed` consumer sees it.",
            table(head, lines),
            table((name, "", "goal"), goals),
            fill(
                "The release after 1 % changed by step, from the coordinator's log and within a shard: "
                f"{', '.join(steps)}.",
                120,
            ),
        )
    )


def _memory_of(one: Figures) -> tuple[Sequence[float], Sequence[float]]:
    return one["worker_mib"], one["worker_peak_mib"]


def _seconds(one: Figures) -> list[tuple[str, float]]:
    own = [(f"shard.{name}", took) for name, took in one["shard_steps"].items()]
    return [*((f"release.{name}", took) for name, took in one["later_steps"].items()), *own]


SHOW = {
    "service": show_service,
    "workers": show_workers,
    "page": show_page,
    "snapshots": show_snapshots,
    "shards": show_shards,
    "engine": show_engine,
    "peers": show_peers,
    "permanent": show_permanent,
}
