"""What a plot shows, in any form of output: lines over the releases, or over anything else that grows."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One line of a plot; a missing value (None) is a gap. A bound is drawn dashed and without markers."""

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    is_bound: bool = False


@dataclass(frozen=True)
class Panel:
    """One plot. Without `is_from_zero` the axis begins where the data does."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    is_percent: bool = False
    is_from_zero: bool = True
    is_log: bool = False
    top: float | None = None

    def in_words(self) -> str:
        """The plot for readers who cannot see it: where each line begins and ends."""
        parts = []
        for line in self.lines:
            known = [value for value in line.y if value is not None]
            if known:
                first, last = (
                    f"{100 * value:.2f} %" if self.is_percent else f"{value:.4g}" for value in (known[0], known[-1])
                )
                parts.append(f"{line.label} from {first} to {last}")
        over = "over the releases" if self.x_label == "release" else f"by {self.x_label}"
        return f"{self.title} {over}: {'; '.join(parts)}."
