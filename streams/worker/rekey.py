"""`shoal rekey`: bring everything that Redis holds about people under the first key of SHOAL_STATE_KEY."""

import asyncio
from typing import NamedTuple

from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError, LostError, ServiceError
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.settings import Settings
from shoal.streams.store.address import access_of
from shoal.streams.store.connection import RedisError, explain, is_passing, without_secret
from shoal.streams.store.encryption import KeyRing, make_cipher
from shoal.streams.store.rekeying import Rewritten, rekey_table
from shoal.streams.store.store import Store


class Rekeyed(NamedTuple):
    """How many values of a table were written anew, of how many."""

    table: str
    values: int
    of: int


def run_rekey(settings: Settings) -> Rekeyed:
    """Raises StreamsError, with its exit code."""
    policy = load_policy(settings.policy_path)
    try:
        done = asyncio.run(_rekey(settings, policy))
    except RedisError as error:
        if not is_passing(error):
            raise explain(error, without_secret(settings.redis), policy.table) from error
        raise ServiceError("Redis went away; nothing is lost, run `shoal rekey` again") from error
    except LostError:
        raise InputError(f"Redis holds nothing of table {policy.table}") from None
    return Rekeyed(policy.table, done.values, done.of)


async def _rekey(settings: Settings, policy: Policy) -> Rewritten:
    ring = make_cipher(settings.state_key_bytes)
    assert isinstance(ring, KeyRing), "the caller required SHOAL_STATE_KEY"
    store = Store(settings.redis, policy.table, ring, access_of(settings))
    try:
        await store.connect(settings.connect_s)
        await store.meta()  # which refuses another format
        return await rekey_table(store, ring)
    finally:
        await store.close()
