"""What this version's audit covers; what it does not is refused in one sentence, never passed over."""

from core.errors import CoreError
from core.policy import Policy


class NotCoveredError(CoreError):
    """Something is published under a promise that this version cannot check."""

    def __init__(self, what: str) -> None:
        super().__init__(f"this version's audit does not cover {what} yet, so nothing was audited.")


def refuse_uncovered(policy: Policy) -> None:
    """Raises NotCoveredError if a policy asks for what cannot be audited."""
    if policy.sensitive.permanent:
        raise NotCoveredError("permanent values")
