"""Balancing: groups in which each value of the signature is shown equally often (S4), at the least cost.

A group keeps its *even part*: as many of each value as it has of its rarest one. The members above that, entries that
come back, and newcomers are *loose*. Loose entries of one signature are dealt into rounds, of each value the first in
the tree's order, then the second, and so on. A round that lacks a value is filled up with a counterfeit. It joins the
group that most of it came from, or the nearest one with room, or a new one. A group that nobody left and that has no
counterfeits is its own even part: its members are not looked at, only where it is and what room it has.

Counterfeits are limited, in a group and in a release. Where there are too many, the rounds that need most of them are
given up: their entries are "*" in this release. One "*" is better than three counterfeits: once a release has more
counterfeits than it should, rounds that are nearly empty are given up as well, if all in them were shown before and so
come back.

Nothing here looks at which of the m values an entry has, only at whether two entries have the same one (S5). Renaming
the values of a signature in all its entries gives the same groups.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.randomness import Tags
from shoal.core.runs import numbered
from shoal.core.signatures.nearest import NONE, Sites, join_nearest, means, ranks
from shoal.core.signatures.tuning import COUNTERFEITS_IN_GROUP, IDLE, ROWS_AT_FIRST, ROWS_AT_MOST

NO_GROUP = -1


class Members(NamedTuple):
    """The entries of the signatures that are balanced, as columns; `group` is NO_GROUP for one that has none."""

    signature: Rows
    slot: Rows
    group: Rows
    place: Rows
    draw: Callable[[Rows], Tags]  # of these members: few are asked for
    family: Rows  # newcomers that were given their signatures together; 0 for others
    is_new: NDArray[np.bool_]  # never shown until now


class Balanced(NamedTuple):
    """By entry its group, or NO_GROUP for "*"; by group its rounds. Groups from `first_new` on are new."""

    group: Rows
    groups: Rows
    rounds: Rows
    new_signatures: Rows  # of the new groups, in order


class _Rounds(NamedTuple):
    """Rounds of loose entries, as columns."""

    signature: Rows
    lacking: Rows
    home: Rows
    place: NDArray[np.float64]
    is_idle: NDArray[np.bool_]  # nearly empty, and without newcomers


class Standing(NamedTuple):
    """Groups that rounds may join, in the order of their numbers, as columns."""

    number: Rows
    signature: Rows
    rounds: Rows  # that they keep
    place: NDArray[np.float64]  # on average


def balance(
    members: Members,
    sizes: Rows,
    whole: Standing,
    frozen: Rows,
    *,
    most_counterfeits: int,
    enough: int,
    next_group: int,
) -> Balanced:
    """Balance these signatures; all members of a group are among `members`, but for groups that lack nobody, `whole`.

    `sizes` is m by signature. The groups in `frozen` keep their members and rounds, and are joined by nobody.
    `most_counterfeits` is what the release can bear for all of them together, `enough` what it should have at most.
    """
    group = members.group.copy()
    even, loose = _take_apart(members, sizes, frozen)
    even = _merged(even, whole)
    round_of, rounds = _deal(members, loose, sizes)
    homes = _find_homes(rounds, even, sizes, next_group)
    is_kept = _prune(rounds, homes.group, even, sizes, most_counterfeits)
    _give_up_idle(rounds, is_kept, enough)
    group[loose] = np.where(is_kept[round_of], homes.group[round_of], NO_GROUP)
    numbers = np.r_[even.number, homes.group[is_kept]]
    times = np.r_[even.rounds, np.ones(np.count_nonzero(is_kept), dtype=np.int64)]
    groups, where = numbered(numbers)
    totals = np.bincount(where, weights=times, minlength=len(groups)).astype(np.int64)
    return Balanced(group, groups, totals, homes.new_signatures)


def _merged(some: Standing, others: Standing) -> Standing:
    order = np.argsort(np.r_[some.number, others.number])
    return Standing(*(np.r_[left, right][order] for left, right in zip(some, others, strict=True)))


def _take_apart(members: Members, sizes: Rows, frozen: Rows) -> tuple[Standing, Rows]:
    """The groups that have an even part, and the loose entries; those of frozen groups are neither."""
    grouped = np.flatnonzero(members.group != NO_GROUP)
    groups, line = numbered(members.group[grouped])
    signature = np.zeros(len(groups), dtype=np.int64)
    signature[line] = members.signature[grouped]
    width = int(sizes.max(initial=1))
    cell = line * width + members.slot[grouped]
    counts = np.bincount(cell, minlength=len(groups) * width)
    is_slot = np.arange(width)[None, :] < sizes[signature][:, None]
    rounds = np.where(is_slot, counts.reshape(-1, width), np.iinfo(np.int64).max).min(axis=1)
    is_free = ~np.isin(groups, frozen)
    above = np.flatnonzero((counts[cell] > rounds[line]) & is_free[line])  # some entries of this value are loose
    is_loose = ranks(cell[above], members.draw(grouped[above])) >= rounds[line[above]]
    loose = np.r_[grouped[above[is_loose]], np.flatnonzero(members.group == NO_GROUP)]
    has_even = np.flatnonzero(is_free & (rounds > 0))
    place = means(line, members.place[grouped], len(groups))
    return Standing(groups[has_even], signature[has_even], rounds[has_even], place[has_even]), np.sort(loose)


def _deal(members: Members, loose: Rows, sizes: Rows) -> tuple[Rows, _Rounds]:
    """The round of each loose entry, and the rounds."""
    signature, slot = members.signature[loose], members.slot[loose]
    width, families = int(sizes.max(initial=1)), int(members.family[loose].max(initial=0)) + 1
    kind = signature * families + members.family[loose]
    turn = ranks(kind * width + slot, members.draw(loose), members.place[loose])
    most = int(turn.max(initial=0)) + 1
    keys, round_of = np.unique(kind * most + turn, return_inverse=True)
    signatures = keys // most // families
    filled = np.bincount(round_of, minlength=len(keys))
    place = np.bincount(round_of, weights=members.place[loose].astype(np.float64), minlength=len(keys))
    home = np.full(len(keys), np.iinfo(np.int64).max, dtype=np.int64)
    grouped = np.flatnonzero(members.group[loose] != NO_GROUP)
    np.minimum.at(home, round_of[grouped], members.group[loose[grouped]])
    home[home == np.iinfo(np.int64).max] = NO_GROUP
    lacking = sizes[signatures] - filled
    has_new = np.bincount(round_of, weights=members.is_new[loose], minlength=len(keys)) > 0
    is_idle = (lacking >= IDLE * filled) & ~has_new
    return round_of, _Rounds(signatures, lacking, home, place / np.maximum(1, filled), is_idle)


class _Homes(NamedTuple):
    group: Rows  # by round
    new_signatures: Rows


def _find_homes(rounds: _Rounds, even: Standing, sizes: Rows, next_group: int) -> _Homes:
    """The group of each round: where it came from, else the nearest with room, else a new one."""
    group = rounds.home.copy()
    homeless = np.flatnonzero(group == NO_GROUP)
    if len(homeless) and len(even.number):
        room = np.maximum(0, ROWS_AT_MOST // sizes[even.signature] - even.rounds)
        sites = Sites(even.signature, even.place, room)
        joined = join_nearest(rounds.signature[homeless], rounds.place[homeless], sites)
        group[homeless[joined != NONE]] = even.number[joined[joined != NONE]]
    homeless = np.flatnonzero(group == NO_GROUP)
    homeless = homeless[np.lexsort((rounds.place[homeless], rounds.signature[homeless]))]
    signature = rounds.signature[homeless]
    at_once = np.maximum(1, ROWS_AT_FIRST // sizes[signature])
    turn = np.arange(len(homeless)) - np.searchsorted(signature, signature)
    is_first = turn % at_once == 0
    group[homeless] = next_group + np.cumsum(is_first) - 1
    return _Homes(group, signature[is_first])


def _prune(rounds: _Rounds, home: Rows, even: Standing, sizes: Rows, most_counterfeits: int) -> NDArray[np.bool_]:
    """Which rounds are kept, so that neither a group nor the release has too many counterfeits."""
    is_kept = np.ones(len(home), dtype=bool)
    lacking = np.flatnonzero(rounds.lacking)
    groups, where = numbered(home)
    total = np.bincount(where, minlength=len(groups))
    has_even = np.isin(groups, even.number)
    total[has_even] += even.rounds[np.searchsorted(even.number, groups[has_even])]
    fakes = np.bincount(where, weights=rounds.lacking, minlength=len(groups)).astype(np.int64)
    size = np.zeros(len(groups), dtype=np.int64)
    size[where] = sizes[rounds.signature]
    worst = lacking[np.lexsort((lacking, -rounds.lacking[lacking]))]
    is_over = fakes * COUNTERFEITS_IN_GROUP > total * size
    for at in worst[is_over[where[worst]]].tolist():
        line = int(where[at])
        if fakes[line] * COUNTERFEITS_IN_GROUP > total[line] * size[line]:
            is_kept[at] = False
            fakes[line] -= rounds.lacking[at]
            total[line] -= 1
    worst = worst[is_kept[worst]]
    over = int(rounds.lacking[worst].sum()) - most_counterfeits
    if over > 0:
        given_up = int(np.searchsorted(np.cumsum(rounds.lacking[worst]), over)) + 1
        is_kept[worst[:given_up]] = False
    return is_kept


def _give_up_idle(rounds: _Rounds, is_kept: NDArray[np.bool_], enough: int) -> None:
    """Give up nearly empty rounds until a release has no more counterfeits than it should."""
    over = int(rounds.lacking[is_kept].sum()) - enough
    idle = np.flatnonzero(is_kept & rounds.is_idle)
    if over > 0 and len(idle):
        idle = idle[np.lexsort((idle, -rounds.lacking[idle]))]
        count = int(np.searchsorted(np.cumsum(rounds.lacking[idle]), over)) + 1
        is_kept[idle[:count]] = False
