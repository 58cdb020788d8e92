"""Integrated power of simulated sensors: averages of 25 to 1 000 ms, short and long kernels."""

from __future__ import annotations

import math
import random

import pytest
from labcarbon_collect.clock import Clock
from labcarbon_collect.sources.nvidia import power_integration
from labcarbon_collect.sources.nvidia.power_integration import PowerSampler, SensorInterval

from tests.collector.nvml_bench import START_US
from tests.fakes.nvml_state import CAN_FIELD_AVERAGE, CAN_FIELD_INSTANT, CAN_POWER

LOW_MW, HIGH_MW = 80_000, 650_000
# Length of a kernel and its pause in ms.
KERNELS = {
    "7 ms of 20": (7, 13),
    "15 ms of 40": (15, 25),
    "60 ms of 100": (60, 40),
    "90 ms of 300": (90, 210),
    "700 ms of 1000": (700, 300),
    "2 s of 5": (2000, 3000),
}
SECONDS = 60


class Sensor:
    """The power field of a card: the average of ``window_ms``, new each ``update_ms``."""

    key, name = "gpu:simulated", "simulated"

    def __init__(self, kernel_ms: int, pause_ms: int, window_ms: int, update_ms: int) -> None:
        self.kernel_us, self.period_us = kernel_ms * 1000, (kernel_ms + pause_ms) * 1000
        self.window_us, self.update_us = window_ms * 1000, update_ms * 1000
        self.at_us = 5_000_000_000
        self.noise = random.Random(7)
        self.noises: dict[int, int] = {}

    def __call__(self) -> Clock:
        return Clock(self.at_us, START_US + self.at_us)

    def timer(self) -> float:
        return self.at_us / 1e6

    def energy_nj(self, until_us: int) -> int:
        periods, rest_us = divmod(until_us, self.period_us)
        busy_us = periods * self.kernel_us + min(rest_us, self.kernel_us)
        return busy_us * HIGH_MW + (until_us - busy_us) * LOW_MW

    def power_mw(self) -> int:
        updated_us = self.at_us // self.update_us * self.update_us
        mean = (
            self.energy_nj(updated_us) - self.energy_nj(updated_us - self.window_us)
        ) // self.window_us
        noise = self.noises.setdefault(updated_us, self.noise.randint(-500, 500))
        return mean + noise

    def is_suspended(self) -> bool:
        return False


def integrated_error(sensor: Sensor, seconds: int = SECONDS) -> tuple[float, PowerSampler]:
    """Return the relative error of the integral over the last seconds, after a warm-up of 10 s."""
    sampler = PowerSampler(sensor, threaded=False, timer=sensor.timer)
    sampler.add(sensor)
    start_us = sensor.at_us

    def run_until(end_us: int) -> int:
        while sensor.at_us < end_us:
            sensor.at_us += math.ceil(sampler.next_wait_s() * 1_000_000)
            sampler.sample_due()
        return sampler.sample(sensor, sensor).total_mj

    first_mj, first_us = run_until(start_us + 10_000_000), sensor.at_us
    last_mj = run_until(start_us + (10 + seconds) * 1_000_000)
    true_mj = (sensor.energy_nj(sensor.at_us) - sensor.energy_nj(first_us)) / 1e6
    return (last_mj - first_mj) / true_mj - 1, sampler


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("window_ms", "update_ms"), [(25, 25), (100, 100), (1000, 100), (1000, 1000)]
)
def test_integrated_power_is_within_five_percent(window_ms, update_ms, kernel):
    random.seed(20)
    error, _ = integrated_error(Sensor(*KERNELS[kernel], window_ms, update_ms))
    assert abs(error) <= 0.05


@pytest.mark.parametrize("update_ms", [25, 100, 1000])
def test_the_update_interval_of_the_sensor_is_found(update_ms):
    random.seed(21)
    _, sampler = integrated_error(Sensor(60, 40, update_ms, update_ms))
    found_us = sampler.interval_us(Sensor(60, 40, update_ms, update_ms))
    if update_ms == 1000:
        assert found_us is None or found_us >= 900_000
    else:
        assert found_us == pytest.approx(update_ms * 1000, abs=6_000)


def test_a_constant_sensor_is_not_searched():
    sensor = SensorInterval()
    for at_us in range(0, 10_000_000, 100_000):
        sensor.add(at_us, 50_000)
        assert sensor.wait_s() >= power_integration.MIN_INTERVAL_S
    assert sensor.interval_us is None


def test_a_fast_sensor_is_sampled_faster_and_a_slow_one_not():
    waits = {}
    for update_ms in (25, 1000):
        random.seed(22)
        sensor = Sensor(60, 40, update_ms, update_ms)
        _, sampler = integrated_error(sensor, 5)
        sampled = sampler._sampled[sensor.key]
        waits[update_ms] = [sampled.sensor.wait_s() for _ in range(50)]
    assert max(waits[25]) <= 0.031
    assert min(waits[1000]) >= 0.1


def test_a_gpu_without_a_counter_integrates_the_averaged_field(bench):
    machine = bench("hopper")
    gpu = machine.driver.gpus[0]
    gpu.set_power(300_000)
    power_mw = machine.source._gpus[0].gpu.power_mw
    for capabilities, expected_mw in (
        (CAN_FIELD_AVERAGE, 300_000),
        (CAN_FIELD_INSTANT, None),
        (CAN_POWER, 300_000),
        (0, None),
    ):
        gpu.set(capabilities=capabilities)
        assert power_mw() == expected_mw
