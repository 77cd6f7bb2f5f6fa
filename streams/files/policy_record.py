"""A policy with its hierarchy files as one line of text, as the request for a change carries it.

The request has the policy that ends and the one that takes over. So the triggers topic alone has every policy that the
table ever had, and a rebuild needs no file but the last.
"""

import base64
import json
import zlib
from pathlib import Path
from typing import Any, Final

from shoal.core.policy.policy import Policy
from shoal.streams.files.policy_yaml import PolicyFileError, parse_policy, read_policy_files

_MOST_BYTES: Final = 64 * 1024 * 1024  # unpacked


def pack_policy(path: Path) -> str:
    """The files of a policy that can be used. Raises PolicyFileError."""
    source, files = read_policy_files(path)
    content = {"source": source.decode(), "files": {name: text.decode() for name, text in files.items()}}
    return base64.b64encode(zlib.compress(json.dumps(content, ensure_ascii=False).encode(), 9)).decode()


def unpack_policy(packed: str) -> Policy | None:
    """The policy that was packed; None if this is none."""
    try:
        reading = zlib.decompressobj()
        raw = reading.decompress(base64.b64decode(packed, validate=True), _MOST_BYTES)
        content: Any = json.loads(raw) if reading.eof else None
        files = {str(name): str(text).encode() for name, text in content["files"].items()}
        return parse_policy(Path("policy"), str(content["source"]).encode(), files.get)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, zlib.error, PolicyFileError):
        return None
