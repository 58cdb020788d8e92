"""A private Redis: loopback, a port and a password of its own, nothing on disk."""

import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from tests.services.process import ServiceError, end_process, end_with_parent, free_port, wait_until


def program() -> str | None:
    """Return Debian's redis-server, or None."""
    return shutil.which("redis-server")


class Redis:
    """A running private server. It can be killed and started again at the same address."""

    def __init__(self) -> None:
        found = program()
        if found is None:
            raise ServiceError("Redis is not installed: apt-get install redis-server")
        self._program = found
        self.port = free_port()
        self._password = secrets.token_hex(16)
        self._directory = Path(tempfile.mkdtemp(prefix="labcarbon-redis-"))
        self.url = f"redis://:{self._password}@127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        """Start the server (again) and wait until it answers."""
        settings = self._directory / "redis.conf"
        settings.write_text(
            f'port {self.port}\nbind 127.0.0.1\nrequirepass {self._password}\nsave ""\nappendonly '
            "no\n"
            f"dir {self._directory}\nloglevel warning\n",
            encoding="ascii",
        )
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                end_with_parent([self._program, str(settings)]), stdout=log, stderr=log
            )
        wait_until(self._answers, what="Redis's first answer")

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise ServiceError((self._directory / "log").read_text(errors="replace")[-2000:])
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False

    def kill(self) -> None:
        """End the server as a crash does; all it held is gone."""
        end_process(self._process, signal.SIGKILL)

    def close(self) -> None:
        """Stop the server and remove all it kept."""
        end_process(self._process)
        shutil.rmtree(self._directory, ignore_errors=True)
