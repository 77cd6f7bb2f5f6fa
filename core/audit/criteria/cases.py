"""Case ids: one for a person while their quasi-identifiers stay, and never a source id.

docs/design.md, "Where the papers collide". Which row of a cell is whose is not known even here, but where each case id
was seen is, and where each person was; the two lists of places must be the same. A person who kept a case id through a
move would make one place list of two.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from hashlib import md5, sha1, sha256

from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

SOURCE_ID = "a case id is a source id, or a plain hash of one"
TWICE = "a case id stands for two rows of a release"
NOT_THE_PERSONS = "a case id does not follow one person until their quasi-identifiers change"

_SHORTEST_HASH = 8  # characters; shorter matches happen by chance

Place = tuple[int, str, str]  # release, group, cell


class CaseIds:
    """Whether case ids follow people as they should."""

    def __init__(self, policy: Policy) -> None:
        self._is_asked = policy.case_ids
        self._of_cases: dict[str, list[Place]] = defaultdict(list)
        self._of_people: dict[tuple[str, int], list[Place]] = defaultdict(list)
        self._wrong = 0

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        if not self._is_asked:
            return
        seen: set[str] = set()
        for name, group in release.groups.items():
            for cell in group.cells:
                for case in cell.case_ids or ():
                    findings.say(Promise.CONTRACT, TWICE, release.number, cell.name, int(case in seen))
                    seen.add(case)
                    self._of_cases[case].append((release.number, name, cell.name))
        for person, (name, cell_name) in secrets.places.items():
            self._of_people[person, secrets.since[person]].append((release.number, name, cell_name))
        findings.say(Promise.CONTRACT, SOURCE_ID, release.number, times=len(seen & _plain_names(secrets.places, seen)))
        cases, people = (Counter(map(tuple, places.values())) for places in (self._of_cases, self._of_people))
        wrong = sum((cases - people).values())
        findings.say(Promise.CONTRACT, NOT_THE_PERSONS, release.number, times=max(0, wrong - self._wrong))
        self._wrong = wrong


def _plain_names(people: Iterable[str], cases: Iterable[str]) -> set[str]:
    """Source ids, and the hashes of them that anyone could make, cut to the lengths that case ids have."""
    lengths = {len(case) for case in cases if len(case) >= _SHORTEST_HASH}
    found = set(people)
    for person in [*found]:
        for plain in (md5, sha1, sha256):
            text = plain(person.encode(), usedforsecurity=False).hexdigest()
            found |= {text[:length] for length in lengths}
    return found
