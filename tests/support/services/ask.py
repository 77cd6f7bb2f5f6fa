"""Asks a process of Shoal's over HTTP."""

import urllib.error
import urllib.request


def ask(port: int, page: str) -> tuple[int, str]:
    """The status and the text of an answer, whatever the status is."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
