"""A complete LabCarbon installation for a test: data directory, loopback port, database, and the
commands of `make run`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from labcarbon.launch import create_data_dir, create_processes
from tests.collector.collector_process import LONG_TIMEOUT
from tests.services.data_directories import COMMANDS, copy_static_files, prepare_data_dir
from tests.services.process import free_port

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
COLLECT = str(BIN / "labcarbon-collect")

_CREATE_LAB = """
import json, sys
import django
django.setup()
from apps.accounts.choices import CodePurpose
from apps.accounts.models import Lab, User
from apps.accounts.services.labs import create_lab, issue_code
from apps.core.clock import now_us
from apps.fleet.services import create_site
lab = Lab.objects.first()
if lab is None:
    lab = create_lab(name="Fault Lab", time_zone="UTC", owner=User.objects.create_user("owner"), now=now_us())
    create_site(lab=lab, name="Here", kind="workstation", zone=sys.argv[2])
print(json.dumps([issue_code(purpose=CodePurpose.ENROL, now=now_us(), lab=lab) for _ in range(int(sys.argv[1]))]))
"""  # noqa: E501


def plain_environ() -> dict[str, str]:
    """Return the environment without LabCarbon variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LABCARBON_")}


@dataclass
class Installation:
    """Paths and commands of an installation. A test starts its processes."""

    data_dir: Path
    port: int = field(default_factory=free_port)
    database_url: str = ""

    def __post_init__(self) -> None:
        create_data_dir(self.data_dir)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the server's processes."""
        own = {"LABCARBON_DATA": str(self.data_dir), "LABCARBON_PORT": str(self.port)}
        if self.database_url:
            own["LABCARBON_DATABASE_URL"] = self.database_url
        return {
            **plain_environ(),
            **own,
            "DJANGO_SETTINGS_MODULE": "labcarbon.settings",
            "PYTHONPATH": str(ROOT),
        }

    def command(self, name: str) -> list[str]:
        """Return the command by which `make run` starts "web server", "worker" or "collector"."""
        (process,) = (
            child for child in create_processes(self.data_dir, self.port) if child.name == name
        )
        return list(process.command)

    def manage(self, *arguments: str) -> str:
        """Run a management command and return its output."""
        return self._python("manage.py", *arguments)

    def prepare(self) -> None:
        """Create the database with shipped data, and the static files."""
        if not self.database_url:
            prepare_data_dir(self.data_dir)
            return
        for command in COMMANDS:
            self.manage(*command)
        copy_static_files(self.data_dir)

    def codes(self, count: int = 1, *, zone: str = "DE") -> list[str]:
        """Return enrolment codes of the lab, which is created if there is none."""
        return [str(code) for code in json.loads(self._python("-c", _CREATE_LAB, str(count), zone))]

    def shell(self, code: str) -> str:
        """Run Python with Django set up in a new process and return its output."""
        return self._python("-c", f"import django\ndjango.setup()\n{code}").strip()

    def _python(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def log(self, name: str) -> Path:
        return self.data_dir / "logs" / f"{name}.log"


@dataclass
class Machine:
    """A simulated machine with its own collector: data folder, socket, node."""

    data_dir: Path
    settings: dict[str, str] = field(default_factory=dict)
    name: str = "machine"
    node: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def environ(self) -> dict[str, str]:
        own = {
            "LABCARBON_DATA": str(self.data_dir),
            "LABCARBON_SOCKET": str(self.socket),
            "LABCARBON_NODE_ID": self.node,
            "XDG_CONFIG_HOME": str(self.data_dir / "config"),
            **LONG_TIMEOUT,
        }
        return {**plain_environ(), **own, **self.settings, "PYTHONPATH": str(ROOT)}

    @property
    def socket(self) -> Path:
        return self.data_dir / "collect.sock"

    @property
    def home(self) -> Path:
        return self.data_dir / "collector"

    def collect(
        self,
        *arguments: str,
        stdin: str = "",
        environ: dict[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``labcarbon-collect`` with ``arguments``. ``stdin`` is its input."""
        return subprocess.run(
            [COLLECT, *arguments],
            env={**self.environ, **(environ or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            cwd=ROOT,
        )

    def enrol(self, url: str, code: str) -> None:
        """Enrol the machine; the server must accept it."""
        done = self.collect("enrol", "--hostname", self.name, url, stdin=code + "\n")
        assert done.returncode == 0, done.stderr
