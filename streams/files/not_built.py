"""What a table with shards cannot do yet, refused in one sentence each."""

from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.settings import Settings


def check_buildable(policy: Policy, settings: Settings) -> None:
    """Raises InputError if a worker cannot run this table."""
    if policy.shards == 1:
        return
    if settings.embedded:
        raise InputError(
            f"table {policy.table} has {policy.shards} shards, and the embedded broker has neither fencing nor as many "
            "partitions: use a real Kafka, or leave `scale.shards` out"
        )


def refuse_shards(what: str, policy: Policy) -> None:
    """Raises InputError if a table has shards: `what` is a plural, not built for them yet."""
    if policy.shards > 1:
        raise refusal(what, policy.table, policy.shards)


def refusal(what: str, table: str, shards: int) -> InputError:
    return InputError(f"table {table} has {shards} shards, and {what} of such tables are not built yet")
