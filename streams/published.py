"""What is wrong with published releases, as somebody who reads them is told it."""

from collections.abc import Iterator
from contextlib import contextmanager

from shoal.core.published.manifest import OtherFormatError, PublishedError
from shoal.streams.errors import GuaranteeError, InputError


@contextmanager
def checked_release() -> Iterator[None]:
    """Raises GuaranteeError where a release is not what it or the one before it says, InputError for another format."""
    try:
        yield
    except OtherFormatError as error:
        raise InputError(f"{error}.") from None
    except PublishedError as error:
        raise GuaranteeError(f"{error}.") from None
