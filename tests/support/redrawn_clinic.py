"""The made-up clinic under the other model: its policy as one of a redrawn table, for tests of what only that has."""

from pathlib import Path


def redraw(policy: Path) -> None:
    """Rewrites the clinic's policy file, whose last keys are those of a lasting table."""
    text = policy.read_text(encoding="utf-8")
    policy.write_text(text[: text.index("  values: lasting")] + "  values: redrawn\n", encoding="utf-8")
