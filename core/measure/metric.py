"""A metric: one figure of a release, with the words a report needs for it.

A new metric of published records is one file with a `Metric` and one line in `metrics.py`; nothing else names it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Metric(Generic[Measured]):
    """`form` is a format specification of Python, or "%" for a share; `meaning` is a sentence for the reader."""

    name: str
    head: str
    form: str
    measure: Callable[[Measured], float]
    meaning: str = ""
