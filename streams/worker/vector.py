"""The vector of a release everything that it is made of, and the digest by which all of it is named.

It has the headers of the manifest (streams/kafka/manifest.py) and the digest of the manifest before. Two owners that
name the same digest have planned from the same events, whatever happened to Redis in between.
"""

from hashlib import sha256
from typing import NamedTuple

from shoal.streams.errors import GuaranteeError
from shoal.streams.kafka.manifest import Headers, Origin, read_origin
from shoal.streams.store.course import Course
from shoal.streams.store.records import pack, unpack


class PackedVector(NamedTuple):
    """As it stands in Redis, and its digest."""

    digest: str
    packed: bytes


def pack_vector(number: int, previous: str | None, headers: Headers) -> PackedVector:
    packed = pack((number, previous, list(headers)))
    return PackedVector(sha256(packed).hexdigest(), packed)


def origin_in(course: Course) -> Origin:
    """What the release under way is made of, once its vector is told. Raises GuaranteeError if the digest is another
    one.
    """
    assert course.vector is not None
    assert course.origin is not None
    release, _, headers = unpack(course.origin)
    if release != course.number or sha256(course.origin).hexdigest() != course.vector:
        raise GuaranteeError("Redis has a vector that does not match its release or its digest")
    return read_origin(course.number, dict(headers))
