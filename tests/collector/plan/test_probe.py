"""A probe of real trainings: steps, evaluations, memory, power, the run that it reports."""

from __future__ import annotations

import sys

import pytest

from tests.collector.collector_process import Collector, wait_for
from tests.collector.plan.probe_process import SECOND, prepare
from tests.fakes import labcarbon_server as fakes

SOURCES = {
    "warm-up": "output",
    "evaluation": "output",
    "stalls": "output",
    "bar": "output",
    "lines": "lines",
    "reports": "reports",
    "children": "output",
    "rare lines": "output",
    "noise": "output",
}


def within(value: int, truth: int, percent: int) -> bool:
    return abs(value - truth) * 100 <= truth * percent


@pytest.mark.parametrize("name", SOURCES)
def test_the_steps_of_a_training_are_counted(node: Collector, name: str) -> None:
    run = prepare(node, name)
    result, log = run.probe()
    probe = result["probe"]
    assert probe["steps"]["source"] == SOURCES[name], log
    true_steps = len(run.steps)
    assert abs(probe["steps"]["seen"] - true_steps) <= max(12, true_steps * 15 // 100)
    assert probe["ended_by"] in ("interrupt", "terminate")
    assert probe["left_behind"] == []
    assert probe["process_memory_bytes"] > 1_000_000


def test_the_mean_step_is_that_of_the_training(node: Collector) -> None:
    run = prepare(node, "stalls")
    result, _ = run.probe()
    probe = result["probe"]
    measured = [at for at, _ in run.steps][-probe["steps"]["measured"] :]
    true_us = (measured[-1] - measured[0]) // (len(measured) - 1)
    assert within(probe["steps"]["mean_us"], true_us, 15)


def test_a_silent_training_has_the_rhythm_of_its_cpu_time(node: Collector) -> None:
    run = prepare(node, "silent")
    result, log = run.probe(length_us=9 * SECOND)
    steps = result["probe"]["steps"]
    if steps is None:  # a busy machine hides the rhythm: then no number is given
        assert "no steps were recognised" in result["probe"]["missing"], log
        return
    assert steps["source"] in ("CPU time", "page faults")
    assert steps["p10_us"] is None
    assert result["probe"]["whole"] is None


def test_evaluations_are_separate_from_steps(node: Collector) -> None:
    run = prepare(node, "evaluation")
    result, _ = run.probe(length_us=8 * SECOND, work={"steps": 5000})
    steps = result["probe"]["steps"]
    assert steps["evaluations_us"]
    assert min(steps["evaluations_us"]) > 5 * steps["p50_us"]
    assert steps["evaluation_steps"] == 50
    assert result["probe"]["whole"]["evaluations"] == 100


def test_epochs_count_as_steps_if_nothing_else_does(node: Collector) -> None:
    run = prepare(node, "epochs")
    result, _ = run.probe(length_us=6 * SECOND, work={"epochs": 300})
    assert result["probe"]["steps"]["name"].startswith("epoch ")
    assert result["probe"]["whole"]["steps"] == 300


def test_the_end_is_at_a_step_boundary_for_track(node: Collector) -> None:
    run = prepare(node, "reports")
    result, _ = run.probe(length_us=60 * SECOND, steps=25, timing={"needed_us": 60 * SECOND})
    assert [step for _, step in run.steps] == list(range(1, 25))  # the 25th is in run.log
    assert result["probe"]["steps"]["seen"] == 25
    assert result["probe"]["ended_by"] == "interrupt"
    assert "too few" in result["probe"]["missing"]


def test_the_output_ends_the_probe_after_so_many_steps(node: Collector) -> None:
    run = prepare(node, "lines")
    (run.folder / "train.py").write_text(
        (run.folder / "train.py").read_text().replace('print(f"loss', 'print(f"step {step} loss')
    )
    result, _ = run.probe(length_us=60 * SECOND, steps=20)
    assert result["probe"]["steps"]["seen"] >= 20
    assert result["probe"]["duration_us"] < 50 * SECOND


def test_energy_is_measured_and_counted_as_a_run_of_intent_probe(
    node: Collector, server: fakes.FakeServer
) -> None:
    node.log_in(server.url)
    node.start("--no-upload")
    run = prepare(node, "warm-up")
    result, log = run.probe(length_us=20 * SECOND, work={"steps": 10_000}, project="vision")
    probe = result["probe"]
    assert probe["energy_mj"] > 0, log
    assert probe["power_mw"]["run"]["mean"] > 0
    assert probe["power_mw"]["cpu"] == probe["power_mw"]["node"]
    energy = probe["whole"]["energy_mj"]
    assert energy["p10"] < energy["p50"] < energy["p90"]
    stored = wait_for(lambda: server.runs.get(probe["run"]))
    assert stored["intent"] == "probe"
    assert stored["project"] == "vision"
    assert stored["state"] == "finished"
    assert stored["energy_mj"] == probe["energy_mj"]


def test_without_total_work_there_is_no_estimate(node: Collector) -> None:
    result, _ = prepare(node, "stalls").probe()
    assert result["probe"]["whole"] is None
    assert "the total work is unknown" in result["probe"]["missing"]
    assert result["probe"]["steps"]["p50_us"] > 0


def test_too_short_a_measurement_has_no_estimate(node: Collector) -> None:
    result, _ = prepare(node, "stalls").probe(
        timing={"needed_us": 60 * SECOND}, work={"steps": 1000}
    )
    assert result["probe"]["whole"] is None
    assert "Repeat with a longer --probe" in result["probe"]["missing"]


def test_without_a_daemon_steps_are_measured_and_energy_is_unknown(node: Collector) -> None:
    result, log = prepare(node, "stalls").probe(work={"steps": 1000})
    assert "plan --standalone" in log
    assert result["probe"]["energy_mj"] is None
    assert result["probe"]["whole"]["energy_mj"] is None
    assert any("energy is unknown" in line for line in result["text"])


@pytest.mark.parametrize("is_in_place", [False, True])
def test_the_command_gets_folder_and_variable(node: Collector, is_in_place: bool) -> None:
    run = prepare(node, "ends")
    code = "import os; print('at', os.getcwd(), os.environ['LABCARBON_PROBE'], os.isatty(1))"
    (run.folder / "train.py").write_text(code)
    result, log = run.probe(is_in_place=is_in_place)
    assert (f"at {run.folder} 1 True" in log) == is_in_place
    assert ("/scratch 1 True" in log) != is_in_place
    assert result["probe"]["exit_code"] == 0
    assert "environment: LABCARBON_PROBE=1" in log


def test_a_module_of_the_current_folder_is_found(node: Collector) -> None:
    run = prepare(node, "ends")
    result, log = run.probe(command=[sys.executable, "-m", "train"])
    assert result["probe"]["exit_code"] == 0, log
