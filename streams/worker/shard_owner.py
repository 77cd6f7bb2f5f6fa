"""One shard in the memory of the worker that owns it: its part in steps 3, 4, 7 and 9 of a release.

Everything is decided from what Redis says (`Course`): `advance` looks at it and does the one thing that is this shard's
to do next, if there is one. So an owner that has just begun goes on wherever the one before it stopped. The state in
memory is that of the last release that is applied; the plan of the next one is kept until that is applied, too. Both can
be had again: the state from Redis, the plan from the state and what the desks have written.
"""

import asyncio
import json
import time
from typing import Final, NamedTuple

from shoal.core.policy.policy import Policy
from shoal.core.randomness import KeyedByHandle
from shoal.core.shards.cuts import Cuts
from shoal.core.shards.desk import gather
from shoal.core.shards.part import PartPlan, plan_part
from shoal.core.state import State
from shoal.streams.errors import GuaranteeError
from shoal.streams.faults import crash_point
from shoal.streams.kafka.manifest import Origin
from shoal.streams.kafka.part_publisher import PartPublisher
from shoal.streams.kafka.sealed import last_announced
from shoal.streams.kafka.topics import Topics
from shoal.streams.log import get_log
from shoal.streams.settings import Settings
from shoal.streams.store.coordination import ShardRecords, read_shard_records
from shoal.streams.store.course import Course
from shoal.streams.store.keys import shard_label
from shoal.streams.store.moves import (
    MissingError,
    pack_moves,
    pack_strays,
    read_bucket,
    read_everybody,
    read_histories,
    read_moves,
    read_residents,
    read_strays,
)
from shoal.streams.store.records import meta_of
from shoal.streams.store.release_log import DisturbedError
from shoal.streams.store.shard_log import ShardLog
from shoal.streams.store.shard_table import counts_after, load_shard, shard_chunks
from shoal.streams.store.skipped import read_skipped
from shoal.streams.store.store import Store
from shoal.streams.thread import in_thread
