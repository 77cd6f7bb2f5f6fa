"""G5, sampling: what can be said of the coins without the secret they are tossed with (Baig, Definition 3).

Nobody's coin is tossed again. So of the people who are present and not published in a release, whoever is published at
any other time was not kept out by their coin but withheld, and a release can have no more of those than it says. And of
everyone present about the share 1 - rho is kept out: how far from it is too far is Chernoff's bound, which is exact.
"""

import math
from collections.abc import Iterable
from typing import Final

from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

TOSSED_AGAIN: Final = "somebody whom sampling had kept out is published at another time"
SHARE: Final = "the share of people whom sampling keeps out is not the policy's"

UNLIKELY = 30.0  # e to the minus this is the chance that a true series is taken for a false one


class Coins:
    """Follows everyone who is present and not published."""

    def __init__(self, policy: Policy) -> None:
        self._rho = policy.sampling
        self._published: set[str] = set()
        self._waited: dict[str, list[int]] = {}  # of those never published: the releases in which they were present
        self._withheld: dict[int, int] = {}  # by release: how many of its people may yet turn out to be withheld

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        if self._rho >= 1 or release.manifest is None:
            return
        number, unsampled = release.number, release.manifest["unsampled"]
        findings.say(Promise.G5, SHARE, number, times=int(is_unlikely(unsampled, len(secrets.table), 1 - self._rho)))
        self._withheld[number] = release.manifest["withheld"]
        self._count(number, (seen for person in secrets.homes for seen in self._waited.pop(person, ())), findings)
        self._published |= secrets.homes.keys()
        away = [person for person in secrets.table if person not in secrets.homes]
        self._count(number, (number for person in away if person in self._published), findings)
        for person in away:
            if person not in self._published:
                self._waited.setdefault(person, []).append(number)

    def _count(self, now: int, releases: Iterable[int], findings: Findings) -> None:
        """Somebody was withheld in each of these releases; says so of each one more than that release has."""
        for number in releases:
            self._withheld[number] -= 1
            findings.say(Promise.G5, TOSSED_AGAIN, now, times=int(self._withheld[number] < 0))


def is_unlikely(kept_out: int, people: int, share: float) -> bool:
    """Whether so many of so many would be kept out with a chance of less than e to the minus UNLIKELY."""
    if not people:
        return False
    found = kept_out / people
    far = sum(part * math.log(part / right) for part, right in ((found, share), (1 - found, 1 - share)) if part > 0)
    return people * far > UNLIKELY
