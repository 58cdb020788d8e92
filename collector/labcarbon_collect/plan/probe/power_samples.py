"""Power, utilization and memory of this node's devices during a probe, from the daemon."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from labcarbon_collect.config import client_sockets
from labcarbon_collect.ipc.client import Client, DaemonUnavailable, response_error
from labcarbon_collect.plan.probe.statistics import (
    MILLION,
    PowerFigures,
    divide,
    measure_power,
    successive,
)
from labcarbon_collect.startup_timeout import STARTUP_TIMEOUT_S

GPU, CPU, NODE = "gpu", "cpu", "node"
_KINDS = {"gpu": GPU, "mig": GPU, "cpu": CPU, "dram": CPU, "node": NODE}


@dataclass
class DeviceSamples:
    """Readings of one device, each with its moment in µs. Unknown values are left out."""

    power_mw: List[Tuple[int, int]] = field(default_factory=list)
    util_pm: List[Tuple[int, int]] = field(default_factory=list)
    memory_mib: List[Tuple[int, int]] = field(default_factory=list)


@dataclass
class PowerSamples:
    """Readings of all devices, and the energy attributed to the run."""

    devices: Dict[str, DeviceSamples] = field(default_factory=dict)
    run_mj: Dict[str, List[Tuple[int, int]]] = field(default_factory=dict)

    def add_devices(self, at_us: int, rows: object) -> None:
        """Add the daemon's response to ``top``."""
        for row in rows if isinstance(rows, list) else ():
            samples = self.devices.setdefault(str(row.get("device")), DeviceSamples())
            for name in ("power_mw", "util_pm", "memory_mib"):
                if isinstance(row.get(name), int):
                    getattr(samples, name).append((at_us, row[name]))

    def add_run(self, at_us: int, by_device: object) -> None:
        """Add the daemon's response to ``so_far``."""
        for device, energy_mj in (by_device if isinstance(by_device, Mapping) else {}).items():
            self.run_mj.setdefault(device, []).append((at_us, energy_mj))

    def power(self, kind: str, *, from_us: int, to_us: int) -> Optional[PowerFigures]:
        """Return the power of all devices of a kind together. The node's is its own meter's, else
        the sum of its devices.
        """
        devices = [device for device in self.devices if device_kind(device) == kind]
        if kind == NODE and not devices:
            devices = list(self.devices)
        by_moment: Dict[int, int] = {}
        counts: Dict[int, int] = {}
        for device in devices:
            for at_us, power_mw in self.devices[device].power_mw:
                by_moment[at_us] = by_moment.get(at_us, 0) + power_mw
                counts[at_us] = counts.get(at_us, 0) + 1
        moments = sorted(at for at in by_moment if from_us <= at <= to_us)
        complete = [at for at in moments if counts[at] == len(devices)]
        return measure_power(
            [(later - earlier, by_moment[later]) for earlier, later in successive(complete)]
        )

    def run_power(self, *, from_us: int, to_us: int) -> Optional[PowerFigures]:
        """Return the power attributed to the run. The daemon divides energy every few seconds;
        intervals reach from one change to the next.
        """
        parts = [
            _intervals([(at, mj) for at, mj in rows if from_us <= at <= to_us])
            for rows in self.run_mj.values()
        ]
        parts = [part for part in parts if part]
        if not parts:
            return None
        figures = [figure for figure in map(measure_power, parts) if figure is not None]
        return PowerFigures(
            sum(figure.mean_mw for figure in figures),
            sum(figure.p10_mw for figure in figures),
            sum(figure.p90_mw for figure in figures),
            max(figure.variation_ppm for figure in figures),
        )

    def gpu_memory_mib(self) -> Optional[Tuple[int, int]]:
        """Return the GPU memory in use at the first reading and at its peak, summed over GPUs."""
        gpus = [
            samples.memory_mib
            for device, samples in self.devices.items()
            if device_kind(device) == GPU and samples.memory_mib
        ]
        if not gpus:
            return None
        return (
            sum(readings[0][1] for readings in gpus),
            sum(max(value for _, value in readings) for readings in gpus),
        )

    def gauges(self) -> Dict[str, List[Tuple[int, int]]]:
        """Return the series of GPUs in which a rhythm may be visible."""
        series = {}
        for device, samples in self.devices.items():
            if device_kind(device) == GPU:
                series[f"utilization of {device}"] = samples.util_pm
                series[f"power of {device}"] = samples.power_mw
        return series


class PowerSampler:
    """A thread that queries the daemon once per second."""

    def __init__(self, run: str, interval_us: int) -> None:
        self.samples = PowerSamples()
        self._run, self._interval_us = run, interval_us
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="power-samples", daemon=True)
        self._thread.start()

    def stop(self) -> PowerSamples:
        """End the thread and return what it collected."""
        self._stop.set()
        self._thread.join(STARTUP_TIMEOUT_S)
        return self.samples

    def _sample(self) -> None:
        while not self._stop.is_set():
            try:
                with closing(Client(client_sockets(os.environ), timeout_s=1.0)) as client:
                    self._sample_with(client)
            except DaemonUnavailable:
                self._stop.wait(self._interval_us / MILLION)

    def _sample_with(self, client: Client) -> None:
        while not self._stop.is_set():
            response = client.call({"op": "top"}, timeout_s=STARTUP_TIMEOUT_S)
            self.samples.add_devices(now_us(), _valid(response).get("devices"))
            response = client.call({"op": "so_far", "run": self._run}, timeout_s=STARTUP_TIMEOUT_S)
            self.samples.add_run(now_us(), _valid(response).get("by_device"))
            self._stop.wait(self._interval_us / MILLION)


def device_kind(device: str) -> str:
    """Return gpu, cpu or node for the key of a device."""
    return _KINDS.get(device.partition(":")[0], "")


def now_us() -> int:
    """Return the monotonic clock in µs."""
    return time.monotonic_ns() // 1000


def _valid(response: Mapping[str, Any]) -> Mapping[str, Any]:
    return {} if response_error(response) else response


def _intervals(rows: List[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """Return length in µs and mW between changes of an energy total."""
    changes = [later for earlier, later in successive(rows) if later[1] != earlier[1]]
    return [
        (later[0] - earlier[0], divide((later[1] - earlier[1]) * MILLION, later[0] - earlier[0]))
        for earlier, later in successive(changes)
    ]
