"""Chromium, as Debian packages it; Playwright drives it and brings no browser of its own."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from deploy.local import Unavailable
from tests.support.services.services import Found


@contextmanager
def find_browser() -> Iterator[Found]:
    """Where it is. Raises Unavailable."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise Unavailable("there is no chromium; on Debian, `apt install chromium` gets it")
    yield Found(path, "installed")
