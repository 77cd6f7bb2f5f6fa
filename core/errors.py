"""The errors of the core. It raises them for mistakes of its caller only; expected outcomes are values."""

from typing import NamedTuple


class CoreError(Exception):
    """Any error of the core. Messages name places of a policy, never people or their values."""


class Mistake(NamedTuple):
    """One mistake in a policy, and its place in the document."""

    path: tuple[str | int, ...]
    message: str
    at_key: bool = False  # the key itself is wrong (unknown, doubled), rather than its value

    @property
    def place(self) -> str:
        """The path as a person would write it: `sensitive.open[2]`."""
        text = ""
        for step in self.path:
            if isinstance(step, int):
                text += f"[{step}]"
            else:
                name = step if step and step.isprintable() else repr(step)
                text += f".{name}" if text else name
        return text

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.path else self.message


class PolicyError(CoreError):
    """A policy that cannot be used, with every mistake in it."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        super().__init__("\n".join(str(mistake) for mistake in mistakes))
        self.mistakes = mistakes

    def __reduce__(self) -> tuple[type["PolicyError"], tuple[tuple[Mistake, ...]]]:
        return type(self), (self.mistakes,)


class LineMistake(NamedTuple):
    """One mistake in a hierarchy, and its line, counted from 1."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


class HierarchyError(CoreError):
    """A hierarchy that cannot be used, with every mistake in it."""

    def __init__(self, mistakes: tuple[LineMistake, ...]) -> None:
        super().__init__("\n".join(str(mistake) for mistake in mistakes))
        self.mistakes = mistakes

    def __reduce__(self) -> tuple[type["HierarchyError"], tuple[tuple[LineMistake, ...]]]:
        return type(self), (self.mistakes,)


class CronError(CoreError):
    """A cron expression that cannot be used."""
