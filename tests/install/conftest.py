"""A server in a network without any route, with the collector's files, and nodes beside it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.faults.installation import ROOT, Installation
from tests.install.wheel_files import collect, local_clone
from tests.services.process import end_process, end_with_parent, wait_until

_CREATE_TOKEN = """
from apps.accounts.models import Lab, User
from apps.core.clock import now_us
from apps.fleet.models import Site
from apps.fleet.services import create_fleet_token
from apps.core.units import US_PER_HOUR
_, text = create_fleet_token(lab=Lab.objects.get(), site=Site.objects.get(), project=None, uses={uses},
    life_us=US_PER_HOUR, needs_approval={approval}, by=User.objects.get(), now=now_us())
print(text)
"""  # noqa: E501


@dataclass
class Isolated:
    """A network namespace with a loopback interface and nothing else."""

    holder: subprocess.Popen[bytes]

    def command(self, *words: str) -> list[str]:
        """Return a command that runs inside."""
        pid = str(self.holder.pid)
        own = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", f"--target={pid}", "--net", *own, *words]


@pytest.fixture(scope="session")
def isolated() -> Iterator[Isolated]:
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    holder = subprocess.Popen(
        end_with_parent(
            ["unshare", "--net", *user, "sh", "-c", "ip link set lo up && exec sleep infinity"]
        )
    )
    network = Isolated(holder)
    wait_until(
        lambda: (
            b"127.0.0.1"
            in subprocess.run(
                network.command("ip", "-o", "addr", "show", "up"), capture_output=True
            ).stdout
        ),
        what="the loopback interface of the namespace",
    )
    yield network
    end_process(holder)


@dataclass
class Server:
    """An installation whose web server is reachable inside the namespace only."""

    installation: Installation
    network: Isolated
    wheels: Path

    @property
    def url(self) -> str:
        return self.installation.url

    def token(self, *, uses: int = 5, approval: bool = False) -> str:
        """Return a new fleet token."""
        return self.installation.shell(_CREATE_TOKEN.format(uses=uses, approval=approval))

    def query(self, expression: str) -> str:
        """Return the text of a Python expression about nodes and enrolments."""
        return self.installation.shell(
            "from apps.fleet.models import *\nfrom apps.accounts.models import *\n"
            f"print({expression})"
        )


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the files that nodes install."""
    folder = tmp_path_factory.mktemp("wheels")
    done = collect(local_clone(folder / "clone"), folder / "wheels", folder / "data")
    assert done.returncode == 0, done.stderr
    return folder / "wheels"


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory, isolated: Isolated, wheels: Path
) -> Iterator[Server]:
    installation = Installation(tmp_path_factory.mktemp("install") / "server")
    installation.prepare()
    installation.codes(0)
    environ = {**installation.environ, "LABCARBON_WHEELS": str(wheels)}
    with installation.log("web").open("ab") as log:
        web = subprocess.Popen(
            isolated.command(*end_with_parent(installation.command("web server"))),
            env=environ,
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
    wait_until(
        lambda: (
            subprocess.run(
                isolated.command("curl", "-fs", "-o", "/dev/null", f"{installation.url}/livez")
            ).returncode
            == 0
        ),
        what="the web server",
    )
    yield Server(installation, isolated, wheels)
    end_process(web)


@dataclass
class Node:
    """A node with a home folder of its own."""

    home: Path
    server: Server
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        inherited = ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYENV_VERSION")
        return {
            **{name: os.environ[name] for name in inherited if name in os.environ},
            "HOME": str(self.home),
            "LABCARBON_DATA": str(self.data),
            "LABCARBON_SOCKET": str(self.data / "collect.sock"),
            "LABCARBON_SOURCES": "cpu_model",
            "LABCARBON_INTERVAL_S": "10",
            **self.settings,
        }

    @property
    def data(self) -> Path:
        return self.home / "state"

    @property
    def collector(self) -> Path:
        return self.data / "collector"

    @property
    def program(self) -> Path:
        return self.home / ".local" / "bin" / "labcarbon-collect"

    @property
    def script(self) -> Path:
        return self.home / "labcarbon-install.sh"

    @property
    def uuid(self) -> str:
        text = (self.collector / "enrolment.json").read_text(encoding="utf-8")
        return text.split('"node": "')[1].split('"')[0]

    @property
    def daemon_pid(self) -> int:
        file = self.home / ".local" / "share" / "labcarbon-collect" / "daemon.pid"
        return int(file.read_text(encoding="ascii"))

    def run(
        self, *words: str, stdin: str = "", timeout_s: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on this node, inside the namespace."""
        return subprocess.run(
            self.server.network.command(*words),
            env=self.environ,
            cwd=self.home,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    def download(self) -> None:
        """Download the script as the page says."""
        done = self.run("curl", "-fsS", f"{self.server.url}/install/", "-o", str(self.script))
        assert done.returncode == 0, done.stderr

    def install(self, *options: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Download and run the script."""
        self.download()
        return self.run("sh", str(self.script), *options, stdin=stdin)

    def stop(self) -> None:
        """End the collector that the script started."""
        try:
            pid = self.daemon_pid
            os.kill(pid, 15)
        except (OSError, ValueError):
            return
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and _is_alive(pid):
            time.sleep(0.1)


def _is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


@pytest.fixture
def node(tmp_path: Path, server: Server) -> Iterator[Callable[..., Node]]:
    """Return a function that makes a node. Each is a simulated one: the machine has only one
    collector.
    """
    nodes: list[Node] = []

    def make(name: str = "home", **settings: str) -> Node:
        home = tmp_path / name
        home.mkdir()
        nodes.append(Node(home, server, settings))
        return nodes[-1]

    yield make
    for each in nodes:
        each.stop()
