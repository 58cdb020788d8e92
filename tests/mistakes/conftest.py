"""A server for the tests of user errors: a lab whose site has no zone, and machines with short
windows.
"""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from labcarbon_collect.ipc.client import Client, DaemonUnavailable

from tests.faults.installation import ROOT, Installation, Machine
from tests.services.process import end_process, end_with_parent, wait_until


def answers(url: str) -> bool:
    """Return whether a web server responds at ``url``."""
    try:
        urllib.request.urlopen(f"{url}/api/v1/config/", timeout=2).close()
    except urllib.error.HTTPError as error:
        error.close()
        return True
    except OSError:
        return False
    return True


@contextmanager
def serving(server: Installation) -> Iterator[str]:
    """Run the web server of an installation."""
    with server.log("web").open("ab") as log:
        web = subprocess.Popen(
            end_with_parent(server.command("web server")),
            env=server.environ,
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: answers(server.url), what="the web server's first answer")
        yield server.url
    finally:
        end_process(web)


@contextmanager
def measuring(machine: Machine, *, window_s: int = 1) -> Iterator[None]:
    """Run a machine's daemon with short windows."""
    machine.data_dir.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.faults.quick_daemon", str(window_s)]
    with (machine.data_dir / "daemon.log").open("ab") as log:
        daemon = subprocess.Popen(
            end_with_parent(command), env=machine.environ, cwd=ROOT, stdout=log, stderr=log
        )

    def listening() -> bool:
        assert daemon.poll() is None, (machine.data_dir / "daemon.log").read_text()
        try:
            Client([machine.socket], timeout_s=1.0).close()
        except DaemonUnavailable:
            return False
        return True

    try:
        wait_until(listening, what="the daemon's socket")
        yield
    finally:
        end_process(daemon)


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A prepared, running installation with a lab without grid zone."""
    installation = Installation(tmp_path_factory.mktemp("mistakes") / "server")
    installation.prepare()
    installation.codes(0, zone="")
    with serving(installation):
        yield installation


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., Machine]:
    """Return a function that creates a machine with a modelled CPU, so that it measures on any
    host.
    """

    def make(name: str = "here", **settings: str) -> Machine:
        return Machine(tmp_path / name, {"LABCARBON_SOURCES": "cpu_model", **settings}, name=name)

    return make


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as exit_stack:
        yield exit_stack
