"""Power of devices and of the run, from responses of the daemon."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labcarbon_collect.plan.probe.power_samples import CPU, GPU, NODE, PowerSamples, device_kind

SECOND = 1_000_000


def row(device: str, power_mw: int | None, memory_mib: int | None = None) -> dict[str, Any]:
    return {"device": device, "power_mw": power_mw, "util_pm": 900, "memory_mib": memory_mib}


def samples(*devices: dict[str, Any], seconds: int = 10) -> PowerSamples:
    power = PowerSamples()
    for second in range(seconds):
        power.add_devices(second * SECOND, list(devices))
    return power


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        ("gpu:GPU-1", GPU),
        ("mig:MIG-1", GPU),
        ("cpu:node/0", CPU),
        ("dram:node/0", CPU),
        ("node:node", NODE),
        ("other", ""),
    ],
)
def test_devices_have_a_kind(device: str, kind: str) -> None:
    assert device_kind(device) == kind


def test_the_node_is_the_sum_of_its_devices() -> None:
    power = samples(row("gpu:a", 300_000), row("gpu:b", 200_000), row("cpu:n/0", 90_000))
    mean = {
        kind: figures.mean_mw
        for kind in (GPU, CPU, NODE)
        if (figures := power.power(kind, from_us=0, to_us=10 * SECOND))
    }
    assert mean == {GPU: 500_000, CPU: 90_000, NODE: 590_000}


def test_a_meter_of_the_node_precedes_the_sum() -> None:
    power = samples(row("gpu:a", 300_000), row("node:n", 500_000))
    figures = power.power(NODE, from_us=0, to_us=10 * SECOND)
    assert figures is not None
    assert figures.mean_mw == 500_000


def test_unknown_power_is_not_zero() -> None:
    power = samples(row("gpu:a", None))
    assert power.power(GPU, from_us=0, to_us=10 * SECOND) is None
    assert power.power(CPU, from_us=0, to_us=10 * SECOND) is None
    assert power.run_power(from_us=0, to_us=10 * SECOND) is None
    assert power.gpu_memory_mib() is None


def test_a_moment_without_all_devices_is_left_out() -> None:
    power = samples(row("gpu:a", 100_000), row("gpu:b", 100_000))
    power.add_devices(10 * SECOND, [row("gpu:a", 100_000), row("gpu:b", None)])
    figures = power.power(GPU, from_us=0, to_us=20 * SECOND)
    assert figures is not None
    assert (figures.mean_mw, figures.p10_mw) == (200_000, 200_000)


def test_only_the_measured_time_counts() -> None:
    power = samples(row("gpu:a", 100_000))
    for second in range(10, 20):
        power.add_devices(second * SECOND, [row("gpu:a", 400_000)])
    figures = power.power(GPU, from_us=10 * SECOND, to_us=20 * SECOND)
    assert figures is not None
    assert figures.mean_mw == 400_000


@given(st.integers(1, 10), st.integers(1, 900))
def test_the_power_of_the_run_is_that_between_changes(step_s: int, watts: int) -> None:
    power = PowerSamples()
    for second in range(90):
        energy_mj = second // step_s * step_s * watts * 1000
        power.add_run(second * SECOND, {"gpu:a": energy_mj, "cpu:n/0": energy_mj})
    figures = power.run_power(from_us=0, to_us=90 * SECOND)
    assert figures is not None
    assert figures.mean_mw == 2 * watts * 1000


def test_gpu_memory_has_its_peak_and_its_start() -> None:
    power = samples(row("gpu:a", 1, 500), row("gpu:b", 1, 0), seconds=1)
    power.add_devices(SECOND, [row("gpu:a", 1, 9000), row("gpu:b", 1, 100)])
    power.add_devices(2 * SECOND, [row("gpu:a", 1, 700), row("gpu:b", 1, 200)])
    assert power.gpu_memory_mib() == (500, 9200)


def test_a_rhythm_is_looked_for_in_gpus_only() -> None:
    power = samples(row("gpu:a", 100_000), row("cpu:n/0", 50_000))
    assert sorted(power.gauges()) == ["power of gpu:a", "utilization of gpu:a"]
