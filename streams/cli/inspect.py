"""`shoal inspect`: shows what is stored of a table, and what a rebuild or an upgrade would do."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from shoal.streams.cli.terminal import quiet_clients


@click.command()
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@click.option("--json", "as_json", is_flag=True, help="Print everything, as JSON.")
def command(policy: Path | None, as_json: bool) -> None:
    """Show a table's formats, releases, sizes, snapshots, and the oldest event that is still needed.

    It changes nothing, and says nothing about people except how many there are.
    """
    from shoal.streams.settings import load_settings
    from shoal.streams.worker.inspect import run_inspect

    quiet_clients()
    settings = load_settings(required=["policy", "key"], policy=None if policy is None else str(policy))
    found = run_inspect(settings)
    click.echo(json.dumps(found, indent=2) if as_json else "\n".join(_lines(found)))


def _lines(found: dict[str, Any]) -> Iterator[str]:
    ours, redis, published = found["shoal"], found["redis"], found["published"]
    formats = ", ".join(f"{name} {number}" for name, number in ours["formats"].items())
    yield f"table       {found['table']}"
    yield f"shoal       {ours['version']}, engine {ours['engine']}; formats: {formats}"
    yield f"policy      {ours['policy']}"
    ring = ", ".join(ours["state_keys"]) or "not set"
    yield f"keys        SHOAL_KEY {ours['key']}, SHOAL_STATE_KEY {ring} (fingerprints)"
    yield f"redis       {_redis(redis)}"
    if redis is not None:
        yield f"            {', '.join(f'{count:,} {name}' for name, count in redis['records'].items() if count)}"
        yield from _differences(ours, redis)
    for one in found.get("shards", ()):
        held = ", ".join(f"{count:,} {name}" for name, count in one["records"].items() if count)
        yield f"shard {one['shard']:<6}{one['state']}; {held or 'nothing yet'}"
    yield f"published   {_published(published)}"
    if published is not None and "note" in published:
        yield f"            {published['note']}"
    for name, places in found["topics"].items():
        held = sum(places["ends"]) - sum(places["begins"])
        needed = found["needed"].get(name)
        free = "" if needed is None else f"; needed from {_offsets(needed)} on"
        yield f"topic       {name}: {held:,} offsets in {len(places['ends']):,} partitions{free}"
    for one in found["snapshots"]:
        where = f" in {len(one['shards'])} shards" if "shards" in one else ""
        said = one.get("unusable") or f"{one['people']:,} people{where}, taken {_time(one['taken'])}"
        yield f"snapshot    release {one['release']}, {one['bytes']:,} bytes, {one['path']}: {said}"
    if not found["snapshots"]:
        yield "snapshot    none in the policy's folder"
    yield f"rebuild     {found['rebuild']}"
    yield f"upgrade     {found['upgrade']}"


def _redis(redis: dict[str, Any] | None) -> str:
    if redis is None:
        return "knows nothing of the table"
    at = f"release {redis['release']} sealed, {redis['sent']} sent, {redis['applied']} applied"
    return f"{at}; format {redis['format']}, engine {redis['engine']}, {redis['partitions']} partitions"


def _differences(ours: dict[str, Any], redis: dict[str, Any]) -> Iterator[str]:
    for name, words in (("policy", "policy"), ("key", "SHOAL_KEY")):
        if redis[name] != ours[name]:
            yield f"            begun under another {words}: {redis[name]}"
    if not redis["state_keys"] and ours["state_keys"]:
        yield "            not encrypted: `shoal rekey` encrypts it"
    for fingerprint in redis["state_keys"]:
        if fingerprint not in ours["state_keys"]:
            yield f"            encrypted under a key that SHOAL_STATE_KEY does not have: {fingerprint}"


def _published(published: dict[str, Any] | None) -> str:
    if published is None:
        return "nothing yet"
    return f"release {published['release']}, {published['people']:,} people, by engine {published['engine']}"


def _offsets(needed: list[int]) -> str:
    return ", ".join(map(str, needed))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
