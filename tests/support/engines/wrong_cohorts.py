"""Engines that are wrong about permanent values, each in one way: for those who must find them out."""

from typing import Any

import pytest

from shoal.core.cohort.clique import DORMANT, Clique
from shoal.core.cohort.participation_all import EveryoneKnown
from shoal.core.cohort.roles import Roles
from shoal.core.cohort.ties import Tying
from shoal.core.groups.pool import Ties
from shoal.core.policy.policy import Policy

_in_pool, _holder_absent, _update_one = Tying.in_pool, Roles.holder_absent, EveryoneKnown._update_one


def tear_cliques(patch: pytest.MonkeyPatch) -> None:
    """Nobody is tied to anybody."""

    def without_ties(tying: Tying, policy: Policy) -> Ties:
        ties = _in_pool(tying, policy)
        assert isinstance(ties, Ties)
        return Ties([], {})

    patch.setattr(Tying, "in_pool", without_ties)


def leave_decoys(patch: pytest.MonkeyPatch) -> None:
    """While a holder is away their decoys are published as anybody else, with neither the value nor a "*"."""

    def stay(roles: Roles, clique: Clique) -> Clique:
        return _holder_absent(roles, clique)._replace(owners=clique.owners, mode=DORMANT)

    def forget(roles: EveryoneKnown, clique: Clique, size: int) -> Clique:
        after = _update_one(roles, clique, size)
        return after if roles._is_present(after.holder) else after._replace(mode=DORMANT)

    patch.setattr(Roles, "holder_absent", stay)
    patch.setattr(EveryoneKnown, "_update_one", forget)


def share_stars(patch: pytest.MonkeyPatch) -> None:
    """Cliques whose holders are away get no "*" of their own where somebody near has one."""

    def share(_: Tying, clique: Clique, own: list[int], *__: Any) -> tuple[int, int]:
        return min(own), clique.value  # which they do not have, where the holder is away

    patch.setattr(Tying, "_cover", share)


def crowd_holders(patch: pytest.MonkeyPatch) -> None:
    """All cliques of the pool in one group."""

    def all_in_one(tying: Tying, policy: Policy) -> Ties:
        ties = _in_pool(tying, policy)
        assert isinstance(ties, Ties)
        everyone = [[row for tie in ties.members for row in tie]] if ties.members else []
        return Ties(everyone, ties.covers, are_apart=True)

    patch.setattr(Tying, "in_pool", all_in_one)


def crowd_and_share(patch: pytest.MonkeyPatch) -> None:
    """The same, and one "*" for all whose holders are away."""

    def one_star(tying: Tying, policy: Policy) -> Ties:
        ties = _in_pool(tying, policy)
        assert isinstance(ties, Ties)
        people = sorted(ties.covers)[:1]
        everyone = [[row for tie in ties.members for row in tie]] if ties.members else []
        return Ties(everyone, {row: ties.covers[row] for row in people}, are_apart=True)

    patch.setattr(Tying, "in_pool", one_star)


def renew_cliques(patch: pytest.MonkeyPatch) -> None:
    """With `participation: all`: other people in a clique in every release."""

    def renew(roles: EveryoneKnown, clique: Clique, size: int) -> Clique:
        return _update_one(roles, clique._replace(owners=clique.owners[:1], nodes=(0,), created=(0,)), size)

    patch.setattr(EveryoneKnown, "_update_one", renew)
