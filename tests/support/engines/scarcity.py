"""A small and naive publisher of one permanent value, to audit: it re-forms every group at every release.

It knows two ways. With `participation: all` each holder has a clique for good, and the rules of docs/design.md,
"Participation all", are followed to the letter. With a number, decoys are replaced as Bu does, by anyone who is clean
and present. What it publishes may be spoiled on the way out, which makes an engine that is known to be wrong.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal

from shoal.core.policy.policy import Policy, build_policy
from tests.support.engines.audited import ByHand

HIV = "hiv"
OTHERS = ("flu", "fever", "cough")


def scarce_policy(l: float = 3, participation: int | Literal["all"] = "all", **more: Any) -> Policy:
    """One attribute, one permanent value, and three that nobody minds, so that only G3 is asked for anything."""
    policy = build_policy(
        {
            "table": "clinic",
            "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
            "sensitive": {"name": "disease", "values": [HIV, *OTHERS, *more.pop("values", ())], "open": list(OTHERS)},
            "privacy": {"values": "redrawn", "k": 1, "l": l, "participation": participation, **more},
        },
        {},
        b"clinic",
    )
    hiv = policy.sensitive.hierarchy.leaf_code[HIV]
    return replace(policy, sensitive=policy.sensitive._replace(permanent=frozenset({hiv})))


@dataclass
class Batch:
    """A group to be published: its people, the holders whose value is shown, and how many "*" it has."""

    people: list[str]
    shown: list[str] = field(default_factory=list)
    stars: list[str] = field(default_factory=list)  # whose values are hidden


@dataclass
class Draft:
    """A release before it is published: groups, and each clique whose holder's value is shown, the holder first."""

    batches: list[Batch]
    cliques: list[list[str]]
    broken: dict[str, list[str]] = field(default_factory=dict)  # published members of cliques that are not whole


Spoil = Callable[[Draft], None]


