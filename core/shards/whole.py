"""The whole of a sharded release: its parts together, under one manifest."""

from collections.abc import Sequence
from dataclasses import fields

from shoal.core.measure.loss import LossSums
from shoal.core.policy.policy import Policy
from shoal.core.release import Tally, content_of, write_manifest
from shoal.core.shards.part import Summary
from shoal.core.state import ENGINE


def join(
    policy: Policy,
    policies: tuple[str, str | None],
    number: int,
    previous: str | None,
    at: str | None,
    summaries: Sequence[Summary],
    *,
    has_cuts: bool,
) -> bytes:
    """The manifest of a release from its parts, in the order of their shards.

    `policies` and `previous` are as in `write_manifest`. Until there are cuts, it names no parts.
    """
    counts = {field.name: sum(getattr(one.tally, field.name) for one in summaries) for field in fields(Tally)}
    losses = LossSums()
    for one in summaries:
        losses = losses.plus(one.losses)
    return write_manifest(
        policy,
        policies,
        number,
        previous,
        content_of(policy.full_every, [one.part for one in summaries] if has_cuts else []),
        ENGINE,
        at,
        Tally(**counts),
        max((one.max_breach for one in summaries), default=0.0),
        losses.loss(),
    )
