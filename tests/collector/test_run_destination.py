"""``run`` names the server for which it measures, and warns if the command names another."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from labcarbon_collect.config import configured_server
from labcarbon_collect.ipc.client import Client
from labcarbon_collect.runs.daemon_link import DaemonLink
from labcarbon_collect.runs.destination import destination_line, mismatch_warning

from tests.collector.collector_process import Collector, shell, wait_for
from tests.fakes import labcarbon_server as fakes

OTHER = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def server() -> Iterator[fakes.FakeServer]:
    with fakes.running() as fake:
        yield fake


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, server: fakes.FakeServer) -> Iterator[Collector]:
    """An enrolled node with a daemon, and a user without a login."""
    made = Collector(tmp_path_factory.mktemp("node"))
    made.enrol(server.url)
    made.start()
    wait_for(lambda: (made.status() or {}).get("enrolled"))
    yield made
    assert made.stop() == 0


def write_enrolment(data: Path, url: str) -> None:
    folder = data / "collector"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "enrolment.json").write_text(json.dumps({"url": url, "lab": "other", "node": "n"}))


def run_in(node: Collector, **settings: str) -> tuple[int, list[str]]:
    other = Collector(node.root, settings, node_id=node.node_id)
    done = other.call("run", "--", *shell("echo begun >&2", "exit 4"))
    lines = done.stderr.splitlines()
    return done.returncode, lines[: lines.index("begun")]


def test_a_run_names_server_and_lab_before_the_command_starts(
    node: Collector, server: fakes.FakeServer
) -> None:
    lab = (node.status() or {})["lab"]
    assert lab
    code, lines = run_in(node)
    assert code == 4
    assert len(lines) == 1
    assert server.url in lines[0]
    assert lines[0].endswith(lab)


def test_a_data_folder_of_another_server_is_a_warning_and_the_command_runs(
    node: Collector, server: fakes.FakeServer, tmp_path: Path
) -> None:
    write_enrolment(tmp_path / "data", OTHER)
    code, (measuring, warning) = run_in(node, LABCARBON_DATA=str(tmp_path / "data"))
    assert code == 4
    assert server.url in measuring
    assert OTHER not in measuring
    assert node.daemon is not None
    named = (OTHER, server.url, str(tmp_path / "data"), str(node.root / "data"))
    assert [text for text in (*named, str(node.daemon.pid)) if text not in warning] == []
    assert f"LABCARBON_DATA={tmp_path / 'data'} labcarbon-collect daemon" in warning


def test_a_personal_login_at_another_server_is_named(
    node: Collector, server: fakes.FakeServer
) -> None:
    code, lines = run_in(
        node, LABCARBON_URL=OTHER, LABCARBON_TOKEN="lc_user_fake", LABCARBON_STARTUP_TIMEOUT_S="2"
    )
    assert code == 4
    (measuring,) = [line for line in lines if "Measuring for" in line]
    assert measuring.index(OTHER) < measuring.index(server.url)


def test_a_data_folder_that_is_not_enrolled_names_no_server(
    node: Collector, tmp_path: Path
) -> None:
    code, lines = run_in(node, LABCARBON_DATA=str(tmp_path / "new"))
    assert (code, len(lines)) == (4, 1)


def test_the_virtual_environment_of_a_checkout_names_its_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert configured_server({}) is None
    write_enrolment(tmp_path / "var", OTHER)
    assert configured_server({}) == (OTHER, str(tmp_path / "var"))
    assert configured_server({"LABCARBON_DATA": str(tmp_path / "none")}) is None
    assert configured_server({"LABCARBON_URL": "http://x"}) == ("http://x", "LABCARBON_URL")
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / ".venv"))
    assert configured_server({}) is None


@pytest.mark.parametrize(
    ("configured", "measured", "warns"),
    [
        ("http://localhost:8000/", "http://127.0.0.1:8000", False),
        ("https://lab.example.org", "https://lab.example.org:443/", False),
        ("http://127.0.0.1:8001", "http://127.0.0.1:8000", True),
        ("https://lab.example.org/a", "https://lab.example.org/b", True),
        ("http://[", "http://127.0.0.1:x", True),
        ("", "http://127.0.0.1:8000", False),
        ("http://127.0.0.1:8000", "", False),
    ],
)
def test_only_another_address_is_a_warning(
    node: Collector, configured: str, measured: str, warns: bool
) -> None:
    client = Client([node.socket], timeout_s=5)
    link = DaemonLink(client, url=measured)
    client.close()
    assert bool(mismatch_warning(link, {"LABCARBON_URL": configured})) is warns


def test_without_a_daemon_no_server_is_named() -> None:
    assert destination_line(DaemonLink(error="no daemon answers"), None) == ""
    assert mismatch_warning(DaemonLink(url="http://a"), {"LABCARBON_URL": OTHER}) == ""
