"""Policies and hierarchies for the fuzzer: right ones of every kind, and damaged ones."""

from random import Random
from typing import Any

from shoal.core.policy.policy import Policy, build_policy
from tests.fuzz.grammar import NUMBERS, TEXTS, atom, damage

ZIP = "\n".join(f"{leaf};{leaf[:2]}*;{leaf[0]}*;*" for leaf in (f"{number:03}" for number in range(0, 120, 7)))
DISEASE = "flu;resp;*\ncold;resp;*\nasthma;resp;*\nulcer;gut;*\ngastritis;gut;*\ngout;*\nhiv;viral;*\nherpes;viral;*\n"
FILES = {"zip.csv": ZIP.encode(), "disease.csv": DISEASE.encode()}


def document_of(rnd: Random) -> dict[str, Any]:
    """A right policy, which may ask for anything there is."""
    attributes: dict[str, Any] = {
        "age": {"type": "int", "min": 0, "max": rnd.choice((1, 99, 2**40))},
        "weight": {"type": "float", "min": rnd.choice((0, -1e300, 0.1)), "max": rnd.choice((300, 1e300, 0.2))},
        "sex": {"type": "category", "values": ["f", "m"]},
        "zip": {"type": "category", "hierarchy": "zip.csv"},
    }
    if attributes["weight"]["min"] >= attributes["weight"]["max"]:
        attributes["weight"]["max"] = 300
    kept = rnd.sample(sorted(attributes), rnd.randint(1, 4))
    permanent = rnd.choice(([], [], ["hiv"], ["hiv", "herpes"]))
    privacy: dict[str, Any] = {"k": rnd.choice((1, 2, 3, 5)), "l": rnd.choice((1.5, 2, 3))}
    if rnd.random() < 0.5:
        privacy["values"] = "redrawn"
    if "values" in privacy and rnd.random() < 0.8:
        privacy["strategy"] = rnd.choice(
            (
                {"name": "adaptive", "releases": 3},
                {"name": "constant-ratio", "releases": 2},
                {"name": "geometric", "alpha": 2},
            )
        )
    privacy |= rnd.choice(({}, {"headroom": 0}, {"sampling": 0.5}, {"participation": "all"}, {"participation": 1}))
    return {
        "table": "t",
        "attributes": {name: attributes[name] for name in kept},
        "sensitive": {
            "name": "disease", "hierarchy": "disease.csv", "permanent": permanent, "open": rnd.choice(([], ["flu"])),
        },
        "privacy": privacy,
        "release": rnd.choice(({}, {"every_events": 10}, {"min_seconds": 5, "every_seconds": 1.5})),
    }  # fmt: skip


def policy_of(rnd: Random) -> Policy:
    return build_policy(document_of(rnd), FILES, b"")


def damaged_document(rnd: Random) -> Any:
    found: Any = document_of(rnd)
    for _ in range(rnd.choice((1, 1, 2, 3))):
        found = damage(found, rnd)
    return found


def damaged_hierarchy(rnd: Random) -> str:
    """Lines of ARX's format with something wrong, or only unusual."""
    lines = rnd.choice((ZIP, DISEASE)).splitlines()
    for _ in range(rnd.choice((1, 1, 2, 4))):
        at = rnd.randrange(len(lines) + 1)
        labels = (lines[at] if at < len(lines) else "a;b;*").split(";")
        match rnd.randrange(7):
            case 0:
                labels.insert(rnd.randrange(len(labels) + 1), str(rnd.choice((*TEXTS, *NUMBERS))))
            case 1:
                labels.pop(rnd.randrange(len(labels)))
            case 2:
                labels = [labels[0], *(f"n{level}" for level in range(rnd.choice((1, 50, 3_000)))), "*"]
            case 3:
                labels = [str(atom(rnd)), *labels[1:]]
            case 4:
                labels = labels[::-1]
            case 5:
                lines += [f"x{number};*" for number in range(rnd.choice((1, 300)))]
            case _:
                labels = [f'"{label}"' for label in labels]
        lines[at : at + rnd.choice((0, 1))] = [";".join(labels)]
    return rnd.choice(("\n", "\r\n")).join(lines)
