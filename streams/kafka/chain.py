"""The chain of releases, as any consumer can check it: no gap, no fork, and each content is the one in its manifest.

Releases that hold only what changed are put together on the way (`core/measure/fold.py`).
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from shoal.core.measure.fold import Fold, FoldError, Whole, content_digest
from shoal.core.schema import FORMAT
from shoal.streams.errors import GuaranteeError, InputError


class Chain:
    """Follows the releases of one table in order. `number` and `digest` are of the last one seen, by default none."""

    def __init__(self, table: str, number: int = 0, digest: str | None = None) -> None:
        self._table = table
        self.number, self.digest = number, digest
        self.fold = Fold(table)
        self._has_newer = False  # than format 1

    def add(self, records: Sequence[bytes], manifest: bytes) -> Mapping[str, Any]:
        """Checks the next release and returns its manifest; `records` are those of its cells, then of its groups, then
        of what is gone.

        One in format 1 is checked by its digests. Raises `GuaranteeError` if the release does not fit, and `InputError`
        if it is in a format that this version does not know.
        """
        if is_format_one(manifest):
            return self._add_older(records, manifest)
        number = self.number + 1
        check_format(manifest, f"release {number} is")
        found = _read(manifest, number)
        for field, expected, problem in (
            ("table", self._table, "belongs to another table"),
            ("release", number, "is missing, or out of order"),
            ("previous", self.digest, "does not follow from the release before it"),
        ):
            if found.get(field) != expected:
                raise _broken(number, problem)
        try:
            self.fold.take(found, records)
        except FoldError as error:
            raise GuaranteeError(f"the chain of releases is broken: {error}.") from None
        self.number, self.digest, self._has_newer = number, sha256(manifest).hexdigest(), True
        return found

    def whole(self) -> Whole:
        """All records as they stand after the last release, which is not in format 1. Raises `GuaranteeError` if the
        chain began too late.
        """
        if self.fold.number != self.number:
            raise GuaranteeError(f"the records of release {self.number} were not put together.")
        try:
            return self.fold.whole()
        except FoldError as error:
            raise GuaranteeError(f"{error}.") from None

    def _add_older(self, records: Sequence[bytes], manifest: bytes) -> Mapping[str, Any]:
        number, found = self.number + 1, _read(manifest, self.number + 1)
        told = (found.get("table"), found.get("release"), found.get("previous"), found.get("content"))
        if told != (self._table, number, self.digest, content_digest(records)):
            raise _broken(number, "is not what its manifest, or the release before it, says")
        if self._has_newer:
            raise _broken(number, "is in an older format than the release before it")
        self.number, self.digest = number, sha256(manifest).hexdigest()
        return found


def is_format_one(manifest: bytes) -> bool:
    """Whether a release is one of engine 1.0 (streams/kafka/older_release.py)."""
    try:
        found = json.loads(manifest)
    except ValueError:
        return False
    return isinstance(found, dict) and "format" not in found and "content" in found


def check_format(manifest: bytes, subject: str) -> None:
    """Raises `InputError` for a manifest in an unknown format. One that cannot be read is left to the caller."""
    try:
        found = json.loads(manifest)
    except ValueError:
        return
    written = found.get("format", 1) if isinstance(found, dict) else FORMAT
    if written != FORMAT and not is_format_one(manifest):
        raise InputError(
            f"{subject} in format {written}, and this version of Shoal reads format {FORMAT} and older ones only; "
            "use the version that published it."
        )


def _read(manifest: bytes, number: int) -> Mapping[str, Any]:
    try:
        found = json.loads(manifest)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _broken(number, "has a manifest that cannot be read")
    return found


def _broken(number: int, problem: str) -> GuaranteeError:
    return GuaranteeError(f"the chain of releases is broken: release {number} {problem}.")
