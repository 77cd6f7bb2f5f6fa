"""G6, one truth: no gaps, one content for a number, manifests chained by sha256 (docs/design.md, "G6 One truth")."""

from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import Published
from shoal.core.policy.policy import Policy

GAP = "a release number is missing"
TWO_CONTENTS = "a number is used for two releases"
OTHER_NUMBER = "a manifest is of another release or table"
PREVIOUS = "a manifest does not name the one before it"
CONTENT = "a manifest's content is not what is published"


class Chain:
    """Follows the chain of manifests."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._number = 0
        self._digest: str | None = None

    def see(self, release: Published, findings: Findings) -> None:
        number, manifest = release.number, release.manifest
        if number == self._number:
            findings.say(Promise.G6, TWO_CONTENTS, number)
            return
        findings.say(Promise.G6, GAP, number, times=number - self._number - 1)
        is_next = number == self._number + 1
        if manifest is not None:
            wrong = {
                OTHER_NUMBER: (manifest["table"], manifest["release"]) != (self._policy.table, number),
                PREVIOUS: is_next and manifest["previous"] != self._digest,
                CONTENT: manifest["content"] != release.content,
            }
            for sentence, is_so in wrong.items():
                findings.say(Promise.G6, sentence, number, times=int(is_so))
        self._number, self._digest = number, release.digest
