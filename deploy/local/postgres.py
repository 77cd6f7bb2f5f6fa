"""A real PostgreSQL that Debezium can follow: its log says enough to read changes from it (`wal_level = logical`)."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

from deploy.local.package import install_package
from deploy.local.service import Service, Unavailable

USER, DATABASE = "postgres", "postgres"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "4",
    "max_replication_slots": "4",
    "max_connections": "20",
    "shared_buffers": "16MB",
    "log_min_messages": "warning",
}


class Postgres(Service):
    """`address` is a URL that psql takes. It lets everybody on this machine in: it is for trials and tests."""

    name = "postgres"
    ready_within_s = 60.0

    @property
    def address(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{DATABASE}"

    def prepare(self) -> list[str]:
        programs = programs_folder()
        cluster = self.folder / "data"
        if os.geteuid() == 0:  # which PostgreSQL refuses to run as
            _give_away(self.folder)
        if not (cluster / "PG_VERSION").exists():
            command = [str(programs / "initdb"), "-D", str(cluster), "-U", USER, "-A", "trust", "-E", "UTF8", "-N"]
            done = subprocess.run(
                [*_as_other_user(), *command, "--no-locale"],
                capture_output=True,
                text=True,
                check=False,
                cwd=self.folder,
            )
            if done.returncode != 0:
                raise Unavailable(f"PostgreSQL could not make its data folder: {done.stderr.strip()[-300:]}")
        options = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        return [*_as_other_user(), str(programs / "postgres"), "-D", str(cluster), "-p", str(self.port), *options]

    def is_ready(self) -> bool:
        command = [str(programs_folder() / "pg_isready"), "-q", "-d", self.address]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def run(self, sql: str) -> str:
        """Run statements, each by itself, and return what the last ones answer, a line per row. Raises RuntimeError."""
        command = [str(programs_folder() / "psql"), "-d", self.address, "-q", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run(command, input=sql, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return done.stdout


def programs_folder() -> Path:
    """Where PostgreSQL's programs are; Debian keeps its servers off PATH. Raises Unavailable."""
    found = _find_programs()
    if found is None:
        install_package("postgresql")
        found = _find_programs()
    if found is None:
        raise Unavailable("PostgreSQL is not installed (package `postgresql`)")
    return found


def _find_programs() -> Path | None:
    known = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    path = shutil.which("postgres")
    if known:
        return known[-1].parent
    return None if path is None else Path(path).resolve().parent


def _as_other_user() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]


def _give_away(folder: Path) -> None:
    try:
        owner = pwd.getpwnam(USER)
    except KeyError:
        raise Unavailable(f"PostgreSQL does not run as root, and there is no user {USER}") from None
    os.chown(folder, owner.pw_uid, owner.pw_gid)
