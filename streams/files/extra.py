"""Packages that only some users want, imported when they are needed, with one sentence if they are missing."""

from importlib import import_module
from typing import Any

from shoal.streams.errors import InputError

ANALYSIS = "analysis"
_NAMED = {"psycopg": "psycopg[binary]"}


def import_extra(package: str, extra: str = ANALYSIS) -> Any:
    """A package of one of Shoal's extras. Raises InputError that says how to install it."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        what = _NAMED.get(package, package)
        raise InputError(f"this needs {package}; get it with `pip install '{what}'` (extra `{extra}`).") from None
