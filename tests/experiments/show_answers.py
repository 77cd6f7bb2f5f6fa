"""What the experiment on answers found, as tables for docs/experiments.md."""

from tests.experiments.drawing import Shown, table
from tests.experiments.series import Figures

_TABLES = {"adult": "Adult with churn", "synthea": "Synthea", "clinic": "clinic", "zipf": "Zipf crowd"}


def show_answers(figures: Figures) -> Shown:
    lines = []
    for name, label in _TABLES.items():
        for publisher, found in figures.get(name, {}).items():
            kept = {f"{kind}_kept": _share(found[f"{kind}_kept"]) for kind in ("query", "contrast")}
            lines.append({**found, **kept, "table": label, "publisher": publisher})
    texts = [_text(lines, "contrast", "Contrasts"), _text(lines, "query", "Random queries")]
    return Shown({}, "\n\n".join(texts))


def _text(lines: list[Figures], kind: str, title: str) -> str:
    columns = {
        "table": ("table", ""),
        "publisher": ("publisher", ""),
        "withheld": ("withheld_share", "%"),
        "shares alone": (f"{kind}_alone", "%"),
        "even": (f"{kind}_even", "%"),
        "the model": (f"{kind}_error", "%"),
        "true values": (f"{kind}_true", "%"),
        "kept": (f"{kind}_kept", ""),
        "truth in the likely range": (f"{kind}_held", "%"),
        "half its width": (f"{kind}_width", "%"),
    }
    return f"{title}, median error:\n\n{table(lines, columns)}"


def _share(kept: float | None) -> str:
    return "–" if kept is None else f"{100 * kept:.0f} %"
