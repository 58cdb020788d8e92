"""Ports for the private servers of tests: nobody else gets one, however long its server takes to
start.
"""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.process import connection_ports, free_port, server_ports

ROOT = Path(__file__).resolve().parent.parent
ASKED = 40
_ASK = (
    "from tests.services.process import free_port; print(*(free_port() for _ in "
    f"range({ASKED})), flush=True); input()"
)


def test_concurrent_processes_get_different_ports() -> None:
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
    low, high = connection_ports()
    assert {free_port() for _ in range(ASKED)} <= set(server_ports(low, high))
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as connection,
    ):
        assert low <= connection.getsockname()[1] <= high


@pytest.mark.parametrize(
    ("low", "high"), [(32_768, 60_999), (1024, 64_535), (11_000, 65_535), (40_000, 40_000)]
)
def test_servers_get_ports_that_no_connection_is_given(low: int, high: int) -> None:
    ports = server_ports(low, high)
    assert len(ports) >= 1000
    assert not [port for port in ports if low <= port <= high]


@pytest.mark.parametrize(("low", "high"), [(1024, 65_535), (1024, 64_536), (10_999, 65_535)])
def test_where_connections_are_given_nearly_all_ports_servers_choose_among_all(
    low: int, high: int
) -> None:
    assert server_ports(low, high) == list(range(10_000, 65_536))
