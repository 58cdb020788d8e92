"""The process table reads only processes that ran, and misses nothing. On the real /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from labcarbon_collect.processes import process_table
from labcarbon_collect.processes.process_table import ProcessTable, process_clock
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
    elif word == "thread work":
        thread = threading.Thread(target=lambda: sum(range(3_000_000)))
        thread.start()
        thread.join()
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
    quiet, last = 0, 0
    while quiet < 3 and time.monotonic() < deadline_s:
        line = time.clock_gettime_ns(process_clock(pid))
        quiet, last = (quiet + 1 if line == last else 0), line
        time.sleep(0.02)


def described_processes() -> set[int]:
    """Return the processes of which this one has a descriptor open."""
    pids = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of this listing
            parts = link.readlink().parts
            if parts[1:2] == ("proc",) and parts[2].isdecimal():
                pids.add(int(parts[2]))
    return pids


def pids_of(stats) -> set[int]:
    return {stat.pid for stat in stats}


@pytest.mark.parametrize("threads", [1, 3])
def test_a_process_that_did_not_run_is_read_once(reads, threads):
    with worker() as (pid, tell):
        for _ in range(threads - 1):
            tell("thread")
        wait_until_asleep(pid)
        table = ProcessTable("/proc")
        assert pid in pids_of(table.scan().read)
        first = table.stats[pid]
        assert first.threads == threads
        assert not any(pid in pids_of(table.scan().read) for _ in range(15))
        assert table.stats[pid] is first
        assert reads[pid] == 1


@pytest.mark.parametrize("word", ["work", "child", "thread", "name"])
def test_whatever_a_process_does_is_seen_at_the_next_scan(word):
    with worker() as (pid, tell):
        wait_until_asleep(pid)
        table = ProcessTable("/proc")
        table.scan()
        before = table.stats[pid]
        for _ in range(3):
            tell(word)
            wait_until_asleep(pid)
            assert pid in pids_of(table.scan().read)
            assert table.stats[pid] == read_stat("/proc", pid)
        after = table.stats[pid]
        assert {
            "work": after.cpu_ticks > before.cpu_ticks,
            "child": after.children_ticks > before.children_ticks,
            "thread": after.threads == 4,
            "name": after.comm == "renamed",
        }[word]


def test_the_work_of_any_thread_is_seen():
    with worker() as (pid, tell):
        tell("thread")
        wait_until_asleep(pid)
        table = ProcessTable("/proc")
        table.scan()
        before = table.stats[pid]
        tell("thread work")
        wait_until_asleep(pid)
        assert pid in pids_of(table.scan().read)
        assert table.stats[pid].cpu_ticks > before.cpu_ticks


def test_a_sleeping_process_gets_its_new_parent_when_the_old_one_ends():
    table = ProcessTable("/proc")
    with worker() as (pid, tell):
        child = int(tell("fork"))
        try:
            wait_until_asleep(child)
            table.scan()
            assert table.stats[child].ppid == pid
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            changes = table.scan()
            assert pid in pids_of(changes.ended)
            assert pid not in table.stats
            assert child in pids_of(changes.read)
            assert table.stats[child].ppid == read_stat("/proc", child).ppid != pid
        finally:
            os.kill(child, signal.SIGKILL)


def test_new_and_ended_processes_are_seen_at_the_next_scan():
    table = ProcessTable("/proc")
    table.scan()
    for _ in range(15):
        with subprocess.Popen(["sleep", "60"]) as sleeper:
            assert sleeper.pid in pids_of(table.scan().read)
            assert sleeper.pid in table.stats
            sleeper.kill()
            sleeper.wait()
            changes = table.scan()
            assert sleeper.pid in pids_of(changes.ended)
            assert sleeper.pid not in table.stats


def test_a_process_that_ended_and_one_that_ran_are_distinguished():
    """The clocks after that of an ended process are read too."""
    with worker() as (first, _), worker() as (pid, tell):
        wait_until_asleep(pid)
        table = ProcessTable("/proc")
        table.scan()
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)
        tell("work")
        wait_until_asleep(pid)
        changes = table.scan()
        assert first in pids_of(changes.ended)
        assert pid in pids_of(changes.read)


def test_without_a_new_process_proc_is_listed_rarely(tmp_path, monkeypatch):
    """The kernel counts the started processes. Without this count it is listed each time."""
    tree = ProcTree(tmp_path / "proc")
    listed: list[str] = []
    list_folder = os.listdir
    monkeypatch.setattr(
        process_table.os, "listdir", lambda path: listed.append(path) or list_folder(path)
    )
    for line, expected in ("processes 50\n", 2), ("", 24), ("processes 0\n", 24):
        (tree.root / "stat").write_text(f"cpu 1 2 3\nbtime 5\n{line}procs_running 1\n")
        table = ProcessTable(str(tree.root))
        listed.clear()
        for _ in range(24):
            table.scan()
        assert len(listed) == expected
    (tree.root / "stat").write_text("btime 5\nprocesses 50\n")
    table = ProcessTable(str(tree.root))
    table.scan()
    tree.put(50)
    (tree.root / "stat").write_text("btime 5\nprocesses 51\n")
    assert pids_of(table.scan().read) == {50}


def test_the_processes_of_another_proc_have_no_clock(tmp_path):
    """The clock of the same pid belongs to another process."""
    tree = ProcTree(tmp_path / "proc")
    table = ProcessTable(str(tree.root))
    for cpu in (1, 2, 3):
        tree.put(os.getppid(), cpu=cpu)
        table.scan()
        assert table.stats[os.getppid()].cpu_ticks == cpu


def test_a_kernel_that_counts_no_run_times_has_all_read(monkeypatch):
    monkeypatch.setattr(process_table.time, "clock_gettime_ns", lambda clock: 0)
    with worker() as (pid, _):
        table = ProcessTable("/proc")
        assert all(pid in pids_of(table.scan().read) for _ in range(5))


@pytest.mark.parametrize("limit", [0, 2, 256])
def test_descriptors_are_limited_and_closed(monkeypatch, limit):
    monkeypatch.setattr(process_table, "MAX_DESCRIPTORS", limit)
    table = ProcessTable("/proc")
    table.scan()
    with ExitStack() as stack:
        workers = [stack.enter_context(worker()) for _ in range(4)]
        pids = {pid for pid, _ in workers}
        for _ in range(4):
            for pid, tell in workers:
                tell("work")
                wait_until_asleep(pid)
            assert pids <= pids_of(table.scan().read)
            assert all(table.stats[pid] == read_stat("/proc", pid) for pid in pids)
        assert len(table._descriptors) <= limit
        if limit == 256:
            assert described_processes() >= pids
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        assert pids <= pids_of(table.scan().ended)
        assert not described_processes() & pids


def test_without_clocks_all_are_read(reads, monkeypatch):
    def refuse(clock: int) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(process_table.time, "clock_gettime_ns", refuse)
    with worker() as (pid, _):
        table = ProcessTable("/proc")
        for expected in (1, 2, 3):
            table.scan()
            assert reads[pid] == expected
