"""The chain of releases, as any consumer can check it: no gap, no fork, and each content is the one in its manifest.

Releases that hold only what changed are put together on the way (`core/measure/fold.py`).
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from shoal.core.measure.fold import Fold, FoldError, Whole
from shoal.core.schema import FORMAT
from shoal.streams.errors import GuaranteeError, InputError


class Chain:
    """Follows the releases of one table in order. `number` and `digest` are of the last one seen, by default none."""

    def __init__(self, table: str, number: int = 0, digest: str | None = None) -> None:
        self._table = table
        self.number, self.digest = number, digest
        self.fold = Fold(table)

    def add(self, records: Sequence[bytes], manifest: bytes) -> Mapping[str, Any]:
        """Checks the next release and returns its manifest; `records` are those of its cells, then of its groups, then
        of what is gone.

        Raises `GuaranteeError` if the release does not fit, and `InputError` if it is in another format.
        """
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
        self.number, self.digest = number, sha256(manifest).hexdigest()
        return found

    def whole(self) -> Whole:
        """All records as they stand after the last release. Raises `GuaranteeError` if the chain began too late."""
        if self.fold.number != self.number:
            raise GuaranteeError(f"the records of release {self.number} were not put together.")
        try:
            return self.fold.whole()
        except FoldError as error:
            raise GuaranteeError(f"{error}.") from None


def check_format(manifest: bytes, subject: str) -> None:
    """Raises `InputError` for a manifest in another format. One that cannot be read is left to the caller."""
    try:
        found = json.loads(manifest)
    except ValueError:
        return
    written = found.get("format") if isinstance(found, dict) else FORMAT
    if type(written) is not int or written != FORMAT:
        name = written if type(written) is int else "unknown"
        raise InputError(
            f"{subject} in format {name}, and this version of Shoal reads format {FORMAT} only; use the version that "
            "published it."
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
