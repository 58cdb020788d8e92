"""``plan --probe``: options, output, exit codes."""

from __future__ import annotations

import json
import os
import sys

import pytest
from labcarbon_collect.cli import main

from tests.collector.collector_process import Collector
from tests.collector.plan.probe_process import prepare


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use this process's packages in processes that it starts."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))


@pytest.mark.parametrize("time", ["", "9s", "61m", "x", "1.5m", "-90s"])
def test_an_invalid_time_is_refused(time: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plan", f"--probe={time}", "--", "true"])
    assert "is not a time from 10s to 60m" in capsys.readouterr().err


def test_a_probe_needs_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--probe", "90s"]) == 1
    assert "No command was given" in capsys.readouterr().err


def test_a_command_needs_a_probe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--model", "a:b", "--", "true"]) == 1
    assert "A command is run by --probe only" in capsys.readouterr().err


def test_total_work_is_stated_in_one_way(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--total-steps", "5", "--epochs", "5"]
    with pytest.raises(SystemExit):
        main(["plan", "--probe", "90s", *options, "--", "true"])
    assert "not allowed with" in capsys.readouterr().err


def test_the_result_is_text_on_standard_output(node: Collector) -> None:
    run = prepare(node, "ends")
    node.settings["TRUTH"] = str(node.root / "truth")
    done = node.call("plan", "--probe", "2m", "--", sys.executable, "train.py", cwd=run.folder)
    assert done.returncode == 0, done.stderr
    assert "Steps: 10 seen" in done.stdout
    assert "No estimate of the whole training" in done.stdout
    assert "\nstep 10/10\n" in done.stderr
    assert "\nstep 10/10\n" not in done.stdout


@pytest.mark.parametrize(("name", "code"), [("ends", 0), ("crashes", 1)])
def test_the_result_is_json_on_request(node: Collector, name: str, code: int) -> None:
    run = prepare(node, name)
    node.settings["TRUTH"] = str(node.root / "truth")
    command = [sys.executable, "train.py"]
    done = node.call("plan", "--probe", "10", "--json", "--", *command, cwd=run.folder)
    assert done.returncode == code, done.stderr
    probe = json.loads(done.stdout)["probe"]
    assert probe["version"] == 1
    assert probe["exit_code"] == code
    assert probe["ended_by"] == "itself"
