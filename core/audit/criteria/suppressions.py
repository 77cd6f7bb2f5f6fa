"""Why a permanent value was suppressed, in words: what the audit can see of the reason.

docs/design.md, "Permanent values". A holder's s is shown as "*" where no clique can be made for them, or theirs cannot
be whole. The audit knows nothing of containers, so it tells what became of the people whom the holder was last shown
with.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.core.audit.permanent.alibis import Alibi, Alibis
from shoal.core.audit.permanent.scarce import Scarce, cohort_count
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy


@dataclass(frozen=True)
class Suppressed:
    """One suppression: since which release and in which group, whose (for a pseudonym to be made of), and why."""

    release: int
    group: str
    person: str
    why: str


class Suppressions:
    """Explains every suppression of a permanent value, once for each group it is in."""

    def __init__(self, policy: Policy) -> None:
        self._mates = cohort_count(policy) - 1
        self._is_all = policy.participation == "all"
        self.found: list[Suppressed] = []

    def see(self, release: Published, scarce: Sequence[Scarce], secrets: Secrets, alibis: Alibis) -> None:
        """Takes a release, before the alibis do: they then know the clique that was last shown."""
        for value in scarce:
            for group, person in value.hidden():
                if release.groups[group].formed == release.number:
                    alibi = alibis.of.get((value.leaf, person))
                    if alibi is None:
                        why = self._before(value, group, secrets)
                    else:
                        why = self._since(value, (group, person), secrets, alibi)
                    self.found.append(Suppressed(release.number, group, person, why))

    def _before(self, value: Scarce, group: str, secrets: Secrets) -> str:
        """Of somebody whose value was never shown."""
        owners = {person for cohort in value.cohorts for person in cohort}
        clean = len(set(secrets.people[group]) - value.holders[group] - owners)
        start = "it was never shown, and "
        if clean < self._mates:
            needed = "1 clean person is" if self._mates == 1 else f"{self._mates} clean people are"
            found = "is 1" if clean == 1 else f"are {clean}"
            return f"{start}{needed} needed in the group to hide them, of whom there {found}"
        if self._is_all and value.shown.get(group):
            return f"{start}another holder's is shown in the same group, which may show it once"
        return f"{start}no decoys were found for them; {_people(clean)} in the group would be clean now"

    def _since(self, value: Scarce, place: tuple[str, str], secrets: Secrets, alibi: Alibi) -> str:
        """Of somebody who was shown with others before."""
        group, holder = place
        mates = alibi.clique - value.holders.get(group, frozenset())
        fates: Counter[str] = Counter()
        for mate in mates:
            if mate in secrets.extinct:
                fates["ceased to exist"] += 1
            elif mate not in secrets.table:
                fates["absent"] += 1
            elif value.leaf in secrets.held.get(mate, ()):
                fates["holding it too by now"] += 1
            elif mate not in secrets.places:
                fates["withheld"] += 1
            elif secrets.since.get(mate, 0) > alibi.last_shown:
                fates["moved"] += 1
            elif secrets.places[mate][0] != group:
                fates["in another group"] += 1
        start = f"of the {_people(len(mates))} they were last shown with, in release {alibi.last_shown}, "
        if secrets.since.get(holder, 0) > alibi.last_shown:
            start = f"they moved, and {start}"
        if not fates:
            return f"{start}all are in the group; the audit sees no need for it"
        return start + ", ".join(f"{count} {_be(count, fate)}" for fate, count in sorted(fates.items()))


def _people(count: int) -> str:
    return "one person" if count == 1 else f"{count} people"


def _be(count: int, fate: str) -> str:
    if fate in ("ceased to exist", "moved"):
        return fate
    return f"{'is' if count == 1 else 'are'} {fate}"
