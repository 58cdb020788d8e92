"""``run --wait-greenest`` waits for the greenest start, and never prevents the command."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from labcarbon_collect.errors import CommandError
from labcarbon_collect.runs.greenest_start import find_obstacle, parse_latest_start

from tests.collector.collector_process import Collector, wait_for
from tests.fakes import labcarbon_server as fakes

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC).astimezone()
OPTIONS = ("run", "--no-check", "--wait-greenest")


def response(start: datetime | None, *, zone: str | None = "DE") -> dict[str, Any]:
    """Return a response with 200 g/kWh at ``start`` and 400 g/kWh now."""
    values = {"ug_per_kwh": 200_000_000, "sources": ["usual"]}
    best = start and {"start": f"{start.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", **values}
    now = {"start": "2026-01-01T00:00Z", "ug_per_kwh": 400_000_000, "sources": ["usual"]}
    return {"site": "Room 1", "zone": zone, "best": best, "now": now, "hours": []}


def run(person: Collector, script: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return person.call(*OPTIONS, *options, "--", "python3", script.name, cwd=script.parent)


def test_it_waits_and_then_starts(
    person: Collector, script: Path, server: fakes.FakeServer
) -> None:
    done = run(person, script, "--hours", "3", "--latest-start", "2026-01-01T00:00")
    assert done.returncode != 0
    assert "--latest-start" in done.stderr
    assert "trained" not in done.stdout
    start = (datetime.now(UTC) + timedelta(seconds=9)).replace(microsecond=0)
    server.greener_hours = response(start)
    done = run(person, script, "--hours", "3")
    assert time.time() >= start.timestamp()
    assert (done.returncode, done.stdout) == (0, "trained\n")
    local = start.astimezone()
    assert f"{local:%H:%M %Z}" in done.stderr
    assert "200 g/kWh (mean of the last 28 days), 50 % less than now (400 g/kWh)" in done.stderr
    [request] = server.sent("GET", "greener-hours/")
    query = parse_qs(urlsplit(request.path).query)
    assert query["duration_hours"] == ["3"]
    latest = datetime.fromisoformat(query["latest_start"][0])
    assert timedelta(hours=23) < latest - datetime.now(UTC) <= timedelta(hours=24)


def test_ctrl_c_starts_the_command_at_once(
    person: Collector, script: Path, server: fakes.FakeServer
) -> None:
    server.greener_hours = response(datetime.now(UTC) + timedelta(hours=5))
    command = [*OPTIONS, "--", "python3", script.name]
    process = person.popen(
        *command, cwd=script.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    assert "Ctrl-C starts the command now" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "trained\n")
    assert "the command starts now" in errors


def test_sigterm_ends_the_wait_without_a_start(
    person: Collector, script: Path, server: fakes.FakeServer
) -> None:
    server.greener_hours = response(datetime.now(UTC) + timedelta(hours=5))
    process = person.popen(
        *OPTIONS, "--", "python3", script.name, cwd=script.parent,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    wait_for(lambda: server.sent("GET", "greener-hours/"))
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert output == ""


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (None, "has no forecast"),
        (response(None), "unknown"),
        (response(None, zone=None), "has no grid zone"),
        ({"x": 1}, "unknown format"),
        (response(datetime.now(UTC) - timedelta(minutes=30)), "No later start is greener"),
    ],
)
def test_without_a_greener_start_the_command_starts(
    person: Collector, script: Path, server: fakes.FakeServer, answer: Any, text: str
) -> None:
    server.greener_hours = answer
    done = run(person, script)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert text in done.stderr


def test_a_server_that_is_down_does_not_prevent_the_command(
    person: Collector, script: Path
) -> None:
    person.log_in("http://127.0.0.1:9")
    done = run(person, script)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "Not waiting for a greener hour" in done.stderr


def test_a_job_of_a_scheduler_does_not_wait(
    person: Collector, script: Path, server: fakes.FakeServer
) -> None:
    server.greener_hours = response(datetime.now(UTC) + timedelta(hours=5))
    person.settings["SLURM_JOB_ID"] = "17"
    done = run(person, script)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "Slurm job" in done.stderr
    assert server.sent("GET", "greener-hours/") == []


@pytest.mark.parametrize("options", [("--latest-start", "18:00"), ("--hours", "3")])
def test_options_without_the_wait_are_refused(
    person: Collector, script: Path, options: tuple[str, ...]
) -> None:
    done = person.call("run", *options, "--", "python3", script.name, cwd=script.parent)
    assert done.returncode == 1
    assert f"{options[0]} has no effect without --wait-greenest" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("hours", ["0", "169", "4h", "-1", "1.5", "9" * 5000])
def test_impossible_lengths_are_refused(person: Collector, script: Path, hours: str) -> None:
    done = run(person, script, f"--hours={hours}")
    assert done.returncode == 2
    assert "is not 1 to 168 whole hours" in done.stderr
    assert done.stdout == ""


def test_a_parent_that_holds_a_gpu(tmp_path: Path) -> None:
    """A notebook kernel (pid 20) has a GPU open; the shell (30) and the command (40) have not."""
    for pid, ppid in ((20, 10), (30, 20), (40, 30), (10, 1)):
        folder = tmp_path / str(pid) / "fd"
        folder.mkdir(parents=True)
        fields = " ".join(["0"] * 48)
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a ) b) S {ppid} {fields}\n")
        (folder / "3").symlink_to("/dev/nvidiactl")
        (folder / "4").symlink_to("/dev/null")
    assert find_obstacle({}, 40, proc=str(tmp_path)) == ""
    (tmp_path / "20" / "fd" / "5").symlink_to("/dev/nvidia0")
    assert re.match("process 20 holds a GPU", find_obstacle({}, 40, proc=str(tmp_path)))
    assert find_obstacle({}, 10, proc=str(tmp_path)) == ""


@pytest.mark.parametrize(
    ("text", "hours"),
    [("23:59", None), ("00:00", None)],
)
def test_a_clock_time_is_its_next_occurrence(text: str, hours: None) -> None:
    latest = parse_latest_start(text, NOON)
    assert NOON <= latest <= NOON + timedelta(hours=25)
    assert f"{latest:%H:%M}" == text


def test_a_time_with_an_offset() -> None:
    assert parse_latest_start("2026-11-28T18:00+05:00", NOON) == datetime(
        2026, 11, 28, 13, tzinfo=UTC
    )


@pytest.mark.parametrize(
    "text", ["", "25:00", "tomorrow", "2026-11-26T18:00", "2026-12-26T18:00", "9999-12-31T23:59"]
)
def test_impossible_times(text: str) -> None:
    with pytest.raises(CommandError, match="Write it like 18:00"):
        parse_latest_start(text, NOON)
