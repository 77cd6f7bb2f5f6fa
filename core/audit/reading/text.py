"""The report of an audit as text, for people."""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from shoal.core.audit.attack.attacks import Pinned
from shoal.core.audit.attack.played import write_played
from shoal.core.audit.finding import LASTING_TITLES, TITLES, Promise
from shoal.core.audit.permanent.learned import Learned
from shoal.core.audit.permanent.scarcity import summarise, write_scarcity
from shoal.core.audit.reading.truth import exact
from shoal.core.audit.report.lasting import summarise_cliques, write_lasting
from shoal.core.audit.report.report import Attacks, Report
from shoal.core.policy.policy import Policy

_WIDEST_FRACTION = 15
_MODELS = {
    "redrawn": "Its values are redrawn: what somebody has at one time says nothing about another time.",
    "lasting": "Its values last: each is shown in the same group for ever, until an event changes it.",
}
_BANDS = (("1", 1, 1), ("2", 2, 2), ("3 to 5", 3, 5), ("6 to 10", 6, 10), ("more", 11, 10**9))


def write_report(report: Report) -> Iterator[str]:
    """The lines of a report."""
    private = report.private
    against = "what is published" if private is None else f"the events, {private.people:,} people"
    yield f"{report.policy.table}: {report.releases} releases audited against {against}."
    yield _MODELS[report.policy.values]
    yield ""
    titles = LASTING_TITLES if report.is_lasting else TITLES
    for promise in Promise:
        broken = report.findings.about(promise)
        what = f"in {len(broken)} ways:" if len(broken) > 1 else "in one way:" if broken else summary(report, promise)
        yield f"{promise:<9} {titles[promise]:<32} {report.status(promise):<12} {what}"
        for found in broken:
            yield f"{'':10}- {found}"
    for note in report.notes:
        yield f"note: {note}"
    if private is not None:
        yield ""
        if private.lasting is None:
            yield from _learned(private.worst)
        else:
            yield from write_lasting(report.policy, private.lasting)
        if private.permanent is not None:
            yield ""
            yield from write_scarcity(report.policy, private.permanent)
        yield ""
        yield from _attacks(report.policy, private.attacks)
        yield ""
        yield from write_played(private.attacks.played)


def summary(report: Report, promise: Promise) -> str:
    """Why a promise counts as kept, or why that is not decided, in one line."""
    policy, private = report.policy, report.private
    bound = _share(1 / exact(policy.l))
    match promise:
        case Promise.G1:
            known = "is a node of one tree" if private is None else "holds its people and only ever got finer"
            return f"every region is shared by at least {policy.k} people and {known}"
        case Promise.G2:
            if report.is_lasting:
                return _signatures(report, bound)
            if private is None:
                return f"whoever is in which group, no breach is over {_share(report.public.most)}; 1/l is {bound}"
            return f"the largest breach is {_share(private.max_breach)} of {bound}"
        case Promise.G3:
            if report.is_lasting:
                return summarise_cliques(policy, report.public.permanent, None if private is None else private.lasting)
            return summarise(policy, report.public.permanent, None if private is None else private.permanent)
        case Promise.G4:
            if private is None:
                return "who guards what is a secret"
            if private.nearest_guard is None:
                return "nobody was published with a guard"
            nearest = _percent(private.nearest_guard)
            return f"{private.guarded:,} people with a guard; the nearest came to {nearest} of their bound"
        case Promise.G5:
            if private is None:
                return "who overlaps what is a secret"
            if private.attacks.beside is None:
                return "no other publication is known"
            overlapping = private.attacks.beside[1].overlapping
            how = "are shown in blocks beside them" if report.is_lasting else "are balanced beside them"
            return f"{overlapping:,} people overlap other publications and {how} or suppressed"
        case Promise.G6:
            return f"{report.releases} releases without a gap, each with one content, in one chain"
        case Promise.CONTRACT:
            return f"counts, losses{' and form' if private is None else ', form, people and values'} are right"


def _signatures(report: Report, bound: str) -> str:
    """G2 of a lasting table in one line: what signatures promise, and what was found of it."""
    policy, private = report.policy, report.private
    if private is None:
        most = _share(report.public.most)
        return f"every group is even, so that the breach can be {most} at most; who was where before is a secret"
    insiders = f" to {policy.insiders} insiders" * bool(policy.insiders)
    return (
        f"S1 to S4 hold: everyone is shown among at least {policy.signature} values, always in the same group; "
        f"the largest breach{insiders} is {_share(private.max_breach)} of {bound}"
    )


