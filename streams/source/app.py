"""Runs a source until a signal ends it."""

import asyncio
import signal
from pathlib import Path

from shoal.streams.files.mapping.mapping import load_mapping
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.kafka.entry import enter
from shoal.streams.kafka.record_limit import set_limit
from shoal.streams.kafka.rights import source_rights
from shoal.streams.log import configure_log
from shoal.streams.settings import Settings
from shoal.streams.source.service import Source
from shoal.streams.store.address import access_of
from shoal.streams.store.connection import RedisError, explain, without_secret
from shoal.streams.store.encryption import make_strict_cipher
from shoal.streams.store.source_book import SourceBook
from shoal.streams.store.store import Store
from shoal.streams.vitals import SourceVitals, serving


def run_source(
    settings: Settings,
    policy: Path,
    mapping: Path,
    *,
    stop_after_s: float | None = None,
    anew: bool = False,
    web_port: int | None = None,
    debug: bool = False,
) -> int:
    """Run until a signal ends it, or until nothing has come for `stop_after_s`; on a port it says how it is. Raises
    StreamsError.
    """
    configure_log(settings.log_format, settings.log_level, debug=debug)
    set_limit(settings.max_record)
    asyncio.run(_run(settings, policy, mapping, web_port, stop_after_s=stop_after_s, anew=anew))
    return 0


async def _run(
    settings: Settings,
    policy_path: Path,
    mapping_path: Path,
    web_port: int | None,
    *,
    stop_after_s: float | None,
    anew: bool,
) -> None:
    policy = load_policy(policy_path)
    mapping = load_mapping(mapping_path, policy)
    cipher = make_strict_cipher(settings.state_key_bytes, settings.key_bytes)
    store = Store(settings.redis, f"{policy.table}:source", cipher, access_of(settings))
    vitals = SourceVitals(policy.table)
    source = Source(settings, policy, mapping, SourceBook(store, settings.key_bytes), vitals)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, source.stop)
    try:
        async with serving(vitals, settings, web_port):
            await store.connect(settings.connect_s)
            rights = source_rights(policy.table, [table.topic for table in mapping.tables])
            await enter(settings, policy.table, rights, shards=policy.shards)
            await source.run(stop_after_s=stop_after_s, anew=anew)
    except RedisError as error:
        raise explain(error, without_secret(settings.redis), policy.table) from error
    finally:
        await store.close()
