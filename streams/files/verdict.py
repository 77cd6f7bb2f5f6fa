"""What an audit found, for somebody who must decide: each promise, whether it is kept, and what is not promised.

The auditor's own report follows it and has the terms of the papers.
"""

from collections.abc import Iterator

from shoal.core.audit import Report
from shoal.core.audit.finding import Promise
from shoal.core.policy.policy import Policy

_MOST = 0.9


def write_verdict(report: Report) -> Iterator[str]:
    """The first lines of an audit."""
    private = report.private
    count = "one release" if report.releases == 1 else f"{report.releases:,} releases"
    if private is None:
        against = "checked with nothing but what is published"
    else:
        against = f"checked against the true data of all {private.people:,} people who were ever in it"
    yield f"{report.policy.table}: {count}, {against}."
    yield ""
    yield "Promised:"
    open_ones = False
    for promise, sentence in _promised(report):
        status = report.status(promise)
        open_ones = open_ones or status == "not decided"
        yield f"  {status.upper() if status == 'broken' else status:<12} {sentence}"
    if open_ones:
        yield "  What is not decided takes the private folder and the events: --audit and --events."
    yield ""
    yield "Not promised:"
    for sentence in _unpromised(report):
        yield f"  - {sentence}"


def _promised(report: Report) -> Iterator[tuple[Promise, str]]:
    policy, private = report.policy, report.private
    bound = _chance(1 / policy.l)
    yield Promise.G1, f"At least {policy.k:,} people share every region, also for somebody who follows a row over time."
    reached = ""
    if private is not None:
        reached = f" The most that anybody could reach about anyone is {_chance(float(private.max_breach))}."
    yield (
        Promise.G2,
        f"Whoever keeps every release links nobody to a protected value with a probability above {bound}.{reached}",
    )
    if private is not None and private.attacks.played.is_promised:
        claims = max(private.attacks.played.here, key=lambda one: (one.over, one.sure))
        here = f"here in {claims.over_right:,} of {claims.over:,} cases"
        yield Promise.G2, f"Whoever believes that values stay, and names them, is right in {bound} at most: {here}."
    if policy.sensitive.permanent:
        yield Promise.G3, f"Of a value that is never lost, each holder could be any of at least {policy.l:g} people."
    if private is None or private.guarded:
        count = "" if private is None else f" ({private.guarded:,} did)"
        yield Promise.G4, f"Whoever asked to hide a whole kind of value{count} is protected against all of its values."
    if private is None or private.attacks.beside is not None:
        yield (
            Promise.G5,
            f"Beside what other publishers have released at least {policy.overlap:,} values stay possible.",
        )
    yield Promise.G6, "No release is missing, and each number has one content."
    yield Promise.CONTRACT, "What the releases say of themselves is right."


def _unpromised(report: Report) -> Iterator[str]:
    private, bound = report.private, _chance(1 / report.policy.l)
    if private is None:
        yield "What insiders, or somebody who knows how values change, could infer: --audit and --events count it here."
    else:
        played = private.attacks.played
        insider = played.insider
        if insider is not None:
            yield (
                f"Somebody in the table knows their own value. Such insiders could be surer than {bound} about "
                f"{insider.over:,} of {insider.people:,} people."
            )
        sure = max(played.here, key=lambda claims: (claims.sure, claims.over), default=None)
        if sure is not None and not played.is_promised:
            yield (
                f"Somebody who believes that values stay from release to release names the value of {sure.sure:,} of "
                f"{sure.people:,} people with more than {_chance(_MOST)} confidence, and is right about "
                f"{sure.sure_right:,}."
            )
    yield "Who is in the table, and that a value of theirs began, ended or changed, is not hidden."
    yield from _correlations(report.policy)


def _correlations(policy: Policy) -> Iterator[str]:
    names = ", ".join(attribute.name for attribute in policy.attributes)
    yield f"Values that go together with {names} give themselves away, as a pregnancy does with a sex."


def _chance(share: float) -> str:
    return f"{100 * share:.3g} %"
