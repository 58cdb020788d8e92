"""Processes of the machine itself are marked. Work of a person never is."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from labcarbon_collect.lc1.consumers import SYSTEM_MARK, is_system
from labcarbon_collect.processes.consumers import ConsumerResolver
from labcarbon_collect.processes.login_definitions import first_person_uid
from labcarbon_collect.pseudonyms import UserNames

from tests.collector.collector_process import Collector, wait_for
from tests.fakes.proc_tree import ProcTree

RUN = "0b1c7d60-0000-4000-8000-000000000001"
SERVICE = "0::/system.slice/cuda-mps.service"
GREETER = "0::/user.slice/user-120.slice/session-c1.scope"
SESSION = "0::/user.slice/user-1000.slice/session-3.scope"
ROOT_SESSION = "0::/user.slice/user-0.slice/session-4.scope"
CONTAINER = f"0::/system.slice/docker-{'a' * 64}.scope"
JOB = "0::/system.slice/slurmstepd.scope/job_17/step_0/user/task_0"
NAMES = {0: "root", 120: "gdm", 1000: "ana", 65534: "nobody"}


@pytest.fixture(autouse=True)
def accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {uid: SimpleNamespace(pw_name=name) for uid, name in NAMES.items()}
    monkeypatch.setattr(
        "labcarbon_collect.pseudonyms.pwd", SimpleNamespace(getpwuid=names.__getitem__)
    )


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    return ProcTree(tmp_path / "proc")


def resolver(tree: ProcTree, users: UserNames | None = None) -> ConsumerResolver:
    return ConsumerResolver(
        str(tree.root),
        cluster="hpc",
        now_ticks=lambda: 0,
        first_uid=1000,
        users=users or UserNames(),
    )


@pytest.mark.parametrize(
    ("uid", "cgroup", "key"),
    [
        (0, SERVICE, "proc:root/x [system account]"),
        (120, SERVICE, "proc:gdm/x [system account]"),
        (120, GREETER, "proc:gdm/x [system account]"),
        (0, "0::/init.scope", "proc:root/x [system account]"),
        (0, "12:cpu:/\n1:name=systemd:/system.slice/a.service", "proc:root/x [system account]"),
        (0, SESSION, "proc:root/x"),  # sudo in the session of a person
        (0, ROOT_SESSION, "proc:root/x"),  # somebody logged in as root
        (0, "0::/", "proc:root/x"),  # everything in a container is root
        (0, "", "proc:root/x"),
        (1000, SERVICE, "proc:ana/x"),  # cron of a person
        (1000, SESSION, "proc:ana/x"),
        (65534, SERVICE, "proc:nobody/x"),
        (0, CONTAINER, f"container:{'a' * 64}"),
        (0, JOB, "job:hpc/17"),
    ],
)
def test_only_services_of_system_accounts_are_marked(
    tree: ProcTree, uid: int, cgroup: str, key: str
) -> None:
    tree.put(50, comm="x", uid=uid, cgroup=cgroup)
    assert resolver(tree).consumer_of(50) == key


def test_a_kernel_thread_is_a_system_process(tree: ProcTree) -> None:
    tree.put(2, comm="kworker/0:1", kernel=True, uid=0)
    assert resolver(tree).consumer_of(2) == "proc:root/kernel [system account]"


def test_a_registered_run_stays_a_run(tree: ProcTree) -> None:
    tree.put(50, uid=0, cgroup=SERVICE)
    consumers = resolver(tree)
    consumers.register(RUN, 50, 0)
    assert consumers.consumer_of(50) == f"run:{RUN}"


def test_a_process_cannot_name_itself_a_system_process(tree: ProcTree) -> None:
    """The kernel cuts a command to 15 characters, so the mark does not fit."""
    assert len(SYSTEM_MARK) > 15
    tree.put(50, comm=SYSTEM_MARK[-15:], cgroup=SESSION)
    assert not is_system(resolver(tree).consumer_of(50))
    assert not is_system(f"job:hpc/1{SYSTEM_MARK}")


@pytest.mark.parametrize(
    ("users", "name"),
    [(UserNames("hash", b"k" * 32), r"u-[0-9a-f]{12}"), (UserNames("drop"), "-")],
)
def test_names_follow_the_setting(tree: ProcTree, users: UserNames, name: str) -> None:
    tree.put(50, comm="gdm-x", uid=120, cgroup=SERVICE)
    key = resolver(tree, users).consumer_of(50)
    assert re.fullmatch(rf"proc:{name}/{name}-x \[system account\]", key)


@pytest.mark.parametrize(
    ("text", "uid"),
    [
        ("# UID_MIN 7\nUID_MIN\t\t 500\nUID_MAX 60000\n", 500),
        ("UID_MIN 1000 # people\n", 1000),
        ("UID_MIN\n", 1000),
        ("UID_MIN -5\n", 1000),
        ("UID_MIN 0\n", 1000),
        ("", 1000),
    ],
)
def test_the_lowest_uid_of_a_person(tmp_path: Path, text: str, uid: int) -> None:
    path = tmp_path / "login.defs"
    path.write_text(text)
    assert first_person_uid(path) == uid


def test_without_login_definitions(tmp_path: Path) -> None:
    assert first_person_uid(tmp_path / "missing") == 1000


DAEMON = """
import os, sys
from labcarbon_collect.daemon.daemon import Daemon, DaemonSettings
from labcarbon_collect.processes.consumers import ConsumerResolver
consumers = ConsumerResolver(sys.argv[1], cluster="hpc", first_uid=1000)
Daemon(os.environ, DaemonSettings(interval_s=10), consumers=consumers).run()
"""


def test_a_daemon_uploads_the_energy_of_system_processes_under_the_mark(
    tmp_path: Path, server, tree: ProcTree
) -> None:
    """A daemon as a process of its own, which reads a made-up /proc."""
    tree.put(40, comm="lightdm", uid=0, cgroup=SERVICE, start=1)
    tree.put(50, comm="train", uid=1000, cgroup=SESSION, start=1)
    node = Collector(tmp_path)
    node.enrol(server.url)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(DAEMON), str(tree.root)], env=node.environ
    )
    try:
        wait_for(node.status)
        wait_for(lambda: server.stored_mj)  # the first window ends at a whole interval
        tree.put(40, cpu=300)
        tree.put(50, cpu=100)
        time.sleep(6)  # process lists are read every 5 s
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    marked = {key: mj for key, mj in server.shares.items() if is_system(key)}
    assert len(marked) == 1
    assert sum(marked.values()) > 0
    people = [key for key in server.shares if key.startswith("proc:") and not is_system(key)]
    assert [key.rpartition("/")[2] for key in people] == ["train"]
    assert sum(server.shares.values()) == server.stored_mj
