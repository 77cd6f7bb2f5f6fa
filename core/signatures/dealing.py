"""Dealing: newcomers are put into *rounds*, one entry of each value of a signature, in which they are shown for ever.

1. *Seconds* first: a new value inside a signature of its person needs a round of exactly that signature; everybody else
   in it is new to it. Each such round is a group by itself.
2. *Surplus.* Of a value that is too frequent some are starred, with others drawn unseen (`surplus.py`).
3. *Layout.* The others are laid into rounds as if they shunned nothing (`layout.py`). Those who do not fit theirs
   change places, and rounds that do not come out whole are built anew (`rounds.py`). Where many shun something, all
   rounds are built one by one.
4. *Company.* Who is left finds no round, and is starred. Whole rounds, drawn unseen, are starred with them until no
   value is more than 1/l of those starred. If that cannot be, nobody is dealt in this release.

What is never shown must have no say in the choice of a signature. So whoever was dealt beside a value of the same
person that is starred in the end is dealt again without regard to it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.randomness import Tags
from shoal.core.signatures.layout import lay_rounds
from shoal.core.signatures.newcomers import ANY, NO_ROUND, Newcomers, mask_of
from shoal.core.signatures.rounds import Rounds
from shoal.core.signatures.surplus import find_surplus, is_covered, keep
from shoal.core.signatures.tuning import CANDIDATES_TRIED, DEALT_AGAIN_WITH, UNFIT_AT_MOST

Draws = Callable[[str, int], Tags]  # so many random numbers for a purpose


class Values(NamedTuple):
    """What is known of values: the order in which they are laid, and by value the block of those that go together."""

    order: Sequence[int]
    blocks: Sequence[int]


class Dealing:
    """The newcomers of one pool being dealt."""

    def __init__(
        self, newcomers: Newcomers, sets: Sequence[tuple[int, ...]], values: Values, m: int, l: float, draws: Draws
    ) -> None:
        self._newcomers, self._sets, self._values, self._m, self._l = newcomers, sets, values, m, l
        self._draws, self._turn = draws, 0
        self.rounds = Rounds(newcomers, m, values.blocks, self._more_draws)
        self.starred: set[int] = set()  # who found no round
        self.company: set[int] = set()  # those of them who are starred with others
        self.starred_seconds: list[int] = []

    def run(self) -> None:
        """Steps 1 to 3."""
        fresh = np.flatnonzero(self._newcomers.wanted == ANY)
        if len(fresh) < len(self._newcomers.wanted):
            fresh = self._seat_seconds(fresh)
        value, draw = self._newcomers.value[fresh], self._newcomers.draw[fresh]
        surplus = find_surplus(np.bincount(value, minlength=1), self._m, self._l)
        kept, company = keep(value, draw, surplus)
        self.starred = set(fresh.tolist()) - set(fresh[kept].tolist()) if len(kept) < len(fresh) else set()
        self.company = set(fresh[company].tolist())
        self.rounds.unseen |= self.starred
        if len(kept):
            self.starred.update(self.rounds.mend(self._lay(fresh[kept])))

    def seat(self, signatures: Iterable[Sequence[int]]) -> None:
        """Make one round of each of these instead, and star everybody else."""
        queues: dict[int, list[int]] = {}
        for one, value in enumerate(self._newcomers.value.tolist()):
            queues.setdefault(value, []).append(one)
        for signature in signatures:
            self.rounds.closed.add(self.rounds.add([queues[value].pop() for value in signature]))
        self.starred = {one for queue in queues.values() for one in queue}

    def values_of(self, some: Iterable[int]) -> list[int]:
        """The values of these newcomers."""
        return self._newcomers.value[np.array(sorted(some), dtype=np.int64)].tolist()  # type: ignore[no-any-return]

    def take_company(self, place: int) -> None:
        """Star a whole round with those who found none."""
        members = self.rounds.take_apart(place)
        self.starred.update(members)
        self.company.update(members)

    def deal_again(self) -> bool:
        """Deal those again who avoided a value of theirs that is starred now; False if there was nobody.

        Their rounds alone would come out as they were. So others, drawn unseen, are taken apart with each of them.
        """
        rounds, siblings = self.rounds, self._newcomers.siblings
        late = self.starred - rounds.unseen
        rounds.unseen |= late
        places = {rounds.round_of[sibling] for one in late for sibling in siblings.get(one, ())} - {NO_ROUND}
        places -= rounds.closed
        if not places:
            return False
        drawn = self._more_draws(len(rounds.members))
        others = [place for place in range(len(drawn)) if rounds.members[place] and place not in rounds.closed]
        places.update(sorted(others, key=drawn.__getitem__)[: DEALT_AGAIN_WITH * len(places)])
        freed = [one for place in sorted(places) for one in rounds.take_apart(place)]
        self.starred.update(rounds.mend(rounds.build(freed)))
        return True

    # -- parts --------------------------------------------------------------------------------------------------

    def _more_draws(self, count: int) -> list[int]:
        self._turn += 1
        drawn: list[int] = self._draws(f"deal {self._turn}", count).tolist()
        return drawn

    def _seat_seconds(self, fresh: Rows) -> Rows:
        """Step 1; returns the others who are left."""
        rounds, value, wanted = self.rounds, self._newcomers.value.tolist(), self._newcomers.wanted.tolist()
        queues: dict[int, list[int]] = {}
        for one in sorted(fresh.tolist(), key=lambda one: -rounds.shuns(one).bit_count()):
            queues.setdefault(value[one], []).append(one)
        for second in np.flatnonzero(self._newcomers.wanted != ANY).tolist():
            signature = self._sets[wanted[second]]
            mask, members = mask_of(signature), [second]
            for other in signature:
                if other != value[second]:
                    fitting = (one for one in queues.get(other, ()) if rounds.may_enter(one, mask, members))
                    members += islice(fitting, 1)
            if len(members) < len(signature):
                self.starred_seconds.append(second)
                continue
            for one in members[1:]:
                queues[value[one]].remove(one)
            rounds.closed.add(rounds.add(members))
        return np.array(sorted(one for queue in queues.values() for one in queue), dtype=np.int64)

    def _lay(self, kept: Rows) -> list[int]:
        """Step 3, up to the rounds that are built anew; returns those who are left."""
        rounds, newcomers = self.rounds, self._newcomers
        value = newcomers.value[kept]
        count = max(int(np.bincount(value).max()), len(kept) // self._m)
        laid = lay_rounds(value, newcomers.place[kept], newcomers.draw[kept], self._values.order, count)
        rounds.add_all(kept.tolist(), laid.round.tolist(), laid.masks)
        picky = [one for one in kept.tolist() if one in newcomers.shunned or one in newcomers.siblings]
        unfit = [one for one in picky if not rounds.is_at_home(one)]
        if len(unfit) > UNFIT_AT_MOST * len(kept):
            unfit = kept.tolist()
        else:
            self._swap(unfit, kept)
            unfit = [one for one in picky if not rounds.is_at_home(one)]
        broken = sorted({rounds.round_of[one] for one in unfit})
        return rounds.build([one for place in broken for one in rounds.take_apart(place)])

    def _swap(self, unfit: Sequence[int], kept: Rows) -> None:
        """Let these change places with others of their values."""
        value = self._newcomers.value
        order = kept[np.argsort(value[kept], kind="stable")]
        first, last = (np.searchsorted(value[order], value[list(unfit)], side=side) for side in ("left", "right"))
        for one, drawn, begin, end in zip(
            unfit, self._more_draws(len(unfit)), first.tolist(), last.tolist(), strict=True
        ):
            turn = begin + drawn % (end - begin)
            tried = [
                *order[turn : min(end, turn + CANDIDATES_TRIED)].tolist(),
                *order[begin:turn][:CANDIDATES_TRIED].tolist(),
            ]
            if not self.rounds.is_at_home(one):
                self.rounds.swap(one, tried)


def cover(dealings: Sequence[Dealing], l: float, draws: Draws) -> bool:
    """Step 4, for those whom nobody can tell apart; False if the starred cannot be covered."""
    places = [
        (dealing, place)
        for dealing in dealings
        for place in range(len(dealing.rounds.members))
        if place not in dealing.rounds.closed
    ]
    order = np.argsort(draws("company", len(places)), kind="stable").tolist()
    counts = Counter(value for dealing in dealings for value in dealing.values_of(dealing.starred))
    while not is_covered(counts.values(), l):
        if not order:
            return False
        dealing, place = places[order.pop()]
        counts.update(dealing.values_of(dealing.rounds.members[place]))
        dealing.take_company(place)
    return True
