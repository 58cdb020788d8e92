"""The interface between meters and the collector.

A source only reads meters. It has no windows, runs or network connections. Each source module
registers its class with :func:`register`. A missing meter is a normal result
(:class:`SourceAbsent`), not a failure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Dict, Mapping, Optional, Protocol, Sequence, Tuple

from labcarbon_collect.clock import Clock


class SourceAbsent(Exception):
    """This machine has no such meter, or it may not be read.

    ``reason`` states what is missing, ``fix`` the one command or step that provides it ("" without
    one).
    """

    def __init__(self, reason: str, fix: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.fix = fix


class SourceFailed(Exception):
    """An existing meter did not respond. The daemon retries with backoff."""


@dataclass(frozen=True)
class DeviceInfo:
    """A metered device, as of discovery."""

    # One of gpu:<NVML UUID>, mig:<MIG UUID>, cpu:<node uuid>/<package>, dram:<node uuid>/<package>.
    key: str
    name: str  # as the driver or kernel reports it: "NVIDIA H100 80GB HBM3", "AMD EPYC 9354"
    measurement: str  # nvml_counter, nvml_power, rapl, rapl_model, cpu_model, node_meter, imported
    facts: Mapping[str, str] = field(
        default_factory=dict
    )  # driver version, TDP in W, threads …: displayed, never summed


@dataclass(frozen=True)
class ProcessUse:
    """One process on a GPU at a poll."""

    pid: int
    sm_util_pm: Optional[int] = (
        None  # use of streaming multiprocessors in per mille; None if the driver does not report it
    )
    memory_mib: Optional[int] = None
    slice_share_pm: Optional[int] = (
        None  # MIG: its share of the slices in use, per mille, instead of SM use
    )


@dataclass(frozen=True)
class Reading:
    """One reading of a device.

    ``counter_mj`` is a cumulative counter in millijoules that never wraps within an ``epoch``. A
    source unwraps a counter that wraps, and floors a finer unit on the running total, so that
    differences telescope exactly. A device without a counter (nvml_power, cpu_model) integrates its
    samples into such a total.
    """

    device: str  # key of DeviceInfo
    monotonic_us: int  # CLOCK_MONOTONIC (CLOCK_BOOTTIME where available) at the reading
    wall_us: int  # UTC microseconds since 1970; places energy in time and never measures it
    counter_mj: int
    epoch: (
        str  # changes whenever the counter may have restarted: reboot, driver reload, counter fall
    )
    measurement: str
    power_mw: Optional[int] = None
    util_pm: Optional[int] = None  # device utilisation, per mille
    memory_mib: Optional[int] = None
    # GPU: processes on the device. None: not visible (unknown). (): no process (idle).
    # CPU and DRAM: always None. The daemon divides their energy by CPU time.
    processes: Optional[Tuple[ProcessUse, ...]] = None
    flags: int = 0  # FLAG_* below


FLAG_BRIDGED = (
    1  # energy since the previous reading was partly bridged by power samples (the counter fell)
)
FLAG_RECOVERED = 2  # first window after a restart, for the time without a daemon
FLAG_MERGED = 4  # adjacent windows merged in a full spool


@dataclass(frozen=True)
class Gap:
    """A period with unknown energy of a device."""

    device: str
    epoch: str
    from_us: int  # wall time, UTC µs
    to_us: int
    reason: str  # reboot, driver, counter, lost, wrap, full


@dataclass(frozen=True)
class DeviceProblem:
    """A device that is not measured, or not by its best meter.

    ``device``: its key, "" if its driver does not respond enough to tell it. ``state``: ``lost``
    (it does not respond), ``silent`` (so for ten minutes) or ``power`` (its counter fails, its
    power is integrated).
    """

    device: str
    name: str
    state: str
    reason: str
    since_us: int  # wall time


class Source(Protocol):
    """One kind of meter. ``open`` raises SourceAbsent, ``poll`` raises SourceFailed."""

    name: str  # nvml, rapl, cpu_model, replay …

    def open(self) -> Sequence[DeviceInfo]:
        """Discover the meters and return their devices."""

    def poll(self, now: Callable[[], Clock], *, with_processes: bool) -> Sequence[Reading]:
        """Read all meters one time.

        ``with_processes`` requests the more expensive process lists too. A source may include them
        unrequested after a change.
        """

    def gaps(self) -> Sequence[Gap]:
        """Return the gaps since the last call (epoch changes, wraps, losses) and clear them."""

    def close(self) -> None:
        """Release the driver. Never raises."""


class StoredReading(Protocol):
    """The stored part of a device's last reading (windows.Anchor is one)."""

    @property
    def epoch(self) -> str: ...
    @property
    def boot(self) -> str: ...
    @property
    def counter_mj(self) -> int: ...
    @property
    def mono_us(self) -> int: ...
    @property
    def wall_us(self) -> int: ...


class Resumable(Protocol):
    """A source that can detect over a restart of the collector whether a counter continued.

    ``resume`` is called before ``open`` with the stored readings by device key. Without it the
    source starts a new epoch wherever continuity is unknown.
    """

    def resume(self, last: Mapping[str, StoredReading]) -> None: ...


class DeviceReporter(Protocol):
    """A source whose devices fail and return independently of each other."""

    # Learnt idle power in mW by device key, None if not yet learnt. Set by the monitor.
    learnt_idle_mw: Callable[[str], Optional[int]]

    def take_found(self) -> Sequence[DeviceInfo]:
        """Return the devices that were found since the last call."""

    def problems(self) -> Sequence[DeviceProblem]:
        """Return the devices that are lost or measured by a lesser meter now."""

    def is_asleep(self, device: str) -> bool:
        """Whether the device may be suspended, so that it has no reading."""


SourceFactory = Callable[[str, Mapping[str, str]], Source]  # (node uuid, environment) → source
REGISTRY: Dict[str, SourceFactory] = {}


def register(name: str, factory: SourceFactory) -> SourceFactory:
    """Register a source under ``name``. The order of registration is the order of trust."""
    REGISTRY[name] = factory
    return factory