@dataclass
class Clinic:
    """A clinic whose people come, go, die and fall ill at random, and its publisher."""

    policy: Policy
    seed: int
    people: int = 14
    spares: int = 1
    away: float = 0.2
    death: float = 0.0
    illness: float = 0.08
    is_strict: bool = (
        True  # under `all`: a new clique's first group has nobody who was ever in one that showed the value
    )
    bystanders: int = 0  # registered, and never there
    desk: ByHand = field(init=False)

    def __post_init__(self) -> None:
        self.desk, self.rng = ByHand(self.policy), Random(self.seed)
        self.l, self.is_all = int(self.policy.l), self.policy.participation == "all"
        self.everyone = [f"p{i}" for i in range(self.people)]
        self.present: set[str] = set()
        self.dead: set[str] = set()
        self.holders: list[str] = []
        self.cliques: dict[str, list[str]] = {}
        self.shown: set[str] = set()  # holders whose value ever was
        self.candidates: set[str] = set()  # ever in a group that showed the value
        self.releases = 0
        for i, person in enumerate(self.everyone):
            self.desk.tell({"op": "register", "id": person, "qid": {"age": i}})
        for i in range(self.bystanders):
            self.desk.tell({"op": "register", "id": f"b{i}", "qid": {"age": i}})

    def live(self) -> None:
        """Everyone's life until the next release."""
        for i, person in enumerate(self.everyone):
            if person in self.dead:
                continue
            is_away = self.rng.random() < self.away
            if is_away and person in self.present:
                self.present.discard(person)
                self.desk.tell({"op": "delete", "id": person})
            if is_away and self.rng.random() < self.death:
                self.dead.add(person)
                self.desk.tell({"op": "deregister", "id": person})
            if not is_away and person not in self.present:
                self.present.add(person)
                self.desk.tell({"op": "insert", "id": person, "qid": {"age": i}, "sensitive": self._transient(person)})
        tied = {member for clique in self.cliques.values() for member in clique}
        for person in sorted(self.present - tied - set(self.holders)):
            if self.rng.random() < self.illness:
                self.fall_ill(person)

    def fall_ill(self, person: str) -> None:
        self.holders.append(person)
        values = [HIV, self._transient(person)]
        self.desk.tell({"op": "update", "id": person, "sensitive": values})

    @staticmethod
    def _transient(person: str) -> str:
        return OTHERS[int(person[1:]) % len(OTHERS)]

    def publish(self, spoil: Spoil | None = None) -> Draft:
        """One release, as it should be or spoiled."""
        self.releases += 1
        draft = self._draft()
        if spoil is not None:
            spoil(draft)
        groups = {}
        for at, batch in enumerate(b for b in draft.batches if b.people):
            groups[f"g{self.releases}.{at}"] = (self.releases, batch.people, self._values(batch))
        lists = [list(owners) for owners in zip(*draft.cliques, strict=True)] or [[] for _ in range(self.l)]
        self.desk.publish(groups, cohorts={HIV: lists})
        return draft

    def run(self, releases: int) -> "Clinic":
        for _ in range(releases):
            self.live()
            self.publish()
        return self

    def findings(self) -> set[str]:
        """What the audit finds wrong with G3, and with the form of what was published."""
        found = self.desk.sentences()
        return {sentence for sentence in found if sentence.startswith("G3") or "cohorts" in sentence}

    def _values(self, batch: Batch) -> Mapping[str, int]:
        """Everyone's values; of who is to be hidden a holder's permanent one, else the one they have."""
        shown = {HIV: len(batch.shown), "*": len(batch.stars)}
        hidden = {person for person in batch.stars if person not in self.holders}
        for person in batch.people:
            if person not in hidden:
                label = self._transient(person)
                shown[label] = shown.get(label, 0) + 1
        return {label: count for label, count in shown.items() if count}

    def _draft(self) -> Draft:
        draft = Draft([], [])
        free = self._recruit()
        for holder, clique in self.cliques.items():
            there = [person for person in clique if person in self.present]
            if holder in there and len(there) >= self.l:
                self.cliques[holder] = there
                draft.batches.append(Batch(list(there), [holder]))
                draft.cliques.append([holder, *[p for p in there if p != holder][: self.l - 1]])
            elif there and (self.is_all or holder in there):
                draft.batches.append(Batch(list(there), [], [holder if holder in there else there[0]]))
                draft.broken[holder] = there
            elif there:
                free += there  # decoys of an absent holder, replaced by absent ones
        tied = {person for batch in draft.batches for person in batch.people}
        free = [person for person in free if person not in tied]
        for holder in [p for p in self.holders if p in self.present and p not in self.cliques]:
            free = [person for person in free if person != holder]
            draft.batches.append(Batch([holder], [], [holder]))
        self.rng.shuffle(free)
        self._share_out(draft, free)
        draft.batches = [
            b for b in draft.batches if len(b.people) >= self.l or not b.shown + b.stars
        ]  # others: withheld
        self.shown.update(holder for batch in draft.batches for holder in batch.shown)
        self.candidates.update(person for batch in draft.batches if batch.shown for person in batch.people)
        return draft

    def _recruit(self) -> list[str]:
        """Finds decoys for new holders and, unless cliques are for good, for those who went; returns who is left."""
        tied = {member for clique in self.cliques.values() for member in clique}
        free = sorted(self.present - tied - set(self.holders))
        self.rng.shuffle(free)
        for holder in self.holders:
            if holder not in self.present:
                continue
            if not self.is_all and holder in self.cliques:
                stay = [p for p in self.cliques[holder] if p in self.present]
                fresh = [free.pop() for _ in range(min(len(free), self.l - len(stay)))]
                self.cliques[holder] = stay + fresh
            elif holder not in self.cliques:
                able = [person for person in free if self._may_join(person, holder)]
                if len(able) >= self.l - 1 and self._may_join(holder, holder):
                    mates = able[: self.l - 1 + (self.spares if self.is_all else 0)]
                    self.cliques[holder] = [holder, *mates]
                    free = [person for person in free if person not in mates]
        return free

    def _may_join(self, person: str, holder: str) -> bool:
        """Whether somebody may be in the group that first shows a holder's value."""
        is_new = holder not in self.shown
        return not (self.is_all and self.is_strict and is_new and person in self.candidates)

    def _share_out(self, draft: Draft, free: list[str]) -> None:
        """Puts everyone else into groups: some beside cliques, the rest among themselves."""
        for batch in draft.batches:
            able = [person for person in free if all(self._may_join(person, holder) for holder in batch.shown)]
            while able and (len(batch.people) < self.l or self.rng.random() < 0.4):
                batch.people.append(able.pop())
            free = [person for person in free if person not in batch.people]
        while free:
            size = self.rng.randint(2, 5)
            draft.batches.append(Batch([free.pop() for _ in range(min(size, len(free)))]))


def batch_of(draft: Draft, person: str) -> Batch:
    return next(batch for batch in draft.batches if person in batch.people)


def histories(policy: Policy, count: int, **more: Any) -> Iterator[Clinic]:
    for seed in range(count):
        yield Clinic(policy, seed, **more)
