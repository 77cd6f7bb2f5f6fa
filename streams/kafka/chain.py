"""The chain of releases, as any consumer can check it: no gap, no fork, and each content is the one in its manifest."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from shoal.streams.errors import GuaranteeError


class Chain:
    """Follows the releases of one table in order. `number` and `digest` are of the last one seen."""

    def __init__(self, table: str) -> None:
        self._table = table
        self.number = 0
        self.digest: str | None = None

    def add(self, records: Sequence[bytes], manifest: bytes) -> Mapping[str, Any]:
        """Checks the next release and returns its manifest. Raises `GuaranteeError` if it does not fit."""
        number = self.number + 1
        found = _read(manifest, number)
        content = sha256(b"".join(record + b"\n" for record in records)).hexdigest()
        for field, expected, problem in (
            ("table", self._table, "belongs to another table"),
            ("release", number, "is missing, or out of order"),
            ("previous", self.digest, "does not follow from the release before it"),
            ("content", content, "has other records than its manifest says"),
            ("groups", len(records), "has another number of groups than its manifest says"),
        ):
            if found.get(field) != expected:
                raise GuaranteeError(f"the chain of releases is broken: release {number} {problem}.")
        self.number, self.digest = number, sha256(manifest).hexdigest()
        return found


def _read(manifest: bytes, number: int) -> Mapping[str, Any]:
    try:
        found = json.loads(manifest)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise GuaranteeError(f"the chain of releases is broken: the manifest of release {number} cannot be read.")
    return found
