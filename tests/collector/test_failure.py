"""Failure classes of commands and exceptions."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from labcarbon_collect.runs.failure import OomKillCounter, classify_exit


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    (tmp_path / "cgroup").write_text("1:name=systemd:/x\n0::/jobs/1\n")
    (tmp_path / "jobs" / "1").mkdir(parents=True)
    (tmp_path / "jobs" / "1" / "memory.events").write_text("low 0\noom 4\noom_kill 2\n")
    return tmp_path


def kills(cgroup: Path) -> OomKillCounter:
    return OomKillCounter(cgroup / "cgroup", cgroup)


@pytest.mark.parametrize(
    ("killed_by", "exit_code", "rises", "found"),
    [
    (signal.SIGKILL, 137, True, "host_memory"), (0, 137, True, "host_memory"),
    (signal.SIGKILL, 137, False, ""), (0, 1, True, ""), (signal.SIGTERM, 143, True, ""),
    (0, 0, False, ""),
],
)  # fmt: skip
def test_the_kernels_counter_and_the_end_must_both_say_so(
    cgroup: Path, killed_by: int, exit_code: int, rises: bool, found: str
) -> None:
    before = kills(cgroup)
    if rises:
        (cgroup / "jobs/1/memory.events").write_text("low 0\noom 5\noom_kill 3\n")
    assert classify_exit(killed_by, exit_code, before) == found


@pytest.mark.parametrize("content", ["", "oom_kill x\n", "oom_kill\n", "oom 1\n"])
def test_an_unreadable_counter_gives_no_failure_class(cgroup: Path, content: str) -> None:
    (cgroup / "jobs/1/memory.events").write_text(content)
    before = kills(cgroup)
    (cgroup / "jobs/1/memory.events").write_text("oom_kill 9\n")
    assert classify_exit(signal.SIGKILL, 137, before) == ""
    (cgroup / "cgroup").unlink()
    assert classify_exit(signal.SIGKILL, 137, kills(cgroup)) == ""
