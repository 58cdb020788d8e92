"""Helpers of the private services: free ports, waiting, and ending processes."""

import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

_names: list[socket.socket] = []  # sockets whose names reserve the ports
_MIN_PORTS = 1000  # minimum number of ports to choose from


class ServiceError(Exception):
    """A private service did not start. The text contains its output."""


def free_port() -> int:
    """Return a free loopback TCP port that is reserved for this process.

    It is outside of the kernel's range for outgoing connections, which could take it while the
    server starts (see ``server_ports``). Other processes of the suite skip it because its name is
    taken (unix(7), abstract sockets: released with the process, and per network namespace like
    ports).
    """
    ports = server_ports(*connection_ports())
    for port in random.SystemRandom().sample(ports, len(ports)):
        if _is_free(port) and (name := _reserve_name(port)):
            _names.append(name)
            return port
    raise ServiceError(f"None of {len(ports)} ports is free")


def connection_ports() -> tuple[int, int]:
    """Return the first and the last port that the kernel assigns to outgoing connections."""
    low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()
    return int(low), int(high)


def server_ports(low: int, high: int) -> list[int]:
    """Return the ports for servers: those outside of the connection ports ``low`` to ``high``.

    If almost none are outside, all ports are returned. A connection may then take a port before a
    server does.
    """
    outside = [port for port in range(10_000, 65_536) if not low <= port <= high]
    return outside if len(outside) >= _MIN_PORTS else list(range(10_000, 65_536))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _reserve_name(port: int) -> socket.socket | None:
    """Reserve the port's name among processes of the suite. Returns None if it is taken."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0labcarbon-test-port-{port}")
    except OSError:
        name.close()
        return None
    return name


def answers(url: str) -> bool:
    """Return whether a server responds with 200 at ``url``."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=5)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def end_with_parent(command: list[str]) -> list[str]:
    """Return ``command`` so that the kernel ends it when this process ends in any way."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM", *command] if setpriv else command


def wait_until(
    ready: Callable[[], bool], *, what: str, seconds: float = 300.0, every: float = 0.05
) -> None:
    """Return once ``ready()`` is true. Raises ServiceError after a timeout."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise ServiceError(f"{what} did not happen in {seconds:.0f} s")
        time.sleep(every)


def end_process(
    process: subprocess.Popen[bytes], number: int = signal.SIGTERM, seconds: float = 15.0
) -> None:
    """End a process: by a signal, then by SIGKILL after a timeout."""
    if process.poll() is None:
        process.send_signal(number)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(seconds)
