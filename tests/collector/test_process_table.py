"""The process table reads only processes that ran, and misses nothing. On the real /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from labcarbon_collect.processes import process_table
from labcarbon_collect.processes.process_table import ProcessTable
from labcarbon_collect.processes.procfs import read_stat

from tests.fakes.proc_tree import ProcTree

WORKER = """
import os, sys, threading, time
for line in sys.stdin:
    word = line.strip()
    if word == "work":
        until_s = time.process_time() + 0.05
        while time.process_time() < until_s:
            pass
    elif word == "child":
        os.system("i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done")
    elif word == "thread":
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    elif word == "name":
        open("/proc/self/comm", "w").write("renamed")
    elif word == "fork":
        pid = os.fork()
        if not pid:
            time.sleep(60)
            os._exit(0)
        print(pid, flush=True)
        continue
    print("done", flush=True)
"""


@contextmanager
def worker():
    """A process that does what it is told, and sleeps in between."""
    with subprocess.Popen(
        [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def tell(word: str) -> str:
            process.stdin.write(word + "\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        tell("start")
        try:
            yield process.pid, tell
        finally:
            process.kill()


@pytest.fixture
def reads(monkeypatch):
    """The number of full reads by pid."""
    counted: Counter[int] = Counter()

    def counting(proc_root, pid):
        counted[pid] += 1
        return read_stat(proc_root, pid)

    monkeypatch.setattr(process_table, "read_stat", counting)
    return counted


def wait_until_asleep(pid: int) -> None:
    """A process that answered may still be on its way back to its next read."""
    deadline_s = time.monotonic() + 10
    quiet, last = 0, b""
    while quiet < 3 and time.monotonic() < deadline_s:
        line = Path(f"/proc/{pid}/schedstat").read_bytes()
        quiet, last = (quiet + 1 if line == last else 0), line
        time.sleep(0.02)


def described_processes() -> set:
    """Return the processes of which this one has a descriptor open."""
    pids = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of this listing
            parts = link.readlink().parts
            if parts[1:2] == ("proc",) and parts[2].isdecimal():
                pids.add(int(parts[2]))
    return pids


def test_a_process_that_did_not_run_is_read_once(reads):
    with worker() as (pid, _):
        wait_until_asleep(pid)
        table = ProcessTable("/proc")
        first = table.scan()[pid]
        assert all(table.scan()[pid] is first for _ in range(5))
        assert reads[pid] == 1


@pytest.mark.parametrize("word", ["work", "child", "thread", "name"])
def test_whatever_a_process_does_is_seen_at_the_next_scan(word):
    with worker() as (pid, tell):
        wait_until_asleep(pid)
        table = ProcessTable("/proc")
        before = table.scan()[pid]
        for _ in range(3):
            tell(word)
            wait_until_asleep(pid)
            assert table.scan()[pid] == read_stat("/proc", pid)
        after = table.scan()[pid]
        assert {
            "work": after.cpu_ticks > before.cpu_ticks,
            "child": after.children_ticks > before.children_ticks,
            "thread": after.threads == 4,
            "name": after.comm == "renamed",
        }[word]


def test_a_sleeping_process_gets_its_new_parent_when_the_old_one_ends():
    table = ProcessTable("/proc")
    with worker() as (pid, tell):
        child = int(tell("fork"))
        try:
            wait_until_asleep(child)
            assert table.scan()[child].ppid == pid
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            scanned = table.scan()
            assert pid not in scanned
            assert scanned[child].ppid == read_stat("/proc", child).ppid != pid
        finally:
            os.kill(child, signal.SIGKILL)


def test_ended_processes_leave_no_descriptor():
    table = ProcessTable("/proc")
    sleepers = [subprocess.Popen(["sleep", "60"]) for _ in range(20)]
    pids = {sleeper.pid for sleeper in sleepers}
    try:
        table.scan()
        assert described_processes() & pids == pids
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
    assert not pids & set(table.scan())
    assert not described_processes() & pids


def test_without_descriptors_all_are_read(reads):
    with worker() as (pid, _):
        table = ProcessTable("/proc", max_descriptors=0)
        assert table.scan()[pid] == table.scan()[pid]
        assert reads[pid] == 2


@pytest.mark.parametrize("line", [None, "0 0 0\n"])
def test_a_kernel_that_counts_no_run_times_has_all_read(tmp_path, line):
    tree = ProcTree(tmp_path / "proc")
    table = ProcessTable(str(tree.root))
    for cpu in (1, 2, 3):
        tree.put(50, cpu=cpu)
        if line is not None:
            (tree.root / "50" / "schedstat").write_text(line)
        assert table.scan()[50].cpu_ticks == cpu
