"""Fail closed: which pairs of stories, Redis's and the topic's, let a worker publish."""

import json
from dataclasses import dataclass
from hashlib import sha256

import pytest

from shoal.core.published.manifest import FORMAT, Manifest
from shoal.core.state import Meta
from shoal.streams.errors import GuaranteeError
from shoal.streams.kafka.manifest import ManifestRecord
from shoal.streams.store.meta import TableMeta
from shoal.streams.store.records import Counts
from shoal.streams.store.staging import SealedRelease
from shoal.streams.worker.publish import check_sealed, check_story


def manifest(number: int, extra: str = "") -> ManifestRecord:
    text = json.dumps({"release": number, "format": FORMAT, "x": extra})
    return ManifestRecord(number, Manifest(text.encode()), {}, number)


def meta(release: int, sent: int, digest: str | None = None) -> TableMeta:
    digest = digest or sha256(manifest(release).value).hexdigest()
    sealed = Meta(release, digest, 1, 0.0, "1.0", "p")
    return TableMeta(
        identity={"policy": "p", "engine": "1.0", "key": "k", "seal": ""},
        partitions=8,
        created=0.0,
        release=release,
        manifest=digest,
        sent=sent,
        applied=sent,
        sealed=sealed,
        counts=Counts(),
    )


@dataclass
class Story:
    redis: TableMeta | None
    topic: ManifestRecord | None


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(Story(None, None), id="a new table"),
        pytest.param(Story(meta(0, 0), None), id="a table without a release"),
        pytest.param(Story(meta(1, 0), None), id="the first release sealed and not sent"),
        pytest.param(Story(meta(5, 5), manifest(5)), id="both at the same release"),
        pytest.param(Story(meta(5, 4), manifest(5)), id="sent, and not marked as sent"),
        pytest.param(Story(meta(6, 5), manifest(5)), id="sealed and not sent"),
    ],
)
def test_it_may_publish(story: Story) -> None:
    check_story("t", story.redis, story.topic)


@pytest.mark.parametrize(
    ("story", "said"),
    [
        pytest.param(Story(None, manifest(3)), "shoal rebuild", id="Redis wiped"),
        pytest.param(Story(meta(2, 2), manifest(3)), "shoal rebuild", id="Redis set back"),
        pytest.param(Story(meta(0, 0), manifest(1)), "shoal rebuild", id="Redis begun anew"),
        pytest.param(Story(meta(3, 3, "f" * 64), manifest(3)), "different contents", id="another content"),
        pytest.param(Story(meta(3, 3), None), "kept for ever", id="the topic is empty"),
        pytest.param(Story(meta(3, 3), manifest(2)), "kept for ever", id="the topic lost its last release"),
        pytest.param(Story(meta(5, 4), manifest(3)), "kept for ever", id="two releases are missing"),
    ],
)
def test_it_must_not_publish(story: Story, said: str) -> None:
    with pytest.raises(GuaranteeError, match=said) as caught:
        check_story("t", story.redis, story.topic)
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value), "one sentence"


def test_a_sealed_release_must_follow_from_the_last_one_on_the_topic() -> None:
    before = sha256(manifest(4).value).hexdigest()
    check_sealed("t", sealed(before), manifest(4))
    check_sealed("t", sealed(None), None)
    with pytest.raises(GuaranteeError, match="does not follow"):
        check_sealed("t", sealed(before), manifest(4, "another"))
    with pytest.raises(GuaranteeError, match="does not follow"):
        check_sealed("t", sealed(None), manifest(4))


def sealed(previous: str | None) -> SealedRelease:
    return SealedRelease(number=5, manifest=json.dumps({"previous": previous}).encode(), headers=[])
