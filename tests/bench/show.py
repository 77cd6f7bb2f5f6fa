"""The figures as tables that read the same on a terminal and in docs/benchmarks.md, goals beside what was measured."""

from collections.abc import Sequence

from tests.bench.figures import Figures

Line = tuple[str, ...]


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
            f"{one['people']:,}",
            f"{one['first_s']:.1f} ({one['first_core_s']:.1f})",
            f"{one['later_s']:.2f} ({one['later_core_s']:.2f})",
            f"{one['settled']['worker_mib']:,.0f} ({one['settled']['worker_peak_mib']:,.0f})",
            f"{one['settled']['redis_mib']:,.0f} ({one['settled']['redis_rss_mib']:,.0f})",
            f"{one['settled']['bytes_per_person']:.0f} (goal ≤ 400)",
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
    return "\n\n".join(parts)


def show_engine(found: Figures) -> str:
    adult, uniform, releases, steady = (found[name] for name in ("adult", "uniform", "releases", "steady"))
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
            ("after 1 % changed", "later", "planning ≥ 20 times faster, bytes ≤ 1.5 s"),
        )
    ]
    head = (f"release of {releases['people']:,} people", "planning s", "bytes s", "both s", "on the clock s", "goal")
    parts.append(table(head, rounds))
    parts.append(
        f"Planning after 1 % changed is {releases['planning_faster']:.0f} times faster than the first; peak memory "
        f"{releases['peak_mib']:,.0f} MiB; the release is {releases['release_mib']:.0f} MiB."
    )
    parts.append(
        f"{steady['releases']} releases at {steady['people']:,} people, 1 % changed each: {steady['early_s']:.3f} s at "
        f"first, {steady['late_s']:.3f} s at last, {steady['late_of_early']:.2f} times (medians of a fifth)."
    )
    return "\n\n".join(parts)


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
    lines: list[Line] = [("none permanent", f"{found['plain_first_s']:.2f}", "1", f"{found['plain_s']:.3f}", "1")]
    for participation in ("0", "5", "all"):
        one = found[participation]
        lines.append(
            (
                f"participation {participation}",
                f"{one['first_s']:.2f}",
                f"{one['first_ratio']:.2f}",
                f"{one['later_s']:.3f}",
                f"{one['later_ratio']:.2f}",
            )
        )
    head = f"{found['people']:,} people, {found['holders']:,} holders"
    return table((head, "first release, core s", "times", "1 % changed, core s", "times (goal: 2)"), lines)


SHOW = {"service": show_service, "engine": show_engine, "peers": show_peers, "permanent": show_permanent}
