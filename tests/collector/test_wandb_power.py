"""Energy from power samples: exact sums, gaps, and GPUs that appear and vanish."""

from fractions import Fraction
from itertools import pairwise
from random import Random

from labcarbon_collect.wandb.offline_run import OfflineRun
from labcarbon_collect.wandb.payload import end_facts
from labcarbon_collect.wandb.power import gpu_powers, integrate

S = 1_000_000


def _samples(*rows: tuple[float, dict[int, float]]) -> list[tuple[int, dict[int, Fraction]]]:
    return [(int(at * S), {gpu: Fraction(w) for gpu, w in powers.items()}) for at, powers in rows]


def test_a_trapezoid_for_each_gpu() -> None:
    energy = integrate(_samples((0, {0: 100, 1: 50}), (10, {0: 200, 1: 50})))
    assert energy.by_gpu == {0: 1_500_000, 1: 500_000}
    assert energy.intervals == [(0, 10 * S, 2_000_000)]


def test_one_sample_is_no_energy() -> None:
    assert integrate(_samples((0, {0: 100}))).intervals == []
    assert integrate([]).intervals == []


def test_gaps_are_not_filled() -> None:
    rows = [(at, {0: 100}) for at in (0, 10, 20, 51, 61)]
    energy = integrate(_samples(*rows))
    assert energy.intervals == [(0, 20 * S, 2_000_000), (51 * S, 61 * S, 1_000_000)]
    assert energy.gap_us == 31 * S
    assert integrate(_samples(*rows[:3], (50, {0: 100}))).gap_us == 0


def test_more_than_five_minutes_are_a_gap() -> None:
    assert integrate(_samples((0, {0: 100}), (300, {0: 100}))).by_gpu == {0: 30_000_000}
    energy = integrate(_samples((0, {0: 100}), (301, {0: 100})))
    assert (energy.intervals, energy.gap_us) == ([], 301 * S)


def test_a_gpu_that_vanishes_makes_a_gap() -> None:
    energy = integrate(_samples((0, {0: 1, 1: 1}), (10, {0: 1, 1: 1}), (20, {0: 1}), (30, {0: 1})))
    assert energy.by_gpu == {0: 20_000, 1: 10_000}
    assert energy.gap_us == 10 * S


def test_intervals_of_minutes_add_up_to_the_exact_energy() -> None:
    random = Random(7)
    at, rows = 0.0, []
    for _ in range(500):
        at += random.uniform(10, 15)
        rows.append((at, {0: random.uniform(50, 700), 1: random.uniform(50, 700)}))
    samples = _samples(*rows)
    energy = integrate(samples)
    exact = sum(
        (first[gpu] + second[gpu]) / 2 * (end - start) * 1000 / S
        for (start, first), (end, second) in pairwise(samples)
        for gpu in (0, 1)
    )
    assert sum(mj for _, _, mj in energy.intervals) == round(exact)
    assert abs(sum(energy.by_gpu.values()) - exact) <= 1
    assert all(a[1] == b[0] for a, b in pairwise(energy.intervals))
    assert 90 < len(energy.intervals) < 120


def test_only_the_power_of_whole_gpus_counts() -> None:
    item = {
        "gpu.0.powerWatts": 100, "gpu.process.0.powerWatts": 100, "gpu.0.powerPercent": 30,
        "gpu.1.powerWatts": "NaN", "gpu.4.powerWatts": 4000,
        "gpu.2.powerWatts": True, "gpu.3.powerWatts/l:other": 5,
    }  # fmt: skip
    assert gpu_powers(item) == {0: Fraction(100)}


def test_the_gpus_of_the_runs_processes_count_alone() -> None:
    run = OfflineRun(samples=[(0, {0: Fraction(1), 1: Fraction(2)}), (S, {0: Fraction(1)})])
    assert run.gpu_samples() == run.samples
    run.process_gpus.append(1)
    assert run.gpu_samples() == [(0, {1: Fraction(2)})]


def test_a_run_without_an_end_is_killed_after_a_day() -> None:
    run = OfflineRun(started_us=0, last_us=5 * S)
    assert end_facts(run, is_abandoned=False) is None
    end = end_facts(run, is_abandoned=True)
    assert end is not None
    assert (end["state"], end["ended_at"]) == ("killed", "1970-01-01T00:00:05.000000Z")
    assert "exit_code" not in end
    run.exit_code = 255
    assert (end_facts(run, is_abandoned=False) or {})["state"] == "killed"
