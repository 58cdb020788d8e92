"""Ends of a probe: nothing that it started remains."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.collector.collector_process import Collector, wait_for
from tests.collector.plan.probe_process import SECOND, ProbeRun, prepare


def running(run: ProbeRun) -> list[int]:
    """Return the processes that run the training, zombies apart."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            continue
        is_probe = b"probe_process" in command
        if str(run.folder / "train.py").encode() in command and not is_probe and state != "Z":
            pids.append(int(folder.name))
    return pids


def start_and_wait(run: ProbeRun) -> subprocess.Popen[str]:
    """Start a long probe and wait for its first steps."""
    process = run.start(length_us=600 * SECOND)
    wait_for(lambda: len(run.truth) > 3)
    return process


@pytest.mark.parametrize(
    ("name", "ended_by"),
    [
        ("lines", "interrupt"),
        ("children", "interrupt"),
        ("ignores SIGINT", "terminate"),
        ("ignores SIGTERM", "kill"),
    ],
)
def test_the_command_is_ended_by_the_next_stronger_signal(
    node: Collector, name: str, ended_by: str
) -> None:
    run = prepare(node, name)
    result, _ = run.probe(length_us=3 * SECOND)
    assert result["probe"]["ended_by"] == ended_by
    assert result["probe"]["left_behind"] == []
    assert running(run) == []


def test_a_process_that_left_the_session_is_ended_too(node: Collector) -> None:
    run = prepare(node, "forks away")
    result, _ = run.probe(length_us=3 * SECOND)
    away = [int(text.split()[1]) for _, text in run.truth if text.startswith("away")]
    assert len(away) == 1
    assert not Path(f"/proc/{away[0]}").exists()
    assert result["probe"]["left_behind"] == []
    assert running(run) == []


def test_a_command_that_ends_by_itself_has_no_estimate(node: Collector) -> None:
    run = prepare(node, "ends")
    result, _ = run.probe(length_us=60 * SECOND, work={"steps": 10})
    assert result["probe"]["ended_by"] == "itself"
    assert result["probe"]["exit_code"] == 0
    assert result["probe"]["whole"] is None
    assert "this run is the whole" in result["probe"]["missing"]


def test_a_command_that_fails_has_no_estimate(node: Collector) -> None:
    run = prepare(node, "crashes")
    result, log = run.probe(length_us=60 * SECOND, work={"steps": 10})
    assert result["probe"]["exit_code"] == 1
    assert "the command failed" in result["probe"]["missing"]
    assert "ValueError: bad shape" in log


def test_an_unknown_command_has_no_estimate(node: Collector) -> None:
    result, log = prepare(node, "ends").probe(command=["no-such-command"])
    assert result["probe"]["exit_code"] == 127
    assert "command not found" in log


def test_a_relative_path_of_the_program_is_explained(node: Collector) -> None:
    run = prepare(node, "relative path")
    (run.folder / "table.csv").write_text("1")
    result, _ = run.probe()
    assert result["probe"]["exit_code"] == 1
    assert any("table.csv" in line and "--in-place" in line for line in result["text"])
    assert run.probe(is_in_place=True)[0]["probe"]["exit_code"] == 0


def test_files_outside_the_scratch_folder_are_listed(node: Collector) -> None:
    run = prepare(node, "writes files")
    result, _ = run.probe(length_us=2 * SECOND)
    assert result["probe"]["changed_files"] == ["model.bin"]
    assert not (run.folder / "scratch.bin").exists()
    assert any("Changed files in the current folder: 1" in line for line in result["text"])


def test_the_scratch_folder_is_deleted(node: Collector) -> None:
    _, log = prepare(node, "writes files").probe(length_us=2 * SECOND)
    scratch = next(line for line in log.split("\n") if "folder: " in line).split()[2]
    assert scratch.endswith("/scratch")
    assert not Path(scratch).parent.exists()


def test_ctrl_c_ends_the_probe_with_what_was_measured(node: Collector) -> None:
    run = prepare(node, "lines")
    process = start_and_wait(run)
    process.send_signal(signal.SIGINT)
    output, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    assert '"is_interrupted": true' in output
    assert running(run) == []


def test_ctrl_c_twice_does_not_wait_for_the_command(node: Collector) -> None:
    run = prepare(node, "ignores SIGINT")
    slow = {"interrupt_us": 600 * SECOND}
    process = run.start(length_us=600 * SECOND, timing=slow)
    wait_for(lambda: len(run.truth) > 3)
    process.send_signal(signal.SIGINT)
    wait_for(lambda: len(run.truth) > 20)
    process.send_signal(signal.SIGINT)
    output, log = process.communicate(timeout=60)
    assert '"ended_by": "terminate"' in output, log
    assert running(run) == []


@pytest.mark.parametrize("name", ["lines", "children", "ignores SIGTERM", "forks away"])
def test_nothing_remains_of_a_probe_that_is_killed(node: Collector, name: str) -> None:
    run = prepare(node, name)
    process = run.start(length_us=600 * SECOND)
    wait_for(lambda: len(run.steps) > 3)
    wait_for(lambda: len(run.steps) > 40)  # its processes have been listed meanwhile
    process.kill()
    _, log = process.communicate(timeout=60)
    wait_for(lambda: not running(run), seconds=30)
    scratch = next(line for line in log.split("\n") if "folder: " in line).split()[2]
    wait_for(lambda: not Path(scratch).parent.exists())
