"""Real users: the daemon without privileges, jobs of two others, and nobody's environment is read.

The collector runs from a copy that everybody may read, with a Python that everybody may run: the
checkout and its virtual environment may lie where only root can go.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pynvml
import pytest
import rfc8785

from tests.fakes.nvml_driver import FakeDriver, process
from tests.faults.installation import ROOT, Installation, plain_environ
from tests.faults.ledger import LedgerDatabase
from tests.mistakes.conftest import serving
from tests.services.process import end_process, wait_until

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(
        os.geteuid() != 0, reason="jobs of real other users need root (sudo make test)"
    ),
]

DAEMON, ALICE, BOB = 65501, 65502, 65503
SECRET = "a-secret-of-alice-5f1c"
WINDOW_S = 2
_SPIN = (
    "echo $$ > {pid}.new; mv {pid}.new {pid}; "
    "while [ ! -e {stop} ]; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.05; done"
)


def _as(uid: int, *command: str) -> list[str]:
    return [
        "setpriv",
        "--reuid",
        str(uid),
        "--regid",
        str(uid),
        "--clear-groups",
        "--no-new-privs",
        *command,
    ]


def python_for_everybody() -> str:
    """Return a Python, 3.9 or newer, that an ordinary user may run."""
    fine = "import sys, sqlite3, ssl; sys.exit(sys.version_info < (3, 9))"
    for candidate in (
        f"{sys.base_prefix}/bin/python3",
        "/usr/bin/python3",
        "/usr/local/bin/python3",
    ):
        if Path(candidate).exists():
            done = subprocess.run(_as(DAEMON, candidate, "-c", fine), capture_output=True, cwd="/")
            if done.returncode == 0:
                return candidate
    pytest.skip("no Python that every user may run (apt-get install python3)")


@dataclass
class Users:
    """A machine with a daemon of one user, and folders of two others."""

    base: Path
    python: str
    driver: FakeDriver
    settings: dict[str, str] = field(default_factory=dict)

    def home(self, uid: int) -> Path:
        path = self.base / f"of-{uid}"
        if not path.exists():
            path.mkdir(mode=0o755)
            os.chown(path, uid, uid)
        return path

    def environ(self, uid: int) -> dict[str, str]:
        home = self.home(uid)
        own = {
            "HOME": str(home),
            "PYTHONPATH": str(self.base / "code"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LABCARBON_SOCKET": str(self.home(DAEMON) / "collect.sock"),
            "LABCARBON_DATA": str(home / "data"),
            "LABCARBON_SOURCES": "nvml,cpu_model",
            "LABCARBON_NODE_ID": str(
                uuid.uuid5(uuid.NAMESPACE_URL, str(self.base))
            ),  # a node of its own
        }
        kept = {name: value for name, value in plain_environ().items() if name in ("PATH", "LANG")}
        return {**kept, **own, **self.driver.env}

    def start(
        self, uid: int, *command: str, log: Path, first: tuple[str, ...] = (), **more: str
    ) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                [*first, *_as(uid, *command)],
                env={**self.environ(uid), **more},
                cwd="/",
                stdout=output,
                stderr=output,
            )

    def collect(self, uid: int, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            _as(uid, self.python, "-m", "labcarbon_collect", *arguments),
            env=self.environ(uid),
            input=stdin,
            capture_output=True,
            text=True,
            cwd="/",
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def users() -> Iterator[Users]:
    python = python_for_everybody()
    base = Path(tempfile.mkdtemp(prefix="labcarbon-users-", dir="/tmp"))
    try:
        base.chmod(0o755)
        shutil.copytree(ROOT / "collector/labcarbon_collect", base / "code/labcarbon_collect")
        shutil.copy(str(pynvml.__file__), base / "code/pynvml.py")
        shutil.copytree(Path(rfc8785.__file__).parent, base / "code/rfc8785")
        shutil.copy(ROOT / "tests/faults/audited_daemon.py", base / "code/audited_daemon.py")
        (base / "nvml").mkdir()
        driver = FakeDriver(base / "nvml", ["hopper", "hopper"])
        subprocess.run(["chmod", "-R", "a+rX", str(base)], check=True)
        yield Users(base, python, driver)
    finally:
        shutil.rmtree(base)


@pytest.fixture
def hidden() -> tuple[str, ...]:
    """Return what starts a command where /proc shows it only its own user's processes."""
    command = (
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t proc -o hidepid=2 proc /proc && exec "$@"',
        "sh",
    )
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("this root may not mount a /proc of its own (CAP_SYS_ADMIN is missing)")
    return command


def _pid_of(path: Path) -> int:
    wait_until(path.exists, what=f"the job's word in {path}")
    return int(path.read_text())


def _polled(users: Users) -> None:
    """Wait until the daemon has looked at the processes again, at two cuts of the grid."""
    closed = _status(users)["windows_closed"]
    wait_until(
        lambda: _status(users)["windows_closed"] >= closed + 6,
        what="two more windows of each device",
        every=0.5,
    )


def _status(users: Users) -> dict[str, int]:
    return dict(json.loads(users.collect(DAEMON, "status", "--json")))


@dataclass
class Work:
    """What Alice (registered) and Bob (not) did."""

    closing: str
    opened: str
    log: str


def _daemon(users: Users, stack: ExitStack, first: tuple[str, ...]) -> Path:
    opened = users.home(DAEMON) / "opened"
    daemon = users.start(
        DAEMON,
        users.python,
        str(users.base / "code/audited_daemon.py"),
        str(opened),
        str(WINDOW_S),
        log=users.home(DAEMON) / "log",
        first=first,
    )
    stack.callback(end_process, daemon)

    def listening() -> bool:
        assert daemon.poll() is None, (users.home(DAEMON) / "log").read_text()
        return (users.home(DAEMON) / "collect.sock").exists()

    wait_until(listening, what="the daemon's socket")
    assert (
        Path(f"/proc/{daemon.pid}/status").read_text().split("Uid:")[1].split()[:3]
        == [str(DAEMON)] * 3
    )
    return opened


