"""How a release is concluded: from what its parts report to its manifest, and what lasts of the table as a whole.

Everybody who makes a release concludes it here: `plan` for a table with one shard, the service from the reports of any
number of shards, `shoal replay` and `shoal rebuild` from parts in files.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import NamedTuple

from shoal.core.change import Translation, has_new_labels, interim
from shoal.core.cuts import Cuts
from shoal.core.measure.loss import LossSums
from shoal.core.parts import Summary
from shoal.core.policy.policy import Policy
from shoal.core.release import Content, Tally, content_of, sha256, write_manifest
from shoal.core.state import ENGINE, Meta


class Concluded(NamedTuple):
    """A manifest, and the table as it is after the release. `cuts` are in the leaves of `policy`."""

    manifest: bytes
    meta: Meta
    policy: Policy
    """The one that holds from then on."""
    cuts: Cuts | None


def conclude(
    policy: Policy,
    changed: Policy | None,
    before: Meta,
    at: str | None,
    summaries: Sequence[Summary],
    cuts: Cuts | None = None,
) -> Concluded:
    """The release after `before`, from its parts in the order of their shards; raises CoreError if `changed` may not
    follow.

    `changed` is the policy that takes over with it, if one does. `cuts` are those by which its parts were planned. A
    table with several shards names no parts until it has cuts.
    """
    during = policy if changed is None else interim(policy, changed)
    policies = (before.policy, None) if changed is None else (changed.digest, before.policy)
    losses = LossSums()
    for one in summaries:
        losses = losses.plus(one.losses)
    breach = max(one.max_breach for one in summaries)
    manifest = write_manifest(
        during,
        policies,
        before.release + 1,
        before.manifest,
        _content(during, summaries, is_cut=policy.shards == 1 or cuts is not None),
        ENGINE,
        at,
        Tally(**{field.name: sum(getattr(one.tally, field.name) for one in summaries) for field in fields(Tally)}),
        breach,
        losses.loss(),
    )
    meta = Meta(before.release + 1, sha256(manifest), 0, breach, ENGINE, policies[0])
    if changed is not None and cuts is not None:
        cuts = change_cuts(cuts, policy, changed)
    return Concluded(manifest, meta, changed or policy, cuts)


def change_cuts(cuts: Cuts, old: Policy, new: Policy) -> Cuts:
    """The regions of the shards once `new` has taken over; `cuts` has them in the leaves of `old`.

    They keep their places between labels that existed before. New labels belong to the shard of the old label before
    them.
    """
    if not has_new_labels(old, new):
        return cuts
    node = Translation(old, new).node
    return Cuts(new, {number: node(record) for number, record in cuts.nodes.items()})


def _content(policy: Policy, summaries: Sequence[Summary], *, is_cut: bool) -> Content:
    if summaries[0].content is not None:
        return Content(summaries[0].content)
    parts = [one.part for one in summaries if one.part is not None] if is_cut else []
    return content_of(policy.full_every, parts)
