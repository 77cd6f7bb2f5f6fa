"""Keys that belong to one of the two models of values, lasting or redrawn, and what each model allows them to be."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from shoal.core.errors import Mistake
from shoal.core.policy.section import Path

SIGNATURES_IN_BATCH = 4


class Leaves(NamedTuple):
    """How many sensitive values there are, and how many of them are permanent and open."""

    total: int
    permanent: int
    open: int


def signature_size(privacy: Mapping[str, Any]) -> int:
    """How many values each value is shown among, by default the fewest that are allowed."""
    named = privacy.get("signature")
    return _least_signature(privacy) if named is None else int(named)


def batch_size(privacy: Mapping[str, Any]) -> int:
    """How many newcomers wait until they are shown, by default four signatures of them."""
    named = privacy.get("batch")
    return SIGNATURES_IN_BATCH * signature_size(privacy) if named is None else int(named)


def _least_signature(privacy: Mapping[str, Any]) -> int:
    """2l + insiders. Of insiders that are a mistake of their own, none are counted."""
    return math.ceil(2 * privacy["l"] + (privacy.get("insiders") or 0))


def wrong_for_model(read: Mapping[str, Any], leaves: Leaves | None) -> Iterator[Mistake]:
    """The mistakes of keys that are right by themselves and wrong in this table's model. `read` is the whole file.

    Without `leaves`, as without any key that has a mistake of its own, what depends on it is not checked.
    """
    privacy, release, scale = read.get("privacy", {}), read.get("release", {}), read.get("scale", {})
    model = privacy.get("values")
    if model == "redrawn":
        for key in ("insiders", "signature", "batch"):
            if privacy.get(key) is not None:
                yield _misplaced(("privacy", key), "lasting")
        if leaves is not None and "l" in privacy:
            yield from _unreachable(privacy["l"], leaves)
    elif model == "lasting":
        if privacy.get("strategy") is not None:
            yield _misplaced(("privacy", "strategy"), "redrawn")
        if release.get("case_ids"):
            yield _misplaced(("release", "case_ids"), "redrawn")
        if "l" in privacy and "signature" in privacy:
            yield from _wrong_signature(privacy, leaves)
    if scale.get("shards", 1) > 1 and model == "redrawn":
        yield Mistake(("scale", "shards"), "must be 1 in a redrawn table")


def _misplaced(path: Path, model: str) -> Mistake:
    return Mistake(path, f"is only for tables with values: {model}", at_key=True)


def _unreachable(l: float, leaves: Leaves) -> Iterator[Mistake]:
    # The values that n(G) people show weigh n(G) in all, so that with v values one of them weighs n(G)/v or more:
    # a bound below 1/v leaves nothing to publish but "*". Open values weigh nothing and change that.
    # Permanent values sit on people whom n(G) leaves out.
    count = leaves.total - leaves.permanent
    kind = "values that are not permanent" if leaves.permanent else "values"
    if l > count and not leaves.open:
        yield Mistake(("privacy", "l"), f"1/l cannot be reached with {count} {kind}; l must be at most {count}")


def _wrong_signature(privacy: Mapping[str, Any], leaves: Leaves | None) -> Iterator[Mistake]:
    least, insiders = _least_signature(privacy), privacy.get("insiders") or 0
    if privacy["signature"] is None:
        if leaves is not None and least > leaves.total and not leaves.open:
            need = f"needs signatures of {least} values, and there are {leaves.total}"
            if insiders:
                yield Mistake(("privacy", "insiders"), f"{need}; 2l + insiders must be at most {leaves.total}")
            else:
                yield Mistake(("privacy", "l"), f"{need}; l must be at most {leaves.total / 2:g}")
    elif privacy["signature"] < least:
        yield Mistake(("privacy", "signature"), f"must be at least 2l{' + insiders' if insiders else ''}, {least}")
    elif leaves is not None and privacy["signature"] > leaves.total:
        yield Mistake(("privacy", "signature"), f"must be at most {leaves.total}, the number of sensitive values")
    if "batch" in privacy and batch_size(privacy) < signature_size(privacy):
        yield Mistake(("privacy", "batch"), f"must be at least the signature, {signature_size(privacy)}")
