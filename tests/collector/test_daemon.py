"""The daemon as a process: kills, a second daemon, a token that comes late, damage, the socket's rules."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.client import Client, NoDaemon
from labcarbon_collect.lock import AlreadyRunning, take_machine
from labcarbon_collect.registry import Denied
from labcarbon_collect.socket_server import MAX_LINE_BYTES, SocketServer
from labcarbon_collect.sources.base import ProcessUse
from labcarbon_collect.sources.replay import Replay, TraceWriter
from labcarbon_collect.spool import Spool
from labcarbon_collect.users import own_name

from tests.collector.processes import Collector, wait_for
from tests.collector.readings import GPU, SECOND, T0, check, reading
from tests.fakes import labcarbon_server as fakes


@pytest.fixture
def server() -> Iterator[fakes.FakeServer]:
    with fakes.running() as fake:
        yield fake


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Collector]:
    made = Collector(tmp_path)
    yield made
    if made.daemon is not None and made.daemon.poll() is None:
        made.stop(signal.SIGKILL)


def enrol(node: Collector, server: fakes.FakeServer) -> None:
    assert node.call("enrol", server.url, input="code\n").returncode == 0


def trace(path: Path, *, seconds: int, seed: int) -> list[int]:
    """A GPU whose counter grows unevenly ten times a second; returns the counter by tenth of a second."""
    dice, counter, counters = random.Random(seed), 1_000_000, []
    with path.open("w") as out:
        writer = TraceWriter(out)
        for tenth in range(seconds * 10):
            writer.write(reading(tenth / 10, counter, processes=(ProcessUse(4_000_000),)))
            counters.append(counter)
            counter += dice.randrange(0, 70_000)
    return counters


def test_fifteen_kills_lose_nothing_and_count_nothing_twice(
    node: Collector, server: fakes.FakeServer, tmp_path: Path
) -> None:
    seed = 20261121
    dice = random.Random(seed)
    counters = trace(tmp_path / "trace.jsonl", seconds=600, seed=seed)
    node.settings.update(
        LABCARBON_SOURCES="replay", LABCARBON_REPLAY=str(tmp_path / "trace.jsonl"),
        LABCARBON_REPLAY_START_US=str(time.time_ns() // 1000),
    )  # fmt: skip
    node.start()
    node.stop(signal.SIGKILL)
    spool = Spool(node.home)
    begun = min([spool.anchors()[GPU].counter_mj, *(window.counter_start_mj for window in spool.windows())])
    spool.close()
    enrol(node, server)
    for _ in range(15):
        server.faults = dice.sample([fakes.hangs_up, fakes.stores_then_hangs_up, fakes.cuts_the_reply, fakes.says(503)], 2)
        node.start(until_ready=False)
        time.sleep(dice.uniform(0.05, 0.9))
        node.stop(signal.SIGKILL)
    server.faults = []
    node.start()
    assert node.stop() == 0
    spool = Spool(node.home)
    last = spool.anchors()[GPU].counter_mj
    waiting = list(spool.windows())
    check(waiting)
    answered_mj = sum(mj for _, mj in spool.tally().values())
    spool.close()
    assert answered_mj + sum(w.energy_mj for w in waiting) == last - begun > 0, f"seed {seed}"
    # What the server holds, plus what still waits and it does not hold, is the counter's difference as well.
    held = set(server.windows)
    missing = sum(w.energy_mj for w in waiting if (w.device, w.epoch, w.seq) not in held)
    assert server.stored_mj + missing == last - begun, f"seed {seed}"
    assert {begun, last} <= set(counters)


def test_a_second_daemon_on_the_node_refuses_to_start(node: Collector, tmp_path: Path) -> None:
    node.start()
    second = Collector(node.root, {"LABCARBON_SOCKET": str(tmp_path / "other.sock")}, node_id=node.node_id)
    done = second.call("daemon")
    assert done.returncode == 1
    assert "another labcarbon-collect daemon" in done.stderr
    assert "labcarbon-collect status" in done.stderr


def test_a_second_daemon_on_the_machine_refuses_whatever_its_folder(node: Collector) -> None:
    with ExitStack() as held:
        with suppress(AlreadyRunning):  # a daemon of this very machine may hold it: as good
            held.enter_context(take_machine())
        done = Collector(node.root, {"LABCARBON_NODE_ID": ""}).call("daemon")
    assert done.returncode == 1
    assert "measures this machine already, from another data folder" in done.stderr
    assert "labcarbon-collect status" in done.stderr


def test_a_socket_in_use_is_not_taken(node: Collector, tmp_path: Path) -> None:
    node.start()
    other = Collector(node.root, {"LABCARBON_NODE_ID": str(uuid.uuid4()), "LABCARBON_DATA": str(tmp_path / "d2")})
    done = other.call("daemon")
    assert done.returncode == 1
    assert "LABCARBON_SOCKET" in done.stderr
    assert node.status()


def test_it_starts_unenrolled_and_pushes_once_the_token_is_there(node: Collector, server: fakes.FakeServer) -> None:
    process = node.start()
    status = node.status()
    assert status is not None
    assert (status["enrolled"], status["push"]["ok"]) == (False, False)
    assert "labcarbon-collect enrol URL" in status["push"]["error"]
    enrol(node, server)
    wait_for(lambda: (node.status() or {}).get("enrolled"))
    wait_for(lambda: server.stored_mj)
    assert node.stop() == 0
    assert process.returncode == 0
    spool = Spool(node.home)
    assert spool.depth().rows == 0
    assert server.stored_mj == sum(mj for _, mj in spool.tally().values()) > 0
    spool.close()
    batch = server.sent("POST", "ingest/")[0].body
    assert batch["node"] == status["node"]
    assert batch["device_facts"][batch["devices"][0]]["threads"]
    assert {"source", "spool"} <= set(batch["health"])


def test_a_damaged_spool_is_set_aside_and_measuring_goes_on(node: Collector) -> None:
    node.start()
    node.stop()
    path = node.home / "spool.db"
    content = bytearray(path.read_bytes())
    content[4096 : 4096 * 4] = os.urandom(4096 * 3)
    path.write_bytes(bytes(content))
    node.start()
    status = node.status()
    assert status is not None
    assert "set aside" in " ".join(status["notes"])
    assert list(node.home.glob("spool.db.damaged-*"))
    assert status["sources"]["cpu_model"]["state"] == "measuring"


@pytest.mark.parametrize("lost", ["deleted", "of nought bytes"])
def test_a_spool_that_is_gone_costs_no_energy(node: Collector, lost: str) -> None:
    node.start()
    node.stop()
    spool = Spool(node.home)
    windows = list(spool.windows())
    spool.close()
    for path in node.home.glob("spool.db*"):
        path.unlink() if lost == "deleted" else path.write_bytes(b"")
    node.start()
    assert "go on from their counters" in " ".join((node.status() or {})["notes"])
    node.stop()
    spool = Spool(node.home)
    again = list(spool.windows())
    spool.close()
    check(again)
    assert again[0].counter_start_mj == windows[0].counter_start_mj
    assert {w.epoch for w in again}.isdisjoint({w.epoch for w in windows})


@pytest.mark.parametrize("unsafe", ["writable", "link", "token"])
def test_unsafe_folders_and_tokens_are_refused_with_the_command_that_mends_them(
    node: Collector, server: fakes.FakeServer, unsafe: str
) -> None:
    enrol(node, server)
    if unsafe == "writable":
        node.home.chmod(0o777)
        expected = f"chmod 700 {node.home}"
    elif unsafe == "link":
        shutil.move(node.home, node.root / "real")
        node.home.symlink_to(node.root / "real")
        expected = "symbolic link"
    else:
        (node.home / "node-token").chmod(0o644)
        expected = "chmod 600"
    if unsafe == "token":
        node.start()
        assert expected in wait_for(lambda: (node.status() or {}).get("push", {}).get("error"))
        assert server.sent("POST", "ingest/") == []
    else:
        done = node.call("daemon")
        assert done.returncode == 1
        assert expected in done.stderr
    assert expected in node.call("doctor").stdout


def test_a_cloned_disk_is_a_new_node(tmp_path: Path) -> None:
    from labcarbon_collect.identity import node_identity

    first = node_identity(tmp_path, {}, machine="aaa")
    (tmp_path / "node-token").write_text("secret")
    assert node_identity(tmp_path, {}, machine="aaa") == first
    clone = node_identity(tmp_path, {}, machine="bbb")
    assert clone.uuid != first.uuid
    assert "node-token" in clone.set_aside
    assert not (tmp_path / "node-token").exists()
    assert (tmp_path / f"of-{first.uuid}" / "node-token").exists()


def test_status_and_doctor_read_well_and_as_json(node: Collector) -> None:
    node.start()
    assert "not enrolled" in node.call("status").stdout
    status = json.loads(node.call("status", "--json").stdout)
    assert status["sources"]["cpu_model"]["state"] == "measuring"
    answers = json.loads(node.call("doctor", "--json").stdout)
    assert len(answers) >= 6
    assert all(answer["mend"] for answer in answers if answer["state"] in ("bad", "warn")), answers
    node.stop()
    done = node.call("status")
    assert done.returncode == 1
    assert "labcarbon-collect daemon" in done.stderr


def test_likely_mistakes_are_mended_by_their_message(node: Collector, server: fakes.FakeServer) -> None:
    assert "https://labs.example" in node.call("enrol", "http://labs.example", input="c\n").stderr
    assert "is the server running" in node.call("enrol", "http://127.0.0.1:1", input="c\n").stderr
    assert f"copy it from {server.url}/nodes/enrol/" in node.call("enrol", server.url, input="\n").stderr
    server.faults = [fakes.says(400, "This code is not valid.")]
    done = node.call("enrol", server.url, input="wrong\n")
    assert done.returncode == 1
    assert "This code is not valid." in done.stderr
    assert f"{server.url}/nodes/enrol/" in done.stderr
    assert "10 to 300" in node.call("daemon", "--interval", "5").stderr
    assert "nvml, rapl" in Collector(node.root, {"LABCARBON_SOURCES": "nvlm"}).call("daemon").stderr
    assert "labcarbon-collect enrol URL" in node.call("push").stderr


def test_what_a_daemon_left_is_pushed_by_hand(node: Collector, server: fakes.FakeServer) -> None:
    node.start()
    time.sleep(0.3)
    node.stop()
    enrol(node, server)
    done = node.call("push")
    assert done.returncode == 0, done.stderr
    assert "1 windows sent, 0 kept" in done.stderr
    assert server.stored_mj > 0


# The socket


def echo(request: Any, uid: int) -> dict[str, Any]:
    if request.get("op") == "deny":
        raise Denied("no", "not so", "like this")
    return {"got": request.get("op"), "uid": uid}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[SocketServer]:
    made = SocketServer(tmp_path / "c.sock", echo)
    yield made
    made.close()
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


def test_lines_are_answered_in_order_with_the_kernels_word_for_who_asks(served: SocketServer) -> None:
    answers = [json.loads(line) for line in talk(served, b'{"op":"a"}\n{"op":"b"}\n').splitlines()]
    assert answers == [{"got": "a", "uid": os.geteuid()}, {"got": "b", "uid": os.geteuid()}]
    assert served.path.stat().st_mode & 0o777 == 0o666


NONSENSE = [b"nonsense\n", b"[1]\n", b'{"op":\n', b"\xff\xfe\n", b"[" * 50_000 + b"\n", b'{"op":"deny"}\n']


@pytest.mark.parametrize("line", NONSENSE)
def test_nonsense_gets_the_one_error_shape(served: SocketServer, line: bytes) -> None:
    error = json.loads(talk(served, line))["error"]
    assert set(error) == {"code", "message", "field", "hint"}


def test_an_endless_line_is_cut_off(served: SocketServer) -> None:
    assert talk(served, b"x" * (MAX_LINE_BYTES * 4)) == b""
    assert json.loads(talk(served, b'{"op":"still here"}\n'))["got"] == "still here"


def test_a_file_in_the_way_is_not_removed(tmp_path: Path) -> None:
    from labcarbon_collect.identity import Refused

    (tmp_path / "c.sock").write_text("mine")
    with pytest.raises(Refused, match="is no socket"):
        SocketServer(tmp_path / "c.sock", echo)
    assert (tmp_path / "c.sock").read_text() == "mine"


def test_registering_is_for_ones_own_living_processes(node: Collector) -> None:
    node.start()
    run, child = str(uuid.uuid4()), subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        registered = node.ask({"op": "register", "run": run, "pid": child.pid})
        assert registered == {"ok": True, "node": (node.status() or {})["node"], "url": "", "user": own_name()}
        answer = node.ask({"op": "end", "run": run, "children_cpu_us": 0})
        assert answer is not None
        assert {"energy_mj", "provisional", "by_device", "idle_mj", "grams", "factor"} <= set(answer)
        for bad in (
            {"op": "register", "run": "x", "pid": child.pid}, {"op": "register", "run": run, "pid": 2**22 + 5},
            {"op": "register", "run": run, "pid": True}, {"op": "register", "run": run}, {"op": "end", "run": run},
            {"op": "end", "run": str(uuid.uuid4())}, {"op": "fly"}, {},
        ):  # fmt: skip
            assert "error" in (node.ask(bad) or {}), bad
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
        "import os, socket, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); s = socket.socket(socket.AF_UNIX); "
        "s.connect(sys.argv[1]); s.sendall(sys.argv[2].encode() + b'\\n'); print(s.recv(9999).decode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(node.socket), request], capture_output=True, text=True, timeout=20, check=True
    )
    assert json.loads(done.stdout)["error"]["code"] == "not_yours"
    node.stop()


def test_a_client_does_not_wait_for_a_daemon_that_does_not_answer(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen(1)
    client = Client([tmp_path / "absent", tmp_path / "s"], timeout_s=0.2)
    begun = time.monotonic()
    with pytest.raises(NoDaemon):
        client.call({"op": "status"}, timeout_s=0.2)
    assert time.monotonic() - begun < 1
    client.close()
    listener.close()


# Replay


def test_a_recorded_trace_plays_back_the_same_readings(tmp_path: Path) -> None:
    from labcarbon_collect.sources.base import Clock

    counters = trace(tmp_path / "t", seconds=5, seed=1)
    played = Replay(tmp_path / "t", speed=2)
    assert [device.key for device in played.open()] == [GPU]
    for tenth in (0, 7, 20, 400):
        clock = Clock(tenth * SECOND // 10, T0 + tenth * SECOND // 10)
        (found,) = played.poll(lambda at=clock: at, with_processes=True)  # type: ignore[misc]
        assert found.counter_mj == counters[min(2 * tenth, len(counters) - 1)]
        assert found.processes == (ProcessUse(4_000_000),)
    played.close()


def test_the_daemon_records_a_trace(node: Collector, tmp_path: Path) -> None:
    node.start("--record", str(tmp_path / "t"))
    time.sleep(1.2)
    node.stop()
    (device,) = Replay(tmp_path / "t").open()
    assert device.measurement == "cpu_model"


def test_the_watchdog_is_fed(node: Collector, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(10)
        node.settings["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        node.start()
        heard = {systemd.recv(100) for _ in range(3)}
    assert {b"READY=1", b"WATCHDOG=1"} <= heard
    assert struct.calcsize("3i") == 12
