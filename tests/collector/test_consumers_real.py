"""Consumers on the real /proc: real children, real users, and no environment read."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest
from labcarbon_collect.doctor import meters
from labcarbon_collect.processes.consumers import ConsumerResolver, RegistrationRefused

from tests.collector.real_users import ALICE, BOB, DAEMON, SHELL_SPIN, running, unprivileged

RUN = str(uuid.UUID(int=7))
SPIN = "import time; end = time.process_time() + {seconds}\nwhile time.process_time() < end: pass\n"


def wait_until(condition):
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come to pass within five seconds")


def cpu_us(resolver, key):
    resolver.snapshot()
    return resolver.cpu_time_us_by_consumer().get(key, 0)


def test_real_process_tree_is_followed_with_its_cpu_time():
    resolver = ConsumerResolver(cluster="here")
    resolver.snapshot()
    with running(
        "sh", "-c", f"read go; {sys.executable} -c '{SPIN.format(seconds=0.2)}' & wait; read stop"
    ) as child:
        resolver.register(RUN, child.pid, os.getuid())
        child.stdin.write("go\n")
        child.stdin.flush()
        wait_until(lambda: cpu_us(resolver, f"run:{RUN}") >= 190_000)
        assert resolver.consumer_of(child.pid) == f"run:{RUN}"
        assert not resolver.consumer_of(os.getpid()).startswith("run:")


def test_short_children_are_counted_at_their_parent():
    resolver = ConsumerResolver(cluster="here")
    resolver.snapshot()
    with running(
        "sh",
        "-c",
        f"read go; {sys.executable} -c '{SPIN.format(seconds=0.1)}'; echo done; read stop",
    ) as child:
        resolver.register(RUN, child.pid, os.getuid())
        child.stdin.write("go\n")
        child.stdin.flush()
        assert child.stdout.readline() == "done\n"
        assert cpu_us(resolver, f"run:{RUN}") >= 90_000


def test_snapshot_is_cheap_and_reads_no_environment():
    """Python's audit lists every opened file. The snapshot must be seen to open at least one."""
    program = (
        "import sys\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == 'open' "
        "else None)\n"
        "from labcarbon_collect.processes.consumers import ConsumerResolver\n"
        "import os\n"
        "who = ConsumerResolver()\n"
        "for _ in range(4): who.snapshot()\n"
        "who.register('r', os.getpid(), os.getuid())\n"
        "who.consumer_of(1)\n"
        "print(sum(name.endswith('/stat') for name in opened), sum('environ' in name for name in "
        "opened),\n"
        "      sum(name.endswith(('/cmdline', '/mem', '/maps')) for name in opened))\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()
    assert int(printed[0]) >= 4
    assert printed[1:] == ["0", "0"]


def test_registration_is_for_ones_own_processes():
    resolver = ConsumerResolver(cluster="here")
    with running("sleep", "30") as child:
        with pytest.raises(RegistrationRefused, match="belongs to another user"):
            resolver.register(RUN, child.pid, os.getuid() + 1)
        resolver.register(RUN, child.pid, os.getuid())
        assert resolver.consumer_of(child.pid) == f"run:{RUN}"


def test_a_process_of_another_user_cannot_be_registered_by_us():
    """Process 1 belongs to root or is hidden. Neither an ordinary user nor Alice can register it,
    even if this process is root.
    """
    with pytest.raises(RegistrationRefused):
        ConsumerResolver(cluster="here").register(RUN, 1, os.getuid() or ALICE)


def run_daemon_work(report, wait, alice, bob):
    """Do the work of a daemon without any permission over the two users."""
    assert os.getresuid() == (DAEMON, DAEMON, DAEMON)
    resolver = ConsumerResolver(cluster="here")
    resolver.snapshot()
    resolver.register("run-of-alice", alice, ALICE)
    for run, pid, uid in (("run-of-bob", alice, BOB), ("run-of-alice", bob, ALICE)):
        try:
            resolver.register(run, pid, uid)
            report("registered another's process")
        except RegistrationRefused:
            report("refused")
    wait()
    resolver.snapshot()
    times = resolver.cpu_time_us_by_consumer()
    report(resolver.consumer_of(alice), resolver.consumer_of(bob))
    report(*(times.get(key, 0) for key in ("run:run-of-alice", "run:run-of-bob", f"proc:{BOB}/sh")))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(
    os.getuid() != 0, reason="only root can start processes of other users; CI runs as root too"
)
def test_an_unprivileged_daemon_and_two_other_users():
    """Daemon, Alice and Bob are three real uids. The daemon has no permission over the others and
    needs none.
    """
    with (
        running("/bin/sh", "-c", SHELL_SPIN, uid=ALICE) as alice,
        running("/bin/sh", "-c", SHELL_SPIN, uid=BOB) as bob,
        unprivileged(DAEMON, run_daemon_work, alice.pid, bob.pid) as daemon,
    ):
        reports = daemon.reports
        assert [reports.readline(), reports.readline()] == ["refused\n", "refused\n"]
        for child in (alice, bob):
            child.stdin.write("go\n")
            child.stdin.flush()
        assert [child.stdout.readline() for child in (alice, bob)] == ["done\n", "done\n"]
        daemon.proceed()
        assert reports.readline() == f"run:run-of-alice proc:{BOB}/sh\n"
        alice_us, bobs_run_us, bob_us = (int(value) for value in reports.readline().split())
        assert alice_us >= 50_000
        assert bobs_run_us == 0
        assert bob_us >= 50_000


def mount_hiding_proc(folder):
    """Mount a /proc that hides processes of other users in an own mount namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x0002_0000):  # CLONE_NEWNS
        return
    for options in (
        ("--make-rprivate", "/"),
        ("-t", "proc", "-o", "hidepid=2", "proc", str(folder)),
    ):
        if subprocess.run(["mount", *options], check=False, stderr=subprocess.DEVNULL).returncode:
            return


def run_daemon_with_hidepid(report, wait, folder, alice):
    if not (folder / "self").exists():
        report("no mount")
        return
    resolver = ConsumerResolver(str(folder), cluster="here")
    resolver.snapshot()
    report(resolver.consumer_of(alice), meters.hidepid_check(str(folder)).state)
    try:
        resolver.register("run-of-alice", alice, ALICE)
    except RegistrationRefused as refused:
        report(refused)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(
    os.getuid() != 0, reason="only root can mount a /proc with hidepid; CI runs as root too"
)
def test_work_of_another_user_is_unknown_with_hidepid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proc")
    for place in (folder, *folder.parents):
        if place == Path(tempfile.gettempdir()):
            break
        place.chmod(
            0o755
        )  # the daemon's user must reach it; with several test workers it is one folder deeper
    with (
        running("/bin/sh", "-c", "read stop", uid=ALICE) as alice,
        unprivileged(
            DAEMON,
            run_daemon_with_hidepid,
            folder,
            alice.pid,
            first=lambda: mount_hiding_proc(folder),
        ) as daemon,
    ):
        lines = daemon.reports.readlines()
    if lines == ["no mount\n"]:
        pytest.skip(
            "this machine lets nobody mount a /proc: the fake /proc shows the same in test_who.py"
        )
    assert lines[0] == "unknown warn\n"
    assert "remount,hidepid=2,gid=labcarbon" in lines[1]
