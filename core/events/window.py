"""A window: the net effect of the events between two releases, one *delta* for each person they are about.

A delta says where a person stands now, as against the window's start. It depends on the effect of the events alone, not
on the events that led there:

| kind         | now                                            | qid                           | values               |
|--------------|------------------------------------------------|-------------------------------|----------------------|
| PATCH        | present, as at the start but for what is named | tuple, None where unchanged   | None where unchanged |
| PUT          | present, with exactly this record              | tuple                         | tuple                |
| GONE         | absent, was present at the start               | None                          | permanent, or None   |
| REGISTER     | absent, registered here (whatever came before) | tuple                         | permanent, or None   |
| DEREGISTERED | no more                                        | None                          | permanent, or None   |
| ERASED       | forgotten, but for what was shown              | None                          | permanent, or None   |

PUT_ANEW, REGISTER_ANEW and DEREGISTERED_ANEW are what their names say, of a person who was erased before, in the same
window. A person who is erased may come back; one who was deregistered before may not.

So an insert and a delete in one window make REGISTER: there is no record, but a person who ever had one is registered.
REGISTER and DEREGISTERED may stand for a person who was present at the start. A delta does not say whether the person
*changed* (there and back is no change). The plan says so, because it knows the record at the start.

A person who was ever given a permanent value holds it for good. An insert has the value whether or not it says so, and
the delta of an absent person names the values they hold. In a lasting table an erasure ends that.

A delta is a plain tuple: intake makes one per event, and making a named tuple takes three times as long. Read it by
unpacking, or by the names of its places: `delta[OFFSETS]`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from shoal.core.events.guard import Wish

KIND: Final = 0
QID: Final = 1
VALUES: Final = 2  # sorted distinct leaf codes
# Of every accepted event of this window about a person whose home was not known at its start; None for other people.
# Several offsets are a list that grows in place: a new person may have very many events in one window.
OFFSETS: Final = 3
# The last wish in this window (see `guard.py`), None without one: then an older wish stands, also through delete and
# insert.
GUARD: Final = 4
Delta = tuple[int, tuple[Any, ...] | None, tuple[int, ...] | None, Sequence[int] | None, Wish | None]

PATCH: Final = 0
PUT: Final = 1
GONE: Final = 2
REGISTER: Final = 3
DEREGISTERED: Final = 4
ERASED: Final = 5  # from here on, everything about the person before is forgotten
PUT_ANEW: Final = 6
REGISTER_ANEW: Final = 7
DEREGISTERED_ANEW: Final = 8

PRESENT: Final = 1
ABSENT: Final = 2
DEREGISTERED_STATUS: Final = 3
ERASED_STATUS: Final = 4
STATUS_AFTER: Final = (
    PRESENT, PRESENT, ABSENT, ABSENT, DEREGISTERED_STATUS, ERASED_STATUS, PRESENT, ABSENT, DEREGISTERED_STATUS,
)  # fmt: skip # by kind of delta
ANEW: Final = {PUT: PUT_ANEW, REGISTER: REGISTER_ANEW, DEREGISTERED: DEREGISTERED_ANEW}


def held_in(values: tuple[int, ...] | None, permanent: frozenset[int]) -> tuple[int, ...]:
    """The permanent ones among a person's values."""
    return tuple(value for value in values if value in permanent) if values and permanent else ()


def overlay(window: dict[str, Delta], drained: Mapping[str, Delta]) -> None:
    """Add what was drained next to a window that was written down before. The window takes over its lists."""
    known = {person: window[person][OFFSETS] for person in window.keys() & drained.keys()}
    window.update(drained)
    for person, before in known.items():
        if before is not None:
            kind, qid, values, offsets, guard = drained[person]
            assert offsets is not None
            grown = before if type(before) is list else [*before]
            grown.extend(offsets)
            window[person] = (kind, qid, values, grown, guard)
