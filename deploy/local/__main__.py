"""`python -m deploy.local [run|up|up-cdc|down]`: a Kafka and a Redis for trying Shoal out on this machine.

run     both, with throw-away data, until Ctrl-C
up      both in the background, with their data kept in .local/, on 9092 and 6379 if those are free
up-cdc  the same and a PostgreSQL, which has the tables of examples/hospital, and a Debezium that follows it
down    stop what was started; the data stays until .local/ is removed

Each prints the addresses as settings that Shoal reads, `up-cdc` the database's as HOSPITAL. `up` and `up-cdc` leave
them in .local/env too.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from deploy.local import Kafka, Local, Redis, Service, Unavailable, local_services
from deploy.local.connect import Connect, debezium, to_json
from deploy.local.package import how_to_get, missing
from deploy.local.ports import free_port
from deploy.local.postgres import Postgres, programs_folder

_ROOT = Path(__file__).resolve().parents[2]
_FOLDER = _ROOT / ".local"
_HOSPITAL = _ROOT / "examples" / "hospital"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.local", description="A real Kafka and a real Redis on this machine."
    )
    parser.add_argument("command", nargs="?", choices=("run", "up", "up-cdc", "down"), default="run")
    parser.add_argument(
        "--folder", type=Path, default=_FOLDER, help="where `up` keeps data and pids (default: %(default)s)"
    )
    chosen = parser.parse_args(arguments)
    try:
        return {"run": _run, "up": _up, "up-cdc": _up_cdc, "down": _down}[chosen.command](chosen.folder.resolve())
    except Unavailable as reason:
        print(reason, file=sys.stderr)
        return 3


def _run(_folder: Path) -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with local_services() as local:
            print("\n".join(_lines(local)), flush=True)
            print(
                f"Kafka {local.kafka.started_in_s:.1f} s, Redis {local.redis.started_in_s:.1f} s; Ctrl-C stops both",
                file=sys.stderr,
            )
            signal.pause()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    return 0


def _up(folder: Path) -> int:
    return _start(folder, [])


def _up_cdc(folder: Path) -> int:
    lacking = missing({"java": "default-jre-headless", "mvn": "maven"})
    if lacking:  # all of them at once, and not one at each attempt
        raise Unavailable(f"up-cdc needs programs that are not here; {how_to_get(' '.join(lacking))}")
    programs_folder()
    return _start(folder, [Postgres(folder / "postgres", free_port(5432), watched=False)])


def _start(folder: Path, servers: list[Postgres]) -> int:
    """Start everything in the background. A connector follows the hospital of each server."""
    pids = folder / "pids.json"
    if any(_is_ours(pid, folder) for pid in _read(pids).values()):
        print("already up", file=sys.stderr)
        print((folder / "env").read_text(), end="")
        return 0
    local = Local(
        Kafka(folder / "kafka", free_port(9092), watched=False), Redis(folder / "redis", free_port(6379), watched=False)
    )
    services: list[Service] = [*local, *servers]
    lines = _lines(local)
    try:
        for service in services:
            service.start()
        for server in servers:
            server.run_file(_HOSPITAL / "schema.sql")
            services.append(_follow(server, local, folder).start())
            lines.append(f"HOSPITAL={server.address}")
    except BaseException:
        for service in reversed(services):
            service.stop()
        raise
    pids.write_text(json.dumps({service.name: service.pid for service in services}))
    (folder / "env").write_text("".join(f"{line}\n" for line in lines))
    print("\n".join(lines), flush=True)
    return 0


def _follow(server: Postgres, local: Local, folder: Path) -> Connect:
    settings = debezium("hospital", server.address, "public.patient,public.condition")
    where = folder / "connect"
    converter = to_json(schemas=False)
    return Connect(where, local.kafka.address, settings, free_port(8083), watched=False, converter=converter)


def _down(folder: Path) -> int:
    pids = folder / "pids.json"
    running = {name: pid for name, pid in _read(pids).items() if _is_ours(pid, folder)}
    for pid in running.values():
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 15
    while any(_is_ours(pid, folder) for pid in running.values()):
        if time.monotonic() > deadline:
            for pid in running.values():
                if _is_ours(pid, folder):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    pids.unlink(missing_ok=True)
    (folder / "env").unlink(missing_ok=True)
    print(f"stopped {' and '.join(running)}" if running else "nothing was up", file=sys.stderr)
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _lines(local: Local) -> list[str]:
    return [f"SHOAL_KAFKA={local.kafka.address}", f"SHOAL_REDIS={local.redis.address}"]


def _read(pids: Path) -> dict[str, int]:
    try:
        return dict(json.loads(pids.read_text()))
    except (OSError, ValueError):
        return {}


def _is_ours(pid: int, folder: Path) -> bool:
    """Whether a process is one that `up` started: it works in our folder. Its pid may belong to another one by now."""
    try:
        return Path(f"/proc/{pid}/cwd").resolve(strict=True).is_relative_to(folder)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
