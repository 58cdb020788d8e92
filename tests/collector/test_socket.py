"""The local socket: requests, invalid input, permission to register."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.errors import RequestError
from labcarbon_collect.ipc.client import Client, DaemonUnavailable
from labcarbon_collect.ipc.server import MAX_LINE_BYTES, SocketServer
from labcarbon_collect.pseudonyms import current_user_name

from tests.collector.collector_process import Collector
from tests.collector.real_users import ALICE, unprivileged


def echo(request: Any, uid: int) -> dict[str, Any]:
    if request.get("op") == "deny":
        raise RequestError("no", "not so", "like this")
    return {"got": request.get("op"), "uid": uid}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[SocketServer]:
    server = SocketServer(tmp_path / "c.sock", echo)
    yield server
    server.close()
    assert not (tmp_path / "c.sock").exists()


def talk(served: SocketServer, content: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(served.path))
        caller.setblocking(False)
        for start in range(0, len(content), 50_000):
            try:
                caller.send(content[start : start + 50_000])
            except (BlockingIOError, BrokenPipeError):
                break
            served.serve(0.01)
        served.serve(0.02)
        try:
            return caller.recv(100_000)
        except (BlockingIOError, ConnectionResetError):
            return b""


def test_requests_are_answered_in_order_with_the_uid_of_the_kernel(served: SocketServer) -> None:
    responses = [
        json.loads(line) for line in talk(served, b'{"op":"a"}\n{"op":"b"}\n').splitlines()
    ]
    assert responses == [{"got": "a", "uid": os.geteuid()}, {"got": "b", "uid": os.geteuid()}]
    assert served.path.stat().st_mode & 0o777 == 0o666


NONSENSE = [
    b"nonsense\n",
    b"[1]\n",
    b'{"op":\n',
    b"\xff\xfe\n",
    b"[" * 50_000 + b"\n",
    b'{"op":"deny"}\n',
]


@pytest.mark.parametrize("line", NONSENSE)
def test_invalid_request_gets_the_error_shape(served: SocketServer, line: bytes) -> None:
    error = json.loads(talk(served, line))["error"]
    assert set(error) == {"code", "message", "field", "hint"}


def test_an_endless_line_is_cut_off(served: SocketServer) -> None:
    assert talk(served, b"x" * (MAX_LINE_BYTES * 4)) == b""
    assert json.loads(talk(served, b'{"op":"still here"}\n'))["got"] == "still here"


def test_a_file_in_the_way_is_not_removed(tmp_path: Path) -> None:
    from labcarbon_collect.node_identity import ConfigurationError

    (tmp_path / "c.sock").write_text("mine")
    with pytest.raises(ConfigurationError, match="is no socket"):
        SocketServer(tmp_path / "c.sock", echo)
    assert (tmp_path / "c.sock").read_text() == "mine"


def test_registration_is_for_own_running_processes(node: Collector) -> None:
    node.start()
    run, child = (
        str(uuid.uuid4()),
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE),
    )
    try:
        registered = node.request({"op": "register", "run": run, "pid": child.pid})
        assert registered == {
            "ok": True,
            "node": (node.status() or {})["node"],
            "url": "",
            "lab": "",
            "user": current_user_name(),
            "pid": node.daemon.pid if node.daemon else None,
            "data": str(node.root / "data"),
        }
        response = node.request({"op": "end", "run": run, "children_cpu_us": 0})
        assert response is not None
        assert {"energy_mj", "provisional", "by_device", "idle_mj", "grams", "factor"} <= set(
            response
        )
        for bad in (
            {"op": "register", "run": "x", "pid": child.pid},
            {"op": "register", "run": run, "pid": 2**22 + 5},
            {"op": "register", "run": run, "pid": True},
            {"op": "register", "run": run},
            {"op": "end", "run": run},
            {"op": "end", "run": str(uuid.uuid4())},
            {"op": "fly"},
            {},
        ):
            assert "error" in (node.request(bad) or {}), bad
    finally:
        child.communicate(b"\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users: run as root")
def test_another_users_process_cannot_be_registered(tmp_path: Path) -> None:
    node = Collector(tmp_path)
    node.start()
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    request = json.dumps({"op": "register", "run": str(uuid.uuid4()), "pid": os.getpid()})
    script = (
        "import os, socket, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); s = "
        "socket.socket(socket.AF_UNIX); "
        "s.connect(sys.argv[1]); s.sendall(sys.argv[2].encode() + b'\\n'); "
        "print(s.recv(9999).decode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(node.socket), request],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert json.loads(done.stdout)["error"]["code"] == "not_yours"
    node.stop()


def test_a_client_does_not_wait_for_a_daemon_that_does_not_answer(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen(1)
    client = Client([tmp_path / "absent", tmp_path / "s"], timeout_s=0.2)
    started_s = time.monotonic()
    with pytest.raises(DaemonUnavailable):
        client.call({"op": "status"}, timeout_s=0.2)
    assert time.monotonic() - started_s < 10
    client.close()
    listener.close()


def _denied(report: Any, wait: Any, path: Path) -> None:
    try:
        Client([path.parent / "absent", path], timeout_s=1)
    except DaemonUnavailable as error:
        report(type(error).__name__, error)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
@pytest.mark.parametrize(("folder_mode", "socket_mode"), [(0o755, 0o600), (0o700, 0o666)])
def test_a_denied_socket_is_not_reported_as_a_missing_daemon(
    tmp_path: Path, folder_mode: int, socket_mode: int
) -> None:
    for folder in tmp_path.parents:
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    tmp_path.chmod(folder_mode)
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        path.chmod(socket_mode)
        with unprivileged(ALICE, _denied, path) as fork:
            line = fork.reports.readline()
    assert line.startswith("SocketDenied permission denied")
    assert str(path) in line
    assert "no daemon answers" not in line
