"""Every schema under its version: what docs/schemas has, the worker serves, and `shoal policy schema` prints.

A version is kept while only optional things are added to an input, or fields to an output. Anything else is a new
version with a file of its own, and the file of the old one stays in docs/schemas: topics keep their records for ever.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from shoal.core.published.manifest import FORMAT
from shoal.core.schema import event_schema, policy_schema, release_schema
from shoal.streams.files.asyncapi import ASYNCAPI, describe_topics
from shoal.streams.files.fresh_file import write_fresh
from shoal.streams.files.mapping.document import mapping_schema


class Document(NamedTuple):
    """One schema: the name of its file, and what makes it."""

    file: str
    make: Callable[[], dict[str, Any]]


DOCUMENTS: Final[Mapping[str, Document]] = {
    "policy": Document("policy-1.json", policy_schema),
    "event": Document("event-1.json", event_schema),
    "release": Document(f"release-{FORMAT}.json", release_schema),
    "mapping": Document("mapping-1.json", mapping_schema),
    "asyncapi": Document(f"asyncapi-{ASYNCAPI}.json", describe_topics),
}
"""By the name that `shoal policy schema` takes."""


@cache
def write_document(what: str) -> str:
    """A schema as text."""
    return json.dumps(DOCUMENTS[what].make(), indent=2, ensure_ascii=False) + "\n"


def write_documents(folder: Path) -> list[Path]:
    """Writes every schema to a folder, each under its version; those of older versions are left as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for what, document in DOCUMENTS.items():
        paths.append(folder / document.file)
        write_fresh(paths[-1], write_document(what).encode())
    return paths
