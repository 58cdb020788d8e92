"""Ports for the private servers of tests: nobody else gets one, however long its server takes to start."""

import socket
import subprocess
import sys
from pathlib import Path

from tests.services.process import free_port

ROOT = Path(__file__).resolve().parent.parent
ASKED = 40
_ASK = f"from tests.services.process import free_port; print(*(free_port() for _ in range({ASKED})), flush=True); input()"


def test_processes_that_ask_at_once_get_ports_of_their_own() -> None:
    """Nothing listens on any of them yet."""
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    started = [subprocess.Popen([sys.executable, "-c", _ASK], **piped) for _ in range(4)]
    ports = []
    for process in started:
        assert process.stdout is not None
        ports += process.stdout.readline().split()
    for process in started:
        process.communicate("\n", timeout=30)
    assert len(set(ports)) == len(ports) == 4 * ASKED


def test_no_connection_is_given_the_port_of_a_server_that_is_still_starting() -> None:
    """The kernel chooses the connections' own ports within the range it names."""
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split())
    ports = [free_port() for _ in range(ASKED)]
    assert not [port for port in ports if low <= port <= high]
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        assert low <= connection.getsockname()[1] <= high
