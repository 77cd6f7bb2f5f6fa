"""A real PostgreSQL server for the tests, from the system's package, with throw-away data.

PostgreSQL refuses to run as root, so root starts it as another user. Its write-ahead log is a logical one: change data
capture reads that. Data is not synced to the disk: what a test kills is a client, or the server, never the machine.
"""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

from deploy.local.service import Service, Unavailable

_INSTALLED = Path("/usr/lib/postgresql")
_SETTINGS = ("listen_addresses=127.0.0.1", "wal_level=logical", "fsync=off", "unix_socket_directories=")
_USERS = ("postgres", "nobody")


class Postgres(Service):
    """`address` names the database `postgres`, for a superuser without a password."""

    name = "postgres"

    @property
    def address(self) -> str:
        return f"postgresql://shoal@127.0.0.1:{self.port}/postgres"

    def prepare(self) -> list[str]:
        programs, data = _programs(), self.folder / "data"
        as_user = _as_user(self.folder)
        if not data.exists():
            make = [str(programs / "initdb"), "--auth=trust", "--username=shoal", "--encoding=UTF8", "--no-sync"]
            made = subprocess.run([*as_user, *make, str(data)], capture_output=True, text=True, cwd=self.folder)
            if made.returncode:
                raise Unavailable(f"initdb failed: {made.stderr.strip()}")
        options = [word for setting in _SETTINGS for word in ("-c", setting)]
        return [*as_user, str(programs / "postgres"), "-D", str(data), "-p", str(self.port), *options]

    def is_ready(self) -> bool:
        asked = [str(_programs() / "pg_isready"), "--quiet", "--host=127.0.0.1", f"--port={self.port}"]
        return subprocess.run(asked).returncode == 0


def _programs() -> Path:
    """The folder with the server's programs. Debian keeps them off PATH, by version."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    versions = sorted(_INSTALLED.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not versions:
        raise Unavailable("PostgreSQL needs the programs initdb and postgres (package `postgresql`)")
    return versions[-1].parent


def _as_user(folder: Path) -> list[str]:
    """What a command begins with, so that it does not run as root; the folder becomes that user's."""
    if os.geteuid() != 0:
        return []
    users = {user.pw_name: user for user in pwd.getpwall()}
    user = next((users[name] for name in _USERS if name in users), None)
    if user is None:
        raise Unavailable("PostgreSQL does not run as root, and there is no user `postgres` or `nobody` to run it as")
    shutil.chown(folder, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