def _learned(worst: tuple[Learned, ...]) -> Iterator[str]:
    if not worst:
        yield "Nobody was published, so there is nothing to learn."
        return
    yield "What an adversary learns at worst who knows everything published and who was in which group, by pseudonym:"
    head = f"  {'':14}{'breach':>9}{'bound':>9}  {'exactly':<16} {'worlds':<8}{'groups':>6}"
    yield f"{head}{'rows alike':>12}{'candidates':>12}"
    for one in worst:
        exactly = str(one.breach) if len(str(one.breach)) <= _WIDEST_FRACTION else "…"
        remark = "  guarded" * one.is_guarded + "  all of it earlier" * one.is_earlier
        yield (
            f"  {one.pseudonym:14}{float(one.breach):9.4f}{float(one.bound):9.4f}  {exactly:<16} {_worlds(one):<8}"
            f"{one.formations:>6}{_or_dash(one.hidden_among):>12}{_or_dash(one.candidates):>12}{remark}"
        )
    yield "  worlds: the share of possible worlds, gone through one by one, agrees with the breach or is below it;"
    yield "  groups: formations; rows alike: with the same region now; candidates: values left if values persisted."


def _worlds(one: Learned) -> str:
    if one.enumerated is None:
        return "–"
    return "agree" if one.enumerated == one.breach else "below" if one.enumerated < one.breach else "ABOVE"


def _attacks(policy: Policy, attacks: Attacks) -> Iterator[str]:
    local, naive, here = attacks.local, attacks.intersection, attacks.inference
    yield "What would have worked on naive releases of the same data:"
    yield f"  a  groups {policy.l:g}-diverse in each release and redrawn for the next (Wong):"
    yield (
        f"     {local.over:,} of {local.pairs:,} (person, value) pairs{_of(local.over, local.pairs)} are over "
        f"{_share(1 / exact(policy.l))}, {local.true:,} of them true, of {local.people:,} people; "
        f"the largest is {_share(local.largest)}."
    )
    yield f"  b  each release {policy.k}-anonymous by itself, with Mondrian (Pei):"
    yield (
        f"     {naive.unsafe:,} of {naive.rows:,} rows{_of(naive.unsafe, naive.rows)} are told apart from all but "
        f"fewer than {policy.k}; in these releases {here.unsafe:,} of {here.rows:,}."
    )
    if attacks.naive_pinned is not None and attacks.pinned is not None:
        yield from _persistence(attacks.naive_pinned, attacks.pinned)
    if attacks.beside is not None:
        yield "  e  what others published, intersected with what somebody's group shows (Baig):"
        for title, found in zip(("those of a", "these releases"), attacks.beside, strict=True):
            yield (
                f"     {title}: of {found.overlapping:,} people who overlap, {found.exposed:,}"
                f"{_of(found.exposed, found.overlapping)} are left with one value, {found.few:,} with fewer than "
                f"{policy.overlap}."
            )


def _persistence(naive: Pinned, here: Pinned) -> Iterator[str]:
    yield "  d  if, against the model, values persisted, so that what somebody's groups show could be intersected:"
    for title, pinned in (("those of a", naive), ("these releases", here)):
        sizes = ", ".join(f"{count:,} with {size}" for size, count in _bands(pinned.sizes))
        yield (
            f"     {title}: {pinned.pinned:,} of {pinned.people:,} people{_of(pinned.pinned, pinned.people)} pinned "
            f"down, {pinned.pinned_protected:,} of them to a protected value; candidates: {sizes or 'none'}."
        )


def _bands(sizes: Mapping[int, int]) -> list[tuple[str, int]]:
    """Counts by number of candidates, in bands that fit a line."""
    counted = [(name, sum(sizes[n] for n in sizes if low <= n <= high)) for name, low, high in _BANDS]
    return [(name, count) for name, count in counted if count]


def _share(fraction: Fraction) -> str:
    return f"{float(fraction):.4f}".rstrip("0").rstrip(".")


def _percent(fraction: Fraction) -> str:
    return f"{float(100 * fraction):.1f} %"


def _of(part: int, whole: int) -> str:
    return f" ({_percent(Fraction(part, whole))})" if whole else ""


def _or_dash(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"
