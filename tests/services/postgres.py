"""A private PostgreSQL: a cluster of its own in a temporary directory, reached by a Unix socket
only, never run as root.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import quote

from tests.services.process import ServiceError, end_process, wait_until

_INSTALLED = Path("/usr/lib/postgresql")
_QUICK = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "checkpoint_timeout=1h",
    "max_wal_size=1GB",
    "autovacuum=off",
    "jit=off",
    "track_counts=off",
    "track_activities=off",
    "update_process_title=off",
    "max_parallel_workers_per_gather=0",
    # Tables of tests are small: looking for the best order of joins takes longer than any.
    "join_collapse_limit=1",
    "from_collapse_limit=1",
)

_ROOM_BYTES = 4 << 30


def programs() -> Path | None:
    """Return the directory with PostgreSQL's programs (the newest of Debian's), or None."""
    found = [
        path.parent
        for path in _INSTALLED.glob("*/bin/initdb")
        if (path.parent / "postgres").is_file()
    ]
    if found:
        return max(found, key=lambda path: float(path.parent.name))
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def _quick_place() -> str | None:
    """Return a folder in memory, if there is one with room enough: emptying hundreds of tables
    makes and removes a thousand files.
    """
    memory = Path("/dev/shm")
    try:
        roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > _ROOM_BYTES
    except OSError:
        return None
    return str(memory) if roomy else None


def _owner() -> str | None:
    """Return who runs the server when we are root: an account without rights; None: ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            pwd.getpwnam(name)
            return name
    raise ServiceError(
        "PostgreSQL never runs as root, and there is neither a user 'postgres' nor 'nobody'."
    )


@dataclass
class Postgres:
    """A running private server. ``durable``: as in production (for tests that kill it); else
    quick. ``like``: the files of a server that was stopped, of which it is a copy.
    """

    durable: bool = False
    like: Path | None = None

    def __post_init__(self) -> None:
        found = programs()
        if found is None:
            raise ServiceError("PostgreSQL is not installed: apt-get install postgresql")
        self._bin = found
        self._user = _owner()
        self.directory = Path(
            tempfile.mkdtemp(prefix="labcarbon-pg-", dir=None if self.durable else _quick_place())
        )
        self._process: subprocess.Popen[bytes] | None = None
        if self._user:
            account = pwd.getpwnam(self._user)
            os.chown(self.directory, account.pw_uid, account.pw_gid)
        try:
            self._initialise()
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The address as LABCARBON_DATABASE_URL takes it."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Return the address of one of the server's databases."""
        return f"postgres://labcarbon@{quote(str(self.directory), safe='')}/{database}"

    def _as_owner(self, command: list[str]) -> list[str]:
        if not self._user:
            return (
                ["setpriv", "--pdeathsig", "INT", *command] if shutil.which("setpriv") else command
            )
        group = str(pwd.getpwnam(self._user).pw_gid)
        return [
            "setpriv",
            "--pdeathsig",
            "INT",
            "--reuid",
            self._user,
            "--regid",
            group,
            "--clear-groups",
            *command,
        ]

    def _initialise(self) -> None:
        if self.like:
            subprocess.run(
                ["cp", "--archive", str(self.like), str(self.directory / "data")], check=True
            )
            return
        options = ["-U", "labcarbon", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        made = subprocess.run(
            self._as_owner(
                [str(self._bin / "initdb"), "-D", str(self.directory / "data"), *options]
            ),
            capture_output=True,
            text=True,
            cwd="/",
        )
        if made.returncode:
            raise ServiceError(f"initdb: {made.stderr or made.stdout}")

    def start(self) -> None:
        """Start the server (again) and wait until it answers."""
        options = [
            "listen_addresses=",
            f"unix_socket_directories={self.directory}",
            "max_connections=60",
        ]
        options += ["log_min_messages=warning"] + ([] if self.durable else list(_QUICK))
        flags = [part for option in options for part in ("-c", option)]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._as_owner(
                    [str(self._bin / "postgres"), "-D", str(self.directory / "data"), *flags]
                ),
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        wait_until(self._answers, what="PostgreSQL's first answer")

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise ServiceError((self.directory / "log").read_text(errors="replace")[-2000:])
        ready = [
            str(self._bin / "pg_isready"),
            "-q",
            "-h",
            str(self.directory),
            "-U",
            "labcarbon",
            "-d",
            "postgres",
        ]
        return subprocess.run(ready, cwd="/").returncode == 0

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        assert self._process is not None
        return self._process.pid

    def stop(self, number: int = signal.SIGINT) -> None:
        """Stop the server: SIGINT fast, SIGQUIT as if the power failed."""
        if self._process is not None:
            end_process(self._process, number)

    def close(self) -> None:
        """Stop the server and remove all it kept."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
