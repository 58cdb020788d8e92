"""A daemon that does not start reports why to its server, without names, and keeps its message on
the node.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from pathlib import Path

import pytest
from labcarbon_collect.api import start_problem
from labcarbon_collect.api.start_problem import public_reason

from tests.collector.collector_process import Collector
from tests.fakes import labcarbon_server as fakes


def reports(server: fakes.FakeServer) -> list[str]:
    """Return the reported messages."""
    return [request.body["message"] for request in server.sent("POST", "nodes/problem/")]


def fails(node: Collector, settings: dict[str, str], *arguments: str) -> str:
    """Start a daemon that must fail, and return its message."""
    failing = Collector(node.root, {**node.settings, **settings}, node_id=node.node_id)
    done = failing.call("daemon", *arguments)
    assert done.returncode == 1, done
    assert done.stderr.startswith("labcarbon-collect: ")
    return done.stderr


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("LABCARBON_SOURCES", "nvlm"),
        ("LABCARBON_SPOOL_MAX_MB", "x"),
        ("LABCARBON_INTERVAL_S", "5"),
        ("LABCARBON_INTERVAL_S", "often"),
        ("LABCARBON_USERS", "maybe"),
    ],
)
def test_a_wrong_setting_is_reported_once_per_start(
    node: Collector, server: fakes.FakeServer, setting: str, value: str
) -> None:
    node.enrol(server.url)
    assert value in fails(node, {setting: value})
    (message,) = reports(server)
    assert setting in message or value in message
    assert server.sent("POST", "nodes/problem/")[0].token == "lc_node_fake"


def test_a_spool_that_cannot_be_written_is_reported(
    node: Collector, server: fakes.FakeServer
) -> None:
    node.enrol(server.url)
    (node.home / "spool.db").mkdir()
    fails(node, {})
    assert len(reports(server)) == 1


def test_a_node_without_a_meter_is_reported(node: Collector, server: fakes.FakeServer) -> None:
    node.settings["LABCARBON_SOURCES"] = "nvml"
    node.settings["LD_LIBRARY_PATH"] = ""
    node.enrol(server.url)
    node.start()
    assert node.stop() == 0
    assert reports(server) == ["nothing can be measured: no meter was found"]


def test_a_daemon_that_starts_reports_nothing(node: Collector, server: fakes.FakeServer) -> None:
    node.enrol(server.url)
    node.start()
    assert node.stop() == 0
    assert reports(server) == []


def test_a_second_daemon_is_no_problem_of_the_node(
    node: Collector, server: fakes.FakeServer, tmp_path: Path
) -> None:
    node.enrol(server.url)
    node.start()
    other = {"LABCARBON_SOCKET": str(tmp_path / "other.sock")}
    fails(node, other)
    fails(node, {**other, "LABCARBON_SPOOL_MAX_MB": "x"})
    assert reports(server) == []


def test_nothing_is_sent_with_no_upload_or_without_a_token(
    node: Collector, server: fakes.FakeServer
) -> None:
    wrong = {"LABCARBON_SPOOL_MAX_MB": "x", "LABCARBON_URL": server.url}
    fails(node, wrong)
    assert not node.home.exists()
    node.enrol(server.url)
    fails(node, wrong, "--no-upload")
    (node.home / "node-token").unlink()
    fails(node, wrong)
    assert reports(server) == []


@pytest.mark.parametrize("status", [404, 429, 500])
def test_an_older_or_busy_server_changes_nothing(
    node: Collector, server: fakes.FakeServer, status: int
) -> None:
    node.enrol(server.url)
    server.faults = [fakes.error_response(status, "No.")]
    assert "LABCARBON_SPOOL_MAX_MB" in fails(node, {"LABCARBON_SPOOL_MAX_MB": "x"})


def test_a_server_that_is_away_does_not_delay_the_message(
    node: Collector, server: fakes.FakeServer
) -> None:
    node.enrol(server.url)
    started_s = time.monotonic()
    wrong = {"LABCARBON_SPOOL_MAX_MB": "x", "LABCARBON_URL": "http://127.0.0.1:9"}
    assert "LABCARBON_SPOOL_MAX_MB" in fails(node, wrong)
    assert time.monotonic() - started_s < 8


def test_a_token_of_another_node_is_not_used(node: Collector, server: fakes.FakeServer) -> None:
    node.enrol(server.url)
    node.node_id = str(uuid.uuid4())
    fails(node, {"LABCARBON_SPOOL_MAX_MB": "x"})
    assert reports(server) == []
    shutil.rmtree(node.home)


@pytest.fixture
def ana(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_problem, "first_person_uid", lambda: 0)
    monkeypatch.setattr(start_problem, "current_user_name", lambda: "ana")
    monkeypatch.setenv("HOME", "/data/people/ana")


@pytest.mark.usefixtures("ana")
@pytest.mark.parametrize(
    ("reason", "public"),
    [
        ("cannot use /home/ben/.local/x (denied)", "cannot use (home folder) (denied)"),
        ("cannot use /data/people/ana/x: denied", "cannot use (home folder): denied"),
        ("see ~ben/x or /Users/ben", "see (home folder) or (home folder)"),
        ("/root/x is a link", "(home folder) is a link"),
        ("/scratch/ana/spool is full", "/scratch/-/spool is full"),
        ("a banana in /var/lib/labcarbon", "a banana in /var/lib/labcarbon"),
        (
            "/x belongs to uid 1003, this process has uid 1001: chown -R 1001 /x",
            "/x belongs to uid -, this process has uid -: chown -R - /x",
        ),
        ("key password=hunter2secret", "key password=(masked)"),
        ("two\nlines\tof text", "two lines of text"),
        ("", "unknown reason"),
    ],
)
def test_what_is_sent_contains_no_name(reason: str, public: str) -> None:
    assert public_reason(reason) == public


def test_what_is_sent_is_short() -> None:
    assert len(public_reason("too long " * 100)) == 300


def test_a_system_account_is_no_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_problem, "first_person_uid", lambda: os.getuid() + 1)
    monkeypatch.setattr(start_problem, "current_user_name", lambda: "labcarbon")
    assert public_reason("run labcarbon-collect doctor") == "run labcarbon-collect doctor"