def _work(users: Users, url: str, code: str, *, first: tuple[str, ...] = ()) -> Work:
    """Alice's run holds the first GPU, Bob's plain process the second; each is given a known
    energy.
    """
    alice, bob = (users.home(uid) for uid in (ALICE, BOB))
    spin = {
        uid: _SPIN.format(pid=users.home(uid) / "pid", stop=users.home(uid) / "stop")
        for uid in (ALICE, BOB)
    }
    with ExitStack() as stack:
        users.collect(DAEMON, "enrol", "--hostname", "shared", url, stdin=code + "\n")
        opened = _daemon(users, stack, first)
        run = users.start(
            ALICE,
            users.python,
            "-m",
            "labcarbon_collect",
            "run",
            "--project",
            "demo",
            "--",
            "sh",
            "-c",
            spin[ALICE],
            log=alice / "log",
            ALICE_SECRET=SECRET,
        )
        stack.callback(end_process, run, signal.SIGKILL)
        other = users.start(BOB, "sh", "-c", spin[BOB], log=bob / "log", BOB_SECRET=SECRET)
        stack.callback(end_process, other, signal.SIGKILL)
        jobs = [_pid_of(alice / "pid"), _pid_of(bob / "pid")]
        peek = subprocess.run(
            _as(DAEMON, "cat", f"/proc/{jobs[0]}/environ"), capture_output=True, text=True
        )
        assert peek.returncode != 0, (
            "this daemon could read Alice's environment if it tried: the test proves nothing"
        )
        for gpu, pid in zip(users.driver.gpus, jobs, strict=True):
            gpu.set_processes(process(pid, sm_percent=90, memory_mib=1000))
        _polled(users)
        users.driver.gpus[0].add_mj(7_777)
        users.driver.gpus[1].add_mj(5_555)
        _polled(users)
        for uid in (ALICE, BOB):
            (users.home(uid) / "stop").touch()
        assert run.wait(120) == 0
        return Work(
            (alice / "log").read_text(),
            opened.read_text(),
            (users.home(DAEMON) / "log").read_text(),
        )


def _by_consumer(books: LedgerDatabase, device: str) -> dict[str, int]:
    sql = (
        "SELECT c.key, SUM(l.energy_mj) FROM energy_ledgerentry l JOIN fleet_device d ON d.id = "
        "l.device_id"
        " JOIN ingest_consumer c ON c.id = l.consumer_id WHERE d.key = ? GROUP BY c.key HAVING "
        "SUM(l.energy_mj) > 0"
    )
    return {key: int(energy_mj) for key, energy_mj in books.rows(sql, device)}


def _nothing_secret(users: Users, work: Work, server: Installation) -> None:
    opened = [line.split(" ", 1)[1] for line in work.opened.splitlines()]
    assert any(path.startswith("/proc/") and path.endswith("/stat") for path in opened), (
        "the list of files is empty"
    )
    assert [path for path in opened if "environ" in path] == []
    kept = [
        path
        for folder in (users.home(DAEMON), server.data_dir)
        for path in folder.rglob("*")
        if path.is_file()
    ]
    assert len(kept) > 3
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path / "server")
    made.prepare()
    with serving(made):
        yield made


def test_a_job_of_another_user_is_attributed_without_a_look_at_its_environment(
    users: Users, server: Installation
) -> None:
    (code,) = server.codes(1)
    work = _work(users, server.url, code)
    server.manage("worker", "--once")
    books = LedgerDatabase(str(server.data_dir / "labcarbon.sqlite3"))
    (run, project, os_user), *others = books.rows(
        "SELECT r.uuid, p.slug, r.os_user FROM runs_run r LEFT JOIN accounts_project p ON p.id = "
        "r.project_id"
    )
    assert (others, project, os_user) == ([], "demo", str(ALICE))
    key = f"run:{run[:8]}-{run[8:12]}-{run[12:16]}-{run[16:20]}-{run[20:]}"
    first, second = (gpu.key for gpu in users.driver.gpus)
    assert _by_consumer(books, first) == {key: 7_777}
    assert _by_consumer(books, second) == {f"proc:{BOB}/sh": 5_555}
    (processor,) = (
        row[0] for row in books.rows("SELECT key FROM fleet_device WHERE key LIKE 'cpu:%'")
    )
    worked = _by_consumer(books, processor)
    assert worked[key] > 0
    assert worked[f"proc:{BOB}/sh"] > 0
    assert "Wh (" in work.closing
    assert f"/runs/{key[4:]}/" in work.closing
    _nothing_secret(users, work, server)


def test_energy_of_hidden_processes_is_charged_to_unknown(
    users: Users, server: Installation, hidden: tuple[str, ...]
) -> None:
    (code,) = server.codes(1)
    work = _work(users, server.url, code, first=hidden)
    server.manage("worker", "--once")
    books = LedgerDatabase(str(server.data_dir / "labcarbon.sqlite3"))
    first, second = (gpu.key for gpu in users.driver.gpus)
    assert _by_consumer(books, first) == {"unknown": 7_777}
    assert _by_consumer(books, second) == {"unknown": 5_555}
    assert "energy of this run was not measured" in work.closing
    assert "hidepid=2,gid=labcarbon /proc" in work.closing
    _nothing_secret(users, work, server)
