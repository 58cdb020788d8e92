"""A private Slurm, a node of real users with simulated GPUs, and a real server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pynvml
import pytest
import rfc8785

from tests.fakes.nvml_driver import FakeDriver
from tests.faults.installation import ROOT, Installation, plain_environ
from tests.faults.test_uids import DAEMON, WINDOW_S
from tests.mistakes.conftest import serving
from tests.services.process import end_process, wait_until
from tests.services.slurm import Slurm


@pytest.fixture(scope="package")
def slurm() -> Iterator[Slurm]:
    with Slurm() as running:
        yield running


def python_in_jobs() -> str:
    """Return a Python, 3.9 or newer, that the job of an ordinary user can start."""
    fine = "import sys, sqlite3, ssl; sys.exit(sys.version_info < (3, 9))"
    for candidate in ("/usr/bin/python3", "/usr/local/bin/python3"):
        shell = [
            "setpriv",
            "--reuid",
            str(DAEMON),
            "--regid",
            str(DAEMON),
            "--clear-groups",
            "sh",
            "-c",
            '"$0" -c "$1"',
        ]
        if subprocess.run([*shell, candidate, fine], capture_output=True, cwd="/").returncode == 0:
            return candidate
    pytest.skip("no Python that every user may run (apt-get install python3)")


@dataclass
class Node:
    """The cluster's node with a daemon of an ordinary user, and two simulated GPUs."""

    base: Path
    python: str
    driver: FakeDriver
    slurm: Slurm

    @property
    def environ(self) -> dict[str, str]:
        own = {
            "HOME": str(self.base / "of-daemon"),
            "PYTHONPATH": str(self.base / "code"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LABCARBON_SOCKET": str(self.base / "of-daemon" / "collect.sock"),
            "LABCARBON_DATA": str(self.base / "of-daemon" / "data"),
            "LABCARBON_SOURCES": "nvml,cpu_model",
            "LABCARBON_NODE_ID": str(uuid.uuid5(uuid.NAMESPACE_URL, str(self.base))),
        }
        inherited = {
            name: value for name, value in plain_environ().items() if name in ("PATH", "LANG")
        }
        return {**inherited, **own, **self.driver.env, **self.slurm.environ}

    @property
    def command(self) -> str:
        """Return the shell command of ``labcarbon-collect`` for any user of the node."""
        names = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "LABCARBON_SOCKET")
        words = [f"{name}={value}" for name, value in self.environ.items() if name in names]
        return (
            f"env -u LABCARBON_TOKEN HOME=/nonexistent {' '.join(words)} {self.python} -m "
            "labcarbon_collect"
        )

    def collect(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run ``labcarbon-collect`` as the daemon's user."""
        command = [self.python, "-m", "labcarbon_collect", *arguments]
        return subprocess.run(
            ["setpriv", "--reuid", str(DAEMON), "--regid", str(DAEMON), "--clear-groups", *command],
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            cwd="/",
            timeout=120,
        )

    def status(self) -> dict[str, object]:
        done = self.collect("status", "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def polled(self) -> None:
        """Wait until the daemon has read the processes again, at two cuts of the grid."""
        closed = int(str(self.status()["windows_closed"]))
        wait_until(
            lambda: int(str(self.status()["windows_closed"])) >= closed + 6,
            what="two more windows of each device",
            every=0.2,
        )

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Run the daemon without privileges."""
        log = self.base / "of-daemon" / "log"
        command = [
            self.python,
            str(self.base / "code/audited_daemon.py"),
            str(self.base / "of-daemon/opened"),
            str(WINDOW_S),
        ]
        with log.open("ab") as output:
            daemon = subprocess.Popen(
                [
                    "setpriv",
                    "--pdeathsig",
                    "TERM",
                    "--reuid",
                    str(DAEMON),
                    "--regid",
                    str(DAEMON),
                    "--clear-groups",
                    "--no-new-privs",
                    *command,
                ],
                env=self.environ,
                cwd="/",
                stdout=output,
                stderr=output,
            )

        def listening() -> bool:
            assert daemon.poll() is None, log.read_text()
            return Path(self.environ["LABCARBON_SOCKET"]).exists()

        try:
            wait_until(listening, what="the daemon's socket")
            yield
        finally:
            end_process(daemon)


@pytest.fixture
def node(slurm: Slurm) -> Iterator[Node]:
    base = Path(tempfile.mkdtemp(prefix="labcarbon-slurm-node-", dir="/tmp"))
    try:
        base.chmod(0o755)
        shutil.copytree(ROOT / "collector/labcarbon_collect", base / "code/labcarbon_collect")
        shutil.copy(str(pynvml.__file__), base / "code/pynvml.py")
        shutil.copytree(Path(rfc8785.__file__).parent, base / "code/rfc8785")
        shutil.copy(ROOT / "tests/faults/audited_daemon.py", base / "code/audited_daemon.py")
        (base / "nvml").mkdir()
        driver = FakeDriver(base / "nvml", ["hopper", "hopper"])
        subprocess.run(["chmod", "-R", "a+rX", str(base)], check=True)
        (base / "of-daemon").mkdir(mode=0o755)
        os.chown(base / "of-daemon", DAEMON, DAEMON)
        yield Node(base, python_in_jobs(), driver, slurm)
    finally:
        shutil.rmtree(base)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Installation]:
    cluster = Installation(tmp_path / "server")
    cluster.prepare()
    with serving(cluster):
        yield cluster
