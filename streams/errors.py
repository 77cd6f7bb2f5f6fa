"""What the shell raises: one clear sentence for the operator with its exit code, and two signals between its rooms.

The exit codes are those of (docs/contract.md, "Exit codes").
"""

GUARANTEE = 1
INPUT = 2
SERVICE = 3


class StreamsError(Exception):
    """Anything that ends a command. The message says what to do and quotes no event."""

    exit_code = INPUT


class GuaranteeError(StreamsError):
    """Going on could break a promise, so nothing is published."""

    exit_code = GUARANTEE


class InputError(StreamsError):
    """Wrong usage, settings, file or stored state."""

    exit_code = INPUT


class PolicyChangedError(InputError):
    """The table has another policy since its last release: this worker ends, and is started again with the new file."""

    def __init__(self, table: str) -> None:
        super().__init__(
            f"table {table} has another policy since its last release, as `shoal policy change` asked for: start the "
            "worker again with the new file"
        )


class ServiceError(StreamsError):
    """Kafka or Redis cannot be reached."""

    exit_code = SERVICE


class FencedError(Exception):
    """Another worker has taken ownership of what this worker was working on. Handled, never shown to the operator."""


class LostError(Exception):
    """Redis does not know this table any more, or has less than this worker left there. Always explained before it is
    shown.
    """
