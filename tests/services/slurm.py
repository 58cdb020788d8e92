"""A private Slurm: one node, a real slurmctld, slurmd and slurmdbd on MariaDB and munge, on ports
and in folders of its own.

It needs root, as every slurmd does that starts jobs of others. Munge and MariaDB run as their own
users.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.services.process import ServiceError, end_process, free_port, wait_until
from tests.services.slurm_conf import SLURM, SLURMDBD

PROGRAMS = (
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "sbatch",
    "sacctmgr",
    "mariadbd",
    "mariadb-install-db",
    "munged",
)
CLUSTER = "testlab"
USERS = {"lc-ana": "vision", "lc-ben": "nlp"}  # OS user → Slurm account
_GPUS = 2


def missing() -> str:
    """Return why a private Slurm cannot be started here, or ''."""
    lacking = [name for name in PROGRAMS if _program(name) is None]
    if lacking:
        return (
            f"Slurm is not installed, {lacking[0]} is missing (apt-get install slurm-wlm "
            "slurmdbd mariadb-server munge)"
        )
    if os.geteuid() != 0:
        return "only root can start a Slurm node"
    return ""


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _as(user: str, command: list[str]) -> list[str]:
    account = pwd.getpwnam(user)
    ids = ["--reuid", str(account.pw_uid), "--regid", str(account.pw_gid), "--clear-groups"]
    return ["setpriv", "--pdeathsig", "TERM", *ids, *command]


class Slurm:
    """A running cluster of one node with fake GPU device files."""

    def __init__(self) -> None:
        reason = missing()
        if reason:
            raise ServiceError(reason)
        self.directory = Path(tempfile.mkdtemp(prefix="labcarbon-slurm-"))
        self.directory.chmod(0o755)
        self.node = socket.gethostname().partition(".")[0]
        self.conf = self.directory / "slurm.conf"
        self._running: list[subprocess.Popen[bytes]] = []
        self._made_users: list[str] = []
        try:
            self._start()
        except BaseException as error:
            tails = "\n".join(
                f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}"
                for log in sorted(self.directory.glob("*.log"))
            )
            self.close()
            if isinstance(error, ServiceError):
                raise ServiceError(f"{error}\n{tails}") from error
            raise

    @property
    def environ(self) -> dict[str, str]:
        """What Slurm's programs need to find this cluster."""
        return {"SLURM_CONF": str(self.conf)}

    def _start(self) -> None:
        for name in USERS:
            self._user(name)
        self._folders()
        self._munge()
        self._database()
        self._configure()
        self._daemon("slurmdbd", "-D", "-vv")
        wait_until(
            lambda: self._asks("sacctmgr", "-n", "show", "cluster"),
            what="slurmdbd's first answer",
        )
        self._accounts()
        self._daemon("slurmctld", "-D", "-c")
        wait_until(
            lambda: self._asks("scontrol", "ping"), what="slurmctld's first answer", seconds=60
        )
        self._daemon("slurmd", "-D", "-N", self.node)
        wait_until(
            lambda: "idle" in self.run("sinfo", "-h", "-o", "%T").split(),
            what="an idle node",
            every=0.2,
        )

    def _user(self, name: str) -> None:
        try:
            pwd.getpwnam(name)
        except KeyError:
            command = [
                "useradd",
                "--no-create-home",
                "--home-dir",
                "/nonexistent",
                "--shell",
                "/bin/sh",
                name,
            ]
            subprocess.run(command, check=True, capture_output=True)
            self._made_users.append(name)

    def _folders(self) -> None:
        for name, owner, mode in (
            ("munge", "munge", 0o755),
            ("db", "mysql", 0o700),
            ("dbrun", "mysql", 0o755),
        ):
            folder = self.directory / name
            folder.mkdir()
            account = pwd.getpwnam(owner)
            os.chown(folder, account.pw_uid, account.pw_gid)
            folder.chmod(mode)
        for name in ("state", "spool", "run", "dev"):
            (self.directory / name).mkdir(mode=0o755)
        (self.directory / "work").mkdir()
        (self.directory / "work").chmod(0o1777)

    def _munge(self) -> None:
        folder = self.directory / "munge"
        account = pwd.getpwnam("munge")
        key = folder / "key"
        key.write_bytes(secrets.token_bytes(128))
        os.chown(key, account.pw_uid, account.pw_gid)
        key.chmod(0o400)
        files = {
            "key-file": "key",
            "socket": "socket",
            "log-file": "log",
            "pid-file": "pid",
            "seed-file": "seed",
        }
        options = [f"--{option}={folder / name}" for option, name in files.items()]
        self._popen("munged", _as("munge", [str(_program("munged")), "--foreground", *options]))
        wait_until((folder / "socket").exists, what="munge's socket")

    def _database(self) -> None:
        data, run = self.directory / "db", self.directory / "dbrun"
        plain = ["--no-defaults", f"--datadir={data}"]
        quick = [
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
        ]
        made = subprocess.run(
            _as("mysql", [str(_program("mariadb-install-db")), *plain, *quick]),
            capture_output=True,
            text=True,
            cwd="/",
        )
        if made.returncode:
            raise ServiceError(f"mariadb-install-db: {made.stdout}{made.stderr}")
        options = [
            *plain,
            f"--socket={run / 'sql'}",
            "--skip-networking",
            f"--pid-file={run / 'pid'}",
            "--skip-grant-tables",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-lock-wait-timeout=900",
            f"--tmpdir={run}",
        ]
        self._popen("mariadbd", _as("mysql", [str(_program("mariadbd")), *options]))
        wait_until((run / "sql").exists, what="MariaDB's socket")

    def _configure(self) -> None:
        self.control_port, self.node_port, self.database_port = (
            free_port(),
            free_port(),
            free_port(),
        )
        munge = f"socket={self.directory / 'munge' / 'socket'}"
        for index in range(_GPUS):  # what a job may open is no matter here: Slurm counts the files
            device = self.directory / "dev" / f"nvidia{index}"
            os.mknod(device, 0o600 | 0o020000, os.makedev(1, 3))
        values = {
            "directory": self.directory,
            "munge": munge,
            "node": self.node,
            "control_port": self.control_port,
            "node_port": self.node_port,
            "database_port": self.database_port,
            "gpus": _GPUS,
            "cpus": os.cpu_count(),
            "first_job": secrets.randbelow(800_000) + 1000,
            # as people write it: Slurm itself keeps it in small letters
            "cluster": CLUSTER.title(),
        }
        self._write(
            "slurmdbd.conf",
            0o600,
            SLURMDBD.format(**values),
        )
        self._write(
            "slurm.conf",
            0o644,
            SLURM.format(**values),
        )
        self._write(
            "gres.conf",
            0o644,
            f"Name=gpu Type=h100 File={self.directory}/dev/nvidia[0-{_GPUS - 1}]\n",
        )
        self._write(
            "cgroup.conf",
            0o644,
            "CgroupPlugin=cgroup/v1\n" if not _unified() else "CgroupPlugin=cgroup/v2\n",
        )
        self.epilog("exit 0", task="exit 0")

    def _write(self, name: str, mode: int, text: str) -> None:
        path = self.directory / name
        path.write_text(text, encoding="ascii")
        path.chmod(mode)

    def epilog(self, script: str, *, task: str) -> None:
        """Set what slurmd does after each job (as root), and slurmstepd after each task (as the
        job's user).
        """
        self._write("epilog", 0o755, f"#!/bin/sh\n{script}\n")
        self._write("task-epilog", 0o755, f"#!/bin/sh\n{task}\n")

    def _accounts(self) -> None:
        self.run("sacctmgr", "-i", "add", "cluster", CLUSTER)
        for user, account in USERS.items():
            self.run(
                "sacctmgr", "-i", "add", "account", account, "Description=x", "Organization=lab"
            )
            self.run("sacctmgr", "-i", "add", "user", user, f"Account={account}")

    def _daemon(self, name: str, *options: str) -> None:
        self._popen(name, ["setpriv", "--pdeathsig", "TERM", str(_program(name)), *options])

    def _popen(self, name: str, command: list[str]) -> None:
        environ = {
            **os.environ,
            **self.environ,
            "MYSQL_UNIX_PORT": str(self.directory / "dbrun" / "sql"),
        }
        with (self.directory / f"{name}.out.log").open("ab") as log:
            self._running.append(
                subprocess.Popen(
                    command, stdout=log, stderr=log, cwd="/", env=environ, start_new_session=True
                )
            )

    def _asks(self, *command: str) -> bool:
        for process in self._running:
            if process.poll() is not None:
                raise ServiceError(f"{process.args} ended with {process.returncode}")
        done = subprocess.run(
            command, env={**os.environ, **self.environ}, capture_output=True, timeout=30
        )
        return done.returncode == 0 and b"DOWN" not in done.stdout

    def run(self, *command: str, user: str = "", said: str = "", cwd: str = "/") -> str:
        """Run one of Slurm's programs, as ``user`` if given, and return what it printed."""
        full = _as(user, list(command)) if user else list(command)
        done = subprocess.run(
            full,
            env={**os.environ, **self.environ},
            input=said,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=cwd,
        )
        if done.returncode:
            raise ServiceError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, script: str, *options: str, user: str) -> str:
        """``sbatch`` as a user; returns the job's id."""
        work = self.directory / "work"
        return (
            self.run(
                "sbatch",
                "--parsable",
                f"--output={work}/%j.out",
                *options,
                user=user,
                said=f"#!/bin/sh\n{script}\n",
                cwd=str(work),
            )
            .split(";")[0]
            .strip()
        )

    def output(self, job_id: str) -> str:
        """What a job printed so far."""
        path = self.directory / "work" / f"{job_id}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def state(self, job_id: str) -> str:
        """What slurmctld says the job's state is."""
        return self.run("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T").strip()

    def wait(self, job_id: str, *states: str, seconds: float = 60.0) -> str:
        """Wait until a job is in one of ``states``; return it."""
        wait_until(
            lambda: self.state(job_id) in states,
            what=f"job {job_id}: {states}",
            seconds=seconds,
            every=0.2,
        )
        return self.state(job_id)

    def close(self) -> None:
        """End all jobs and daemons, remove folders and users."""
        with suppress(ServiceError, subprocess.TimeoutExpired, OSError):
            for name in USERS:
                self.run("scancel", "--user", name)
            deadline = time.monotonic() + 10
            while self.run("squeue", "-h", "-t", "R,CG").strip() and time.monotonic() < deadline:
                time.sleep(0.2)
        for process in reversed(self._running):
            end_process(process, signal.SIGTERM)
        shutil.rmtree(self.directory, ignore_errors=True)
        for name in self._made_users:
            subprocess.run(["userdel", name], capture_output=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _unified() -> bool:
    """Whether this machine has the unified hierarchy alone (cgroup v2)."""
    return Path("/sys/fs/cgroup/cgroup.controllers").exists()
