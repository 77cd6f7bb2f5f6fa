"""What the shell raises: one clear sentence for the operator, and the exit code that goes with it."""

GUARANTEE = 1
INPUT = 2
SERVICE = 3


class StreamsError(Exception):
    """Anything that ends a command. The message says what to do and holds no event's content."""

    exit_code = INPUT


class GuaranteeError(StreamsError):
    """Going on could break a promise, so nothing is published."""

    exit_code = GUARANTEE


class InputError(StreamsError):
    """Wrong usage, settings, file or stored state."""

    exit_code = INPUT


class ServiceError(StreamsError):
    """Kafka or Redis cannot be reached."""

    exit_code = SERVICE
