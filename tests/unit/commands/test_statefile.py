"""The state file: everything comes back, and what cannot be trusted is refused."""

from hashlib import sha256
from pathlib import Path

import msgpack
import pytest

from shoal.core.migrations import FORMAT
from shoal.core.policy.policy import Policy
from shoal.core.randomness import KeyedByHandle
from shoal.core.state import ENGINE, GroupRecord, Meta, NodeRecord, Person, State
from shoal.streams.errors import InputError
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.replay_state import DIGEST_BYTES, MAGIC, Position, StateFile

POLICY = """
table: t
attributes: {age: {type: int, min: 0, max: 99}, weight: {type: float, min: 0, max: 300}}
sensitive: {name: s, values: [a, b, c]}
privacy: {values: redrawn, k: 2, l: 2}
"""
KEYED = KeyedByHandle(b"secret", "t")
PEOPLE = [
    (KEYED.handle("p1"), Person(1, 0, (34, 61.5), (0, 2), 7, (3, 7), 1)),
    (KEYED.handle("p\u00e4"), Person(2, 0, (99, 0.0), (), -1, (3,), 2, coarse=4)),
]
GROUPS = [(3, GroupRecord(1, 2, ((0, 1), (2, 1)))), (7, GroupRecord(2, 1, ((1, 1), (3, 1))))]
NODES = [(0, NodeRecord(0, 50, 1, 2)), (1, NodeRecord(1, 72.5, 3, 4))]


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    (tmp_path / "policy.yaml").write_text(POLICY)
    return load_policy(tmp_path / "policy.yaml")


def saved(path: Path, policy: Policy) -> StateFile:
    meta = Meta(2, "ab" * 32, 8, 0.25, ENGINE, policy.digest)
    file = StateFile(path / "state")
    with file.locked():
        file.save(
            b"secret",
            Position(5, b"d" * 32, 99),
            State.load(policy, b"secret", meta, KeyedByHandle, people=PEOPLE, groups=GROUPS, nodes=NODES),
        )
    return file


def rewrite(file: StateFile, **changes: object) -> None:
    """Puts other values into the header, with a digest that fits."""
    stream = msgpack.Unpacker(use_list=False)
    body = file.path.read_bytes()[len(MAGIC) : -DIGEST_BYTES]
    stream.feed(body)
    header = next(stream)
    rest = body[stream.tell() :]
    content = MAGIC + msgpack.packb({**header, **changes}) + rest
    file.path.write_bytes(content + sha256(content).digest())


def test_everything_comes_back(tmp_path: Path, policy: Policy) -> None:
    found = saved(tmp_path, policy).load(policy, b"secret")
    assert found is not None
    assert found.secret == b"secret"
    assert found.position == Position(5, b"d" * 32, 99)
    assert found.state.meta == Meta(2, "ab" * 32, 8, 0.25, ENGINE, policy.digest)
    assert sorted(found.state.records("people")) == sorted(PEOPLE)
    assert sorted(found.state.records("groups")) == GROUPS
    assert sorted(found.state.records("nodes")) == NODES


def test_a_missing_file_is_no_state(tmp_path: Path, policy: Policy) -> None:
    assert StateFile(tmp_path / "nothing").load(policy, None) is None


def test_without_a_secret_of_ones_own_the_states_is_taken(tmp_path: Path, policy: Policy) -> None:
    found = saved(tmp_path, policy).load(policy, None)
    assert found is not None
    assert found.secret == b"secret"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, f"has format 99 of engine {ENGINE}, and this version of Shoal has format {FORMAT}"),
        ({"engine": "99.0"}, f"has format {FORMAT} of engine 99.0, .*: use the version that wrote it"),
        ({"policy": "cd" * 32}, "belongs to another policy"),
        ({"secret": b"other"}, "belongs to another seed"),
    ],
)
def test_a_state_of_other_settings_is_refused(
    tmp_path: Path, policy: Policy, change: dict[str, object], message: str
) -> None:
    file = saved(tmp_path, policy)
    rewrite(file, **change)
    with pytest.raises(InputError, match=message):
        file.load(policy, b"secret")


def test_every_changed_byte_is_noticed(tmp_path: Path, policy: Policy) -> None:
    file = saved(tmp_path, policy)
    content = file.path.read_bytes()
    for place in range(len(content)):
        file.path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(InputError, match=r"damaged|is not a state file"):
            file.load(policy, b"secret")


def test_every_shorter_file_is_noticed(tmp_path: Path, policy: Policy) -> None:
    file = saved(tmp_path, policy)
    content = file.path.read_bytes()
    for length in range(len(content)):
        file.path.write_bytes(content[:length])
        with pytest.raises(InputError, match=r"damaged|is not a state file"):
            file.load(policy, b"secret")


def test_a_file_that_somebody_else_replaced_is_not_written_over(tmp_path: Path, policy: Policy) -> None:
    file = saved(tmp_path, policy)
    with file.locked():
        found = file.load(policy, b"secret")
        assert found is not None
        other = file.path.with_name("other")
        other.write_bytes(b"theirs")
        other.replace(file.path)
        with pytest.raises(InputError, match="changed by another program"):
            file.save(b"secret", found.position, found.state)
    assert file.path.read_bytes() == b"theirs"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
