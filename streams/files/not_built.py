"""What a table with shards cannot do, refused in one sentence."""

from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.settings import Settings


def check_buildable(policy: Policy, settings: Settings) -> None:
    """Raises InputError if a worker cannot run this table."""
    if policy.shards > 1 and settings.embedded:
        raise InputError(
            f"table {policy.table} has {policy.shards} shards, and the embedded broker has neither fencing nor as many "
            "partitions: use a real Kafka, or leave `scale.shards` out"
        )
