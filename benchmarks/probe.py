"""Probes of 12 CPU trainings against their complete runs: steps and duration. Times are scaled: a
probe of 9 s (3 s of warm-up) for a training of about 16 s, instead of 90 s (30 s) for hours. A
unit of work is a fixed CPU time, and as root it runs with real-time priority, because other
programs slow the two runs differently.

With --energy: energy of synthetic power series with the mean power and duration of MLPerf results
and the drift that was published for such logs. Public logs of power over time are not part of the
project, so this does not replace a test with them.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from labcarbon_collect.plan.probe.power_samples import PowerSamples
from labcarbon_collect.plan.probe.statistics import StepSeries, estimate_whole, measure_steps

from tests.collector.collector_process import Collector
from tests.collector.plan.probe_process import SECOND, ProbeRun, prepare
from tests.collector.plan.trainings import TRAININGS

MARK_PERCENT, MARK_COUNT = 15, 10
UNIT_S = 0.015
PROBE_S, WARM_UP_S, NEEDED_S, WHOLE_S = 9, 3, 5, 16
# Steps of about WHOLE_S seconds, in units of work per step; pauses in seconds per step.
COSTS = {
    "warm-up": (1.0, 0), "evaluation": (1.5, 0), "stalls": (1.0, 0.2 / 12), "bar": (1.2, 0),
    "silent": (10.0, 0.15), "lines": (1.0, 0), "reports": (1.0, 0), "children": (1.5, 0),
    "rare lines": (1.0, 0), "epochs": (10.0, 0), "noise": (1.28, 0), "first epoch": (1.1, 0),
}  # fmt: skip
EPOCHS = {"bar": 100, "first epoch": 60}
# MLPerf Training v4.0, one node with 8 H100: mean W of the node, mean seconds of a run.
MLPERF = {
    "bert": (6846, 319), "dlrm_dcnv2": (7090, 232), "llama2_70b_lora": (7158, 1688),
    "resnet": (7041, 802), "ssd": (6861, 2171), "unet3d": (7204, 743),
}  # fmt: skip
# Power from 30 to 90 s against the whole run, over 193 runs: P10, P50, P90.
DRIFT_PERCENT = (0, 1, 8)


def complete_run(run: ProbeRun, steps: int) -> int:
    """Return the duration of the complete training in µs."""
    (run.folder.parent / "truth").write_text("")
    started_us = time.monotonic_ns() // 1000
    subprocess.run(
        [sys.executable, "train.py"],
        cwd=run.folder,
        env={**run.environ, "STEPS": str(steps)},
        capture_output=True,
        check=True,
    )
    return time.monotonic_ns() // 1000 - started_us


def probe_training(name: str) -> dict[str, Any]:
    """Probe a training, then run it completely."""
    units, pause_s = COSTS[name]
    steps = max(40, round(WHOLE_S / (units * UNIT_S + pause_s)))
    if name in EPOCHS:
        steps = -(-steps // EPOCHS[name]) * EPOCHS[name]
    with tempfile.TemporaryDirectory() as folder:
        run = prepare(Collector(Path(folder), {"STEPS": str(steps)}), name)
        timing = {"warm_up_us": WARM_UP_S * SECOND, "needed_us": NEEDED_S * SECOND}
        result, log = run.probe(length_us=PROBE_S * SECOND, timing=timing, work={"steps": steps})
        probe = result["probe"]
        true_seen = len(run.steps)
        if probe["steps"] and probe["steps"]["p10_us"] is None:  # counted past the warm-up only
            first_us = run.steps[0][0] + WARM_UP_S * SECOND
            true_seen = sum(at >= first_us for at, _ in run.steps)
        true_us = complete_run(run, steps)
    if probe["whole"] is None:
        return {"name": name, "missing": probe["missing"], "log": log}
    duration = probe["whole"]["duration_us"]
    return {
        "name": name,
        "source": probe["steps"]["source"],
        "steps_percent": (probe["steps"]["seen"] / true_seen - 1) * 100,
        "duration_percent": (duration["p50"] / true_us - 1) * 100,
        "is_inside": duration["p10"] <= true_us <= duration["p90"],
        "true_s": true_us / SECOND,
    }


def trainings() -> bool:
    """Print the errors of all trainings. Returns whether enough are within the mark."""
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", flush=True)
    good = inside = 0
    for name in TRAININGS:
        row = probe_training(name)
        if "missing" in row:
            print(f"{name:12} no estimate: {row['missing']}")
            continue
        errors = (abs(row["steps_percent"]), abs(row["duration_percent"]))
        good += max(errors) <= MARK_PERCENT
        inside += row["is_inside"]
        print(
            f"{name:12} {row['source']:10} steps {row['steps_percent']:+6.1f} %  duration "
            f"{row['duration_percent']:+6.1f} % of {row['true_s']:.1f} s  "
            f"{'inside' if row['is_inside'] else 'outside'} P10-P90",
            flush=True,
        )
    count = len(TRAININGS)
    print(
        f"{good} of {count} within {MARK_PERCENT} % (mark: {MARK_COUNT}), {inside} inside P10-P90"
    )
    return good >= MARK_COUNT


def power_w(chance: random.Random, mean_w: int, seconds: int) -> list[float]:
    """Return the power of each second: a slow start, a drift after 90 s, evaluations, noise."""
    low, middle, high = DRIFT_PERCENT
    drift = chance.choice(
        [chance.uniform(low - 2, low), chance.uniform(low, middle), chance.uniform(middle, high)]
    )
    start_s, every_s = chance.randint(5, 25), chance.randint(40, 120)
    series = []
    for second in range(seconds):
        factor = 0.5 if second < start_s else 1 + (drift / 100 if second < 90 else 0)
        factor *= 0.75 if second > start_s and second % every_s < 4 else 1
        series.append(factor * chance.gauss(1, 0.03))
    scale = mean_w / statistics.fmean(series)
    return [value * scale for value in series]


def estimate_energy(chance: random.Random, mean_w: int, seconds: int) -> tuple[float, bool]:
    """Return the error of a probe's energy in percent, and whether its range contains the truth."""
    series = power_w(chance, mean_w, seconds)
    power, steps, total_mj, at_us = PowerSamples(), [], 0, 0
    for second, watts in enumerate(series[:90]):
        total_mj += round(watts * 1000)
        power.add_run((second + 1) * SECOND, {"gpu:0": total_mj})
    while at_us < 90 * SECOND:
        at_us += round(chance.gauss(0.5, 0.02) * SECOND)
        steps.append((at_us, len(steps)))
    figures = measure_steps(
        StepSeries("output", "step", tuple(steps)), started_us=0, from_us=30 * SECOND
    )
    measured = power.run_power(from_us=30 * SECOND, to_us=90 * SECOND)
    assert figures is not None
    assert measured is not None
    whole = estimate_whole(figures, measured, total_steps=seconds * 2, epoch_steps=None)
    energy = whole.energy_mj
    assert energy is not None
    true_mj = sum(series) * 1000
    return (energy.p50 / true_mj - 1) * 100, energy.p10 <= true_mj <= energy.p90


def energies() -> None:
    """Print the errors of synthetic power series."""
    chance = random.Random(1)
    print("synthetic power series; public logs of power over time were not available")
    for name, (mean_w, seconds) in MLPERF.items():
        rows = [estimate_energy(chance, mean_w, seconds) for _ in range(100)]
        errors = sorted(error for error, _ in rows)
        inside = sum(is_inside for _, is_inside in rows)
        print(
            f"{name:16} P10 {errors[10]:+5.1f} %  P50 {errors[50]:+5.1f} %  P90 "
            f"{errors[90]:+5.1f} %  {inside} % inside P10-P90"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--energy", action="store_true", help="synthetic power series only")
    arguments = parser.parse_args()
    if arguments.energy:
        energies()
        return 0
    if os.geteuid() == 0:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    return 0 if trainings() else 1


if __name__ == "__main__":
    sys.exit(main())
