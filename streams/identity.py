"""What must not change under a table once it has begun."""

from core.policy import Policy
from core.state import ENGINE
from streams.seal import fingerprint
from streams.settings import Settings
from streams.store import Store


def identity_of(settings: Settings, policy: Policy, store: Store) -> dict[str, str]:
    """The policy, the engine, and fingerprints of the two secrets."""
    return {
        "policy": policy.digest,
        "engine": ENGINE,
        "key": fingerprint(settings.key_bytes, policy.table),
        "seal": store.seal.fingerprint,
    }
