"""A real PostgreSQL that Debezium can follow: its log says enough to read changes from it (`wal_level = logical`).

PostgreSQL refuses to run as root, so root starts it as another user.
"""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

from deploy.local.package import how_to_get, install_package
from deploy.local.service import Service, Unavailable

USER, DATABASE = "postgres", "postgres"
_INSTALLED = Path("/usr/lib/postgresql")
_SETTINGS = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "wal_level=logical", "shared_buffers=16MB")
_USERS = ("postgres", "nobody")


class Postgres(Service):
    """`address` names the database `postgres`, for a superuser without a password: it is for trials and tests.

    Data that is thrown away with this process is not synced to the disk.
    """

    name = "postgres"

    @property
    def address(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{DATABASE}"

    def prepare(self) -> list[str]:
        programs, data = programs_folder(), self.folder / "data"
        as_user = _as_user(self.folder)
        if not (data / "PG_VERSION").exists():
            make = [str(programs / "initdb"), "--auth=trust", f"--username={USER}", "--encoding=UTF8", "--no-sync"]
            made = subprocess.run(
                [*as_user, *make, str(data)], capture_output=True, text=True, cwd=self.folder, check=False
            )
            if made.returncode:
                raise Unavailable(f"initdb failed: {made.stderr.strip()}")
        settings = (*_SETTINGS, f"fsync={'off' if self._watched else 'on'}")
        options = [word for setting in settings for word in ("-c", setting)]
        return [*as_user, str(programs / "postgres"), "-D", str(data), "-p", str(self.port), *options]

    def is_ready(self) -> bool:
        asked = [str(programs_folder() / "pg_isready"), "--quiet", "--host=127.0.0.1", f"--port={self.port}"]
        return subprocess.run(asked, check=False).returncode == 0

    def run_file(self, path: Path) -> None:
        """Run the statements in a file. Raises Unavailable."""
        command = [str(programs_folder() / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(path), self.address]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"psql failed: {done.stderr.strip()}")


def programs_folder() -> Path:
    """The folder with the server's programs, from Debian's package, which root is asked to install if it is missing."""
    found = _find_programs()
    if found is None:
        install_package("postgresql")
        found = _find_programs()
    if found is None:
        raise Unavailable(f"PostgreSQL needs the programs initdb and postgres: {how_to_get('postgresql')}")
    return found


def _find_programs() -> Path | None:
    """Debian keeps them off PATH, by version."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    versions = sorted(_INSTALLED.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


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
