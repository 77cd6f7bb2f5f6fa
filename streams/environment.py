"""Where settings come from besides the environment: a file `.env`, and files with one secret each."""

import os
from pathlib import Path


def read_dotenv(path: Path, problems: list[str]) -> dict[str, str]:
    """Lines `NAME=value`, with optional `export` and quotes; blank lines and lines that begin with # do not count."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError):
        problems.append(f"{path} cannot be read as text")
        return {}
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name.replace("_", "a").isalnum():
            problems.append(f"{path}:{number}: a line must be NAME=value")
            continue
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        found[name] = value
    return found


def read_secret(name: str, path: Path, problems: list[str]) -> str | None:
    """The content of a file, without the line's end that editors add; None if that is a problem."""
    try:
        secret = path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        why = os.strerror(error.errno or 0) if isinstance(error, OSError) else "it is not text"
        problems.append(f"{name}: {path} cannot be read: {why}")
        return None
    if not secret:
        problems.append(f"{name}: {path} is empty")
        return None
    return secret
