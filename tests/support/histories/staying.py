"""People whose values mostly stay, and three ways to publish them: naively, redrawn, and by rules S1 to S5.

Everything here is small and plain: publishers that are known to be bad, and one that is known to be good, for attacks
to be tried on.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from random import Random
from typing import TypeAlias

from shoal.core.audit.attack.shown import ShownGroup

Table: TypeAlias = dict[str, int]  # the value of everyone present


def live(people: int, releases: int, values: int, stay: float, seed: int, leave: float = 0.0) -> list[Table]:
    """A table per release: everyone keeps their value with a probability, or draws a new one; some are away."""
    random = Random(seed)
    shares = [1 / (value + 3) for value in range(values)]
    held = dict(zip((f"p{n}" for n in range(people)), random.choices(range(values), shares, k=people), strict=True))
    found = []
    for _ in range(releases):
        for person in held:
            if random.random() > stay:
                held[person] = random.choices(range(values), shares)[0]
        found.append({person: value for person, value in held.items() if random.random() >= leave})
    return found


def truth(table: Table) -> dict[str, frozenset[int]]:
    return {person: frozenset((value,)) for person, value in table.items()}


def group_of(key: object, people: Sequence[str], table: Table) -> ShownGroup:
    """A group that shows everybody's value."""
    return ShownGroup(key, people, Counter((table[person],) for person in people))


def publish_naively(table: Table, size: int) -> list[ShownGroup]:
    """Neighbours together, group after group, without a thought for the release before."""
    people = sorted(table, key=lambda person: int(person[1:]))
    return [group_of(at, people[at : at + size], table) for at in range(0, len(people) - size + 1, size)]


def publish_redrawn(table: Table, size: int, random: Random) -> list[ShownGroup]:
    """Everybody with other people each time."""
    people = sorted(table)
    random.shuffle(people)
    return [group_of(at, people[at : at + size], table) for at in range(0, len(people) - size + 1, size)]


class Blocks:
    """Values are cut into blocks of m once and for all; a block is the signature of each of its values.

    S1 and S2 follow. Somebody who was shown with m/2 values of a block is not shown with another one (S3). A group
    shows each value of its block equally often, with counterfeits for what its rows lack (S4). Where somebody goes
    depends on the block and on counts (S5).
    """

    def __init__(self, m: int, size: int) -> None:
        self._m, self._size = m, size
        self._groups: dict[int, list[list[str]]] = defaultdict(list)
        self._shown: dict[tuple[str, int], set[int]] = defaultdict(set)

    def publish(self, table: Table) -> Iterator[ShownGroup]:
        starred = []
        for block in {value // self._m for value in table.values()} | self._groups.keys():
            groups = self._groups[block]
            present = {person for person, value in table.items() if value // self._m == block}
            for group in groups:
                group[:] = [person for person in group if person in present and self._can_show(person, table)]
            placed = {person for group in groups for person in group}
            for person in sorted(present - placed):
                if not self._can_show(person, table):
                    starred.append(person)
                    continue
                room = next((group for group in groups if len(group) < self._size), None)
                if room is None:
                    room = []
                    groups.append(room)
                room.append(person)
            for at, group in enumerate(groups):
                if not group:
                    continue
                counts = Counter(table[person] for person in group)
                for person in group:
                    self._shown[person, block].add(table[person])
                each = max(counts.values())
                values = range(block * self._m, (block + 1) * self._m)
                yield ShownGroup((block, at), list(group), {(value,): each for value in values})
        if starred:
            yield ShownGroup("*", starred, {(): len(starred)})

    def _can_show(self, person: str, table: Table) -> bool:
        shown = self._shown[person, table[person] // self._m]
        return table[person] in shown or len(shown) < self._m // 2
