"""What the private services have in common: a free port, waiting, an end that is not left to chance."""

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit


class ServiceFailed(Exception):
    """A private service did not come up; the text holds what it said."""


def free_port() -> int:
    """Return a loopback TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    """Return whether a server of ours answers 200 at ``url``."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=5)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def dies_with_us(command: list[str]) -> list[str]:
    """Return ``command`` so started that the kernel ends it when this process ends, however it ends."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM", *command] if setpriv else command


def wait_until(ready: Callable[[], bool], *, what: str, seconds: float = 30.0, every: float = 0.05) -> None:
    """Return once ``ready()`` is true; raise ServiceFailed when it is not in time."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise ServiceFailed(f"{what} did not happen in {seconds:.0f} s")
        time.sleep(every)


def end(process: subprocess.Popen[bytes], number: int = signal.SIGTERM, seconds: float = 15.0) -> None:
    """End a process that we started: asked first, killed when it does not listen."""
    if process.poll() is None:
        process.send_signal(number)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(seconds)
