"""What can be judged of a "*": that it has a reason, that it waits as long as is said, and that it has company.

docs/design.md, "Values that last". The reason for one "*" is not published, but numbers must fit:

- S1: somebody's value that was shown is shown again whenever they are published and hold it, unless a guard or another
  publisher forbids it;
- *waiting*: where groups were formed, fewer than `batch` newcomers go on waiting;
- an entry starred for want of a round stays "*" for its spell: of those starred in a release no more are shown later
  in the same spell than were waiting then;
- *too frequent*: of the entries starred together for this, no value has more than 1/l. Beside them there may be as many
  of those who wait as the manifest says, and everybody else who is starred.

Only people are looked at who have one protected value, nothing shown before, and neither a guard nor another
publisher's group around them, ever, and who were not erased: of others a "*" may have other reasons. Nobody is, where
the values of some kind are too few for a signature.
"""

from collections import Counter
from math import ceil
from typing import Final

from shoal.core.audit.criteria.lasting.blocks import Blocks
from shoal.core.audit.criteria.lasting.history import History
from shoal.core.audit.criteria.lasting.terms import Kind
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.together import shard_of
from shoal.core.audit.reading.view import Entry, Secrets

HIDDEN: Final = "S1: a value that was shown is hidden, though no guard and no other publication asks for it"
MOST_WAITING: Final = "more values wait than are suppressed"
FULL_BATCH: Final = "a batch of newcomers is full and goes on waiting, though groups were formed"
SHOWN_LATER: Final = "more values that were suppressed are shown later than were waiting"
NO_COVER: Final = "of the values that were suppressed together more than 1/l are one value"

Spell = tuple[str, int, int]  # a person, a value, and the release that it began with


class PublicWaiting:
    """What anyone can see of those who wait."""

    def see(self, release: Published, findings: Findings) -> None:
        manifest, policy = release.manifest, release.epoch.policy
        if manifest is None:
            return
        is_over = manifest["waiting"] > manifest["suppressed"]
        findings.say(Promise.CONTRACT, MOST_WAITING, release.number, times=int(is_over))
        formed = (group for group in release.groups.values() if group.formed == release.number)
        is_formed = any(len(group.shown) >= policy.signature for group in formed)
        # Where there are several kinds of newcomers, those of one may wait because they cannot be starred unseen.
        is_of_one_kind = policy.shards == 1 and len(policy.sensitive.permanent) < policy.signature
        is_full = is_of_one_kind and is_formed and manifest["waiting"] >= policy.batch
        findings.say(Promise.G2, FULL_BATCH, release.number, times=int(is_full))


class Stars:
    """Follows everyone who is starred. Must see a release after `Blocks`."""

    def __init__(self, history: History, blocks: Blocks) -> None:
        self._history, self._terms, self._blocks = history, history.terms, blocks
        # Who ever had a guard, was erased, or was in another shard, where their values need groups of their own.
        self._apart: set[str] = set()
        self._shards: dict[str, int] = {}  # by person, the shard they were in first
        # Entries that were never shown: the releases in which they were starred, and their people as below.
        self._starred: dict[Spell, list[int]] = {}
        self._is_few = False  # whether some kind of values is too small for a signature
        self._waiting: dict[int, int] = {}
        self._later: Counter[int] = Counter()  # by release: entries starred then that are shown now

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        self._apart |= {person for person in secrets.homes if secrets.table[person].guard is not None} | secrets.erased
        for person, cell in secrets.homes.items():
            if self._shards.setdefault(person, shard_of(cell)) != shard_of(cell):
                self._apart.add(person)
        self._is_few = any(0 < len(kind) < self._terms.m for kind in self._terms.kinds(release.epoch))
        number, manifest = release.number, release.manifest
        waited = self._waiting.get(number - 1, 0)
        self._waiting[number] = manifest["waiting"] if manifest is not None else 0
        stars = [
            entry
            for name, entries in secrets.entries.items()
            if self._terms.kind(release.groups[name]) is Kind.STARRED
            for entry in entries
        ]
        self._hidden(number, stars, secrets, findings)
        self._shown_later(number, secrets, findings)
        self._cover(number, waited, stars, secrets, findings)

    def _hidden(self, number: int, stars: list[Entry], secrets: Secrets, findings: Findings) -> None:
        for person, leaf in stars:
            group = self._history.of(person).group.get((-1 if leaf is None else leaf, shard_of(secrets.homes[person])))
            if group is not None and self._is_free(person):
                findings.say(Promise.G2, HIDDEN, number, group)

    def _shown_later(self, number: int, secrets: Secrets, findings: Findings) -> None:
        over = 0
        for person in self._history.now:
            for one in self._history.fresh(person):
                for starred in self._starred.pop((person, one.leaf, one.spell), ()):
                    if self._is_simple(person, secrets):
                        self._later[starred] += 1
                        over += self._later[starred] > self._waiting[starred]
        findings.say(Promise.G2, SHOWN_LATER, number, times=over)

    def _cover(self, number: int, waited: int, stars: list[Entry], secrets: Secrets, findings: Findings) -> None:
        alike: Counter[int] = Counter()
        together, holders = waited, 0
        for person, leaf in stars:
            if leaf is None:
                together, holders = together + 1, holders + 1
                continue
            spell = person, leaf, self._history.spells[person][leaf]
            is_first = spell not in self._starred
            releases = self._starred.setdefault(spell, [])
            together += is_first
            if self._is_simple(person, secrets):
                releases.append(number)
                alike[leaf] += is_first
        # Those who wait, and those starred beside a clique's holder, are not starred for this.
        aside = self._waiting[number] + ceil(self._terms.l) * holders
        most = max(alike.values(), default=0) - aside
        is_bare = most > 0 and most * self._terms.l > max(0, together - self._waiting[number])
        findings.say(Promise.G2, NO_COVER, number, times=int(is_bare))

    def _is_free(self, person: str) -> bool:
        return person not in self._apart and not self._blocks.near.of(person)

    def _is_simple(self, person: str, secrets: Secrets) -> bool:
        protected, known = secrets.table[person].values - self._terms.open, self._history.of(person)
        return (
            not self._is_few and len(protected) == 1 and not known.values and not known.plain and self._is_free(person)
        )
