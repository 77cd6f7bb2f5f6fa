"""Addresses of Redis: every form is read, a password never shown; and which errors are worth waiting for."""

import pytest
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ExecAbortError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from shoal.streams.errors import InputError, ServiceError
from shoal.streams.store.address import CLUSTER, SENTINEL, SINGLE, Access, read_address, without_secret
from shoal.streams.store.refusal import explain, is_passing

NOBODY = Access()


def test_sentinels_and_nodes_of_a_cluster_are_listed_with_commas() -> None:
    found = read_address("redis+sentinel://ward:pass%40word@a,b:2,[::1]:3/primary/4", NOBODY)
    assert (found.kind, found.has_tls, found.service) == (SENTINEL, False, "primary")
    assert found.nodes == (("a", 26379), ("b", 2), ("::1", 3))
    assert found.options == {"username": "ward", "password": "pass@word", "db": 4}
    found = read_address("rediss+cluster://a:1,b", NOBODY)
    assert (found.kind, found.has_tls, found.nodes, found.options) == (CLUSTER, True, (("a", 1), ("b", 6379)), {})
    assert read_address("unix:///run/redis.sock", NOBODY).kind == SINGLE


def test_settings_win_over_the_address() -> None:
    found = read_address("redis://one:first@host:1/2", Access("two", "second"))
    assert (found.options["username"], found.options["password"], found.options["db"]) == ("two", "second", 2)


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://canary@a:1", "redis+sentinel://a:1/name/canary", "redis+cluster://a:1/canary",
        "redis+cluster://:canary@", "redis+other://canary", "redis+cluster://a:canary", "redis://host:canary/0",
        "redis+sentinel://a:1/name?password=canary",
    ],
)  # fmt: skip
def test_a_wrong_address_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(InputError, match="SHOAL_REDIS is not an address") as caught:
        read_address(url, NOBODY)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://canary:canary@host:1/0", "redis://host:1/0"),
        ("redis://host:1/0?password=canary", "redis://host:1/0"),
        ("redis://host:1/0?username=canary&password=can@ary", "redis://host:1/0"),
        ("redis://u:p@host:1/0?db=3&password=canary#canary", "redis://host:1/0"),
        ("unix://canary:canary@/run/redis.sock?password=canary", "unix:///run/redis.sock"),
        ("redis+sentinel://:canary@a:1,b:2/name/0", "redis+sentinel://a:1,b:2/name/0"),
    ],
)
def test_a_password_is_shown_neither_from_before_the_host_nor_from_the_query(url: str, shown: str) -> None:
    assert without_secret(url) == shown


@pytest.mark.parametrize(
    "error",
    [
        RedisConnectionError("refused"), TimeoutError(), OSError(), BusyLoadingError("loading"),
        OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), ReadOnlyError("replica"),
        ClusterDownError("the cluster is down"), TryAgainError("multiple keys"),
        ResponseError("MISCONF Redis is configured to save snapshots"), ResponseError("NOREPLICAS Not enough good"),
        ResponseError("Error running script (call to f_1): @user_script:3: @user_script: 3: -OOM command not allowed"),
        ResponseError("Error running script (call to f_1): @user_script:3: -READONLY You can't write against a"),
    ],
)  # fmt: skip
def test_what_passes_by_itself_is_waited_for(error: BaseException) -> None:
    assert is_passing(error)
    assert isinstance(explain(error, "redis://host"), ServiceError)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (AuthenticationError("invalid username-password pair"), "SHOAL_REDIS_PASSWORD"),
        (NoPermissionError("this user has no permissions to run the 'hset' command"), "'hset'"),
        (ExecAbortError("Transaction discarded because of: this user has no permissions to run 'exec'"), "'exec'"),
        (AskError("1 127.0.0.1:1"), r"redis\+cluster"),
    ],
)
def test_what_only_an_operator_can_change_is_said_at_once(error: BaseException, words: str) -> None:
    assert not is_passing(error)
    said = explain(error, "redis://host", "ward")
    assert isinstance(said, InputError)
    with pytest.raises(InputError, match=words):
        raise said


def test_a_refusal_is_found_behind_the_connection_that_it_ended() -> None:
    wrapped = RedisConnectionError("while connecting")
    wrapped.__cause__ = AuthenticationError("WRONGPASS")
    assert not is_passing(wrapped)
    assert "SHOAL_REDIS_SENTINEL_PASSWORD" in str(explain(wrapped, "redis+sentinel://host/name"))


def test_an_error_that_nobody_knows_ends_the_worker() -> None:
    assert not is_passing(ResponseError("WRONGTYPE Operation against a key"))
