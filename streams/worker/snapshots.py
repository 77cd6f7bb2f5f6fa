"""The snapshots that the policy wants, written beside the planner's work.

A snapshot is due when there have been `every_releases` releases since the newest one in the folder, so that a planner
that takes over knows as much as its predecessor. It is taken from Redis, as `shoal snapshot` takes one, and no release
waits for it. One that fails is logged and counted, and tried again after the next release; nothing else follows from
it.
"""

import asyncio
from pathlib import Path
from typing import Final

from shoal.core.policy.policy import Policy, Snapshots
from shoal.streams.faults import crash_point
from shoal.streams.log import get_log
from shoal.streams.prometheus import SNAPSHOTS
from shoal.streams.settings import Settings
from shoal.streams.snapshot.folder import drop_old, listed, make_folder, policy_folder
from shoal.streams.snapshot.take import take_snapshot
from shoal.streams.store.store import Store
from shoal.streams.worker.coordinator import Coordinator

_TICK_S: Final = 0.25


async def keep_snapshots(settings: Settings, policy: Policy, store: Store, maker: Coordinator) -> None:
    """Run until cancelled; returns at once if the policy wants no snapshots."""
    folder = policy_folder(settings, policy)
    if policy.snapshot is None or folder is None:
        return
    looked_at = 0
    while True:
        await asyncio.sleep(_TICK_S)
        if maker.is_planning or maker.release == looked_at:
            continue
        looked_at = maker.release
        try:
            maker.standing.snapshot = await _keep(settings, policy.snapshot, store, folder, looked_at)
        except Exception as error:  # noqa: BLE001 - whatever it is, releases go on
            SNAPSHOTS.labels("failed").inc()
            get_log(table=policy.table).warning("snapshot.failed", release=looked_at, error=type(error).__name__)


async def _keep(settings: Settings, wanted: Snapshots, store: Store, folder: Path, release: int) -> int:
    """Write a snapshot if one is due, and delete old ones; returns the release of the newest."""
    make_folder(folder)
    newest = next((one.release for one in listed(folder, store.table) if one.release <= release), 0)
    if release - newest < wanted.every_releases:
        return newest
    taken = await take_snapshot(store, settings, folder)
    drop_old(folder, store.table, taken.release, wanted.keep)
    crash_point("snapshot.6")
    SNAPSHOTS.labels("written").inc()
    get_log(table=store.table).info("snapshot.written", release=taken.release, bytes=taken.bytes, seconds=taken.seconds)
    return taken.release
