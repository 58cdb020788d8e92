"""The daemon as a process: second daemon, later enrolment, status and doctor, watchdog."""

from __future__ import annotations

import json
import re
import socket
import struct
import time
import uuid
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from labcarbon_collect.locks import AlreadyRunning, lock_machine
from labcarbon_collect.spool.store import Spool

from tests.collector.collector_process import Collector, wait_for
from tests.fakes import labcarbon_server as fakes


def test_second_daemon_on_node_is_refused(node: Collector, tmp_path: Path) -> None:
    node.start()
    second = Collector(
        node.root, {"LABCARBON_SOCKET": str(tmp_path / "other.sock")}, node_id=node.node_id
    )
    done = second.call("daemon")
    assert done.returncode == 1
    assert "another labcarbon-collect daemon" in done.stderr
    assert "labcarbon-collect status" in done.stderr


def test_second_daemon_on_machine_is_refused_for_any_folder(node: Collector) -> None:
    with ExitStack() as lock:
        with suppress(AlreadyRunning):  # a daemon of this machine may hold the lock: equally valid
            lock.enter_context(lock_machine())
        done = Collector(node.root, {"LABCARBON_NODE_ID": ""}).call("daemon")
    assert done.returncode == 1
    assert "already measures this machine, with another data folder" in done.stderr
    assert "labcarbon-collect status" in done.stderr


def test_socket_in_use_is_not_replaced(node: Collector, tmp_path: Path) -> None:
    node.start()
    other = Collector(
        node.root, {"LABCARBON_NODE_ID": str(uuid.uuid4()), "LABCARBON_DATA": str(tmp_path / "d2")}
    )
    done = other.call("daemon")
    assert done.returncode == 1
    assert "LABCARBON_SOCKET" in done.stderr
    assert node.status()


def test_unenrolled_daemon_uploads_after_enrolment(
    node: Collector, server: fakes.FakeServer
) -> None:
    process = node.start()
    status = node.status()
    assert status is not None
    assert (status["enrolled"], status["push"]["ok"]) == (False, False)
    assert "labcarbon-collect enrol URL" in status["push"]["error"]
    node.enrol(server.url)
    wait_for(lambda: (node.status() or {}).get("enrolled"))
    wait_for(lambda: server.stored_mj)
    assert node.stop() == 0
    assert process.returncode == 0
    spool = Spool(node.home)
    assert spool.depth().rows == 0
    assert server.stored_mj == sum(mj for _, mj in spool.result_totals().values()) > 0
    spool.close()
    batch = server.sent("POST", "ingest/")[0].body
    assert batch["node"] == status["node"]
    assert batch["device_facts"][batch["devices"][0]]["threads"]
    assert {"source", "spool"} <= set(batch["health"])


def test_status_and_doctor_print_text_and_json(node: Collector) -> None:
    node.start()
    assert "not enrolled" in node.call("status").stdout
    status = json.loads(node.call("status", "--json").stdout)
    assert status["sources"]["cpu_model"]["state"] == "measuring"
    outputs = json.loads(node.call("doctor", "--json").stdout)
    assert len(outputs) >= 6
    assert all(output["mend"] for output in outputs if output["state"] in ("bad", "warn")), outputs
    node.stop()
    done = node.call("status")
    assert done.returncode == 1
    assert "labcarbon-collect daemon" in done.stderr


def test_error_messages_name_the_fix(node: Collector, server: fakes.FakeServer) -> None:
    assert "https://labs.example" in node.call("enrol", "http://labs.example", input="c\n").stderr
    assert (
        "check that the server is running"
        in node.call("enrol", "http://127.0.0.1:1", input="c\n").stderr
    )
    assert (
        f"Copy it from {server.url}/nodes/enrol/"
        in node.call("enrol", server.url, input="\n").stderr
    )
    server.faults = [fakes.error_response(400, "This code is not valid.")]
    done = node.call("enrol", server.url, input="wrong\n")
    assert done.returncode == 1
    assert "This code is not valid." in done.stderr
    assert f"{server.url}/nodes/enrol/" in done.stderr
    assert "10 to 300" in node.call("daemon", "--interval", "5").stderr
    assert "nvml, rapl" in Collector(node.root, {"LABCARBON_SOURCES": "nvlm"}).call("daemon").stderr
    assert "labcarbon-collect enrol URL" in node.call("upload").stderr


@pytest.mark.parametrize("size", ["-5", "0", "x", "1.5", "99999999999999999999"])
def test_a_size_of_the_spool_that_is_no_number_of_megabytes_is_refused(
    tmp_path: Path, size: str
) -> None:
    """-5 started a daemon that never measured, x was reported without its variable."""
    daemon = Collector(tmp_path, {"LABCARBON_SPOOL_MAX_MB": size})
    started = daemon.call("daemon", "--no-upload")
    assert started.returncode == 1
    assert f"LABCARBON_SPOOL_MAX_MB is '{size}': set 1 to 1000000" in started.stderr


def test_upload_command_sends_the_rest_of_a_spool(
    node: Collector, server: fakes.FakeServer
) -> None:
    node.start()
    time.sleep(0.3)
    node.stop()
    node.enrol(server.url)
    done = node.call("upload")
    assert done.returncode == 0, done.stderr
    assert re.search(r"[1-9]\d* windows uploaded, 0 kept", done.stderr), done.stderr
    assert server.stored_mj > 0


def test_former_names_of_upload_are_deprecated(node: Collector) -> None:
    done = node.call("push")
    assert done.stderr.splitlines()[0] == "labcarbon-collect: push is deprecated: use upload"
    assert "labcarbon-collect enrol URL" in done.stderr
    node.start("--no-push")
    assert "labcarbon-collect: --no-push is deprecated: use --no-upload" in node.log()
    status = node.status()
    assert status is not None
    assert status["push"]["error"] == "uploads are disabled"


def test_systemd_watchdog_is_notified(node: Collector, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(10)
        node.settings["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        node.start()
        events = {systemd.recv(100) for _ in range(3)}
    assert {b"READY=1", b"WATCHDOG=1"} <= events
    assert struct.calcsize("3i") == 12
