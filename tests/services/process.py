"""What the private services have in common: a free port, waiting, an end that is not left to chance."""

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

_names: list[socket.socket] = []  # of our ports
_MIN_PORTS = 1000  # ports to choose from


class ServiceError(Exception):
    """A private service did not come up; the text holds what it said."""


def free_port() -> int:
    """Return a loopback TCP port that is ours until this process ends, whenever a server of ours binds it.

    It lies outside the range from which the kernel gives ports to connections, of which one could take its place while the
    server starts (see ``server_ports``); and the suite's other processes leave it alone, as its name is taken (unix(7),
    abstract sockets: gone with the process, and of one network namespace, as ports are).
    """
    ports = server_ports(*connection_ports())
    for port in random.SystemRandom().sample(ports, len(ports)):
        if _is_free(port) and (name := _reserve_name(port)):
            _names.append(name)
            return port
    raise ServiceError(f"None of {len(ports)} ports is free")


def connection_ports() -> tuple[int, int]:
    """Return the first and the last port that the kernel gives to connections by itself."""
    low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()
    return int(low), int(high)


def server_ports(low: int, high: int) -> list[int]:
    """Return the ports for our servers where connections are given those from ``low`` to ``high``: the ones outside.

    A machine may leave next to none there. Then it is all of them: nothing better can be had, and a connection may be
    quicker than a server.
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
    """Take the port's name among the suite's processes; None if another has it."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0labcarbon-test-port-{port}")
    except OSError:
        name.close()
        return None
    return name


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


def end_with_parent(command: list[str]) -> list[str]:
    """Return ``command`` so started that the kernel ends it when this process ends, however it ends."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM", *command] if setpriv else command


def wait_until(ready: Callable[[], bool], *, what: str, seconds: float = 120.0, every: float = 0.05) -> None:
    """Return once ``ready()`` is true; raise ServiceFailed when it is not in time."""
    end_process = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end_process:
            raise ServiceError(f"{what} did not happen in {seconds:.0f} s")
        time.sleep(every)


def end_process(process: subprocess.Popen[bytes], number: int = signal.SIGTERM, seconds: float = 15.0) -> None:
    """End a process that we started: asked first, killed when it does not listen."""
    if process.poll() is None:
        process.send_signal(number)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(seconds)
