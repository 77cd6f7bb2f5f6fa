"""What must not change under a table once it has begun."""

from shoal.core.policy.policy import Policy
from shoal.core.state import ENGINE
from shoal.streams.settings import Settings
from shoal.streams.store.encryption import fingerprint
from shoal.streams.store.store import Store


def identity_of(settings: Settings, policy: Policy, store: Store) -> dict[str, str]:
    """The policy, the engine, and fingerprints of the two secrets."""
    return {
        "policy": policy.digest,
        "engine": ENGINE,
        "key": fingerprint(settings.key_bytes, policy.table),
        "seal": store.seal.fingerprint,
    }
