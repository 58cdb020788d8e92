"""What a source is: the seam between a meter and the rest of the collector.

A source reads meters and nothing else. It keeps no windows, knows no runs and opens no network. Every module in this
folder registers its class with :func:`register`; absence of a meter is an answer (:class:`SourceAbsent`), not a failure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Dict, Mapping, Optional, Protocol, Sequence, Tuple

from labcarbon_collect.clock import Clock


class SourceAbsent(Exception):
    """This machine has no such meter, or we may not read it.

    ``why`` says what is missing, ``mend`` is the one command or step that would bring it ("" when nothing can).
    """

    def __init__(self, reason: str, fix: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.fix = fix


class SourceFailed(Exception):
    """A meter that was there did not answer this time. The daemon retries with back-off."""


@dataclass(frozen=True)
class DeviceInfo:
    """A thing with a meter, as found at discovery."""

    key: str  # "gpu:<NVML UUID>", "mig:<MIG UUID>", "cpu:<node uuid>/<package>", "dram:<node uuid>/<package>"
    name: str  # as the driver or kernel reports it: "NVIDIA H100 80GB HBM3", "AMD EPYC 9354"
    measurement: str  # nvml_counter, nvml_power, rapl, rapl_model, cpu_model, node_meter, imported
    facts: Mapping[str, str] = field(default_factory=dict)  # driver version, TDP in W, threads …: shown, never summed


@dataclass(frozen=True)
class ProcessUse:
    """One process seen on a GPU at a poll."""

    pid: int
    sm_util_pm: Optional[int] = None  # streaming-multiprocessor use in per mille; None where the driver does not say
    memory_mib: Optional[int] = None
    slice_share_pm: Optional[int] = None  # MIG: its part of the slices in use, per mille; stands in for SM use


@dataclass(frozen=True)
class Reading:
    """What one device's meter said at one moment.

    ``counter_mj`` is a never-wrapping cumulative counter in millijoules within one ``epoch``: a source unwraps a counter
    that wraps and floors a finer unit *once*, on the running total, so that differences telescope exactly. A device
    without a counter (nvml_power, cpu_model) integrates its own samples into such a total.
    """

    device: str  # key of DeviceInfo
    monotonic_us: int  # CLOCK_MONOTONIC (CLOCK_BOOTTIME where available) at the reading
    wall_us: int  # UTC microseconds since 1970, only ever used to place energy, never to measure it
    counter_mj: int
    epoch: str  # changes when the counter can have restarted: reboot, driver reload, counter fall
    measurement: str
    power_mw: Optional[int] = None
    util_pm: Optional[int] = None  # device utilisation, per mille
    memory_mib: Optional[int] = None
    # GPU: processes on the device. None = we may not see them (unknown); () = seen, nobody there (idle).
    # CPU and DRAM: always None; the daemon splits them by CPU time (who.py).
    processes: Optional[Tuple[ProcessUse, ...]] = None
    flags: int = 0  # FLAG_* below


FLAG_BRIDGED = 1  # part of the energy since the previous reading was bridged by power samples (counter fell)
FLAG_RECOVERED = 2  # first window after a restart: the gap while no daemon ran
FLAG_MERGED = 4  # adjacent windows merged in a full spool


@dataclass(frozen=True)
class Gap:
    """Time for which a device's energy is not known."""

    device: str
    epoch: str
    from_us: int  # wall time, UTC µs
    to_us: int
    reason: str  # reboot, driver, lost, wrap, full


class Source(Protocol):
    """One kind of meter. ``open`` raises SourceAbsent; ``poll`` raises SourceFailed."""

    name: str  # nvml, rapl, cpu_model, replay …

    def open(self) -> Sequence[DeviceInfo]:
        """Find the meters and return what they measure."""

    def poll(self, now: Callable[[], Clock], *, with_processes: bool) -> Sequence[Reading]:
        """Read every meter once. ``with_processes`` asks for the (dearer) process lists too; a source may give them unasked
        when it sees that they changed."""

    def gaps(self) -> Sequence[Gap]:
        """Hand over, once, the gaps seen since the last call (epoch changes, wraps, loss)."""

    def close(self) -> None:
        """Let go of the driver. Never raises."""


class StoredReading(Protocol):
    """What is stored of a device's last reading (windows.Anchor is one)."""

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
    """A source that can tell, over a restart of the collector, whether a counter ran on unbroken.

    ``resume`` is called before ``open``, if the source has it, with what was stored by device key. Without it such a
    source begins a new epoch wherever it cannot know.
    """

    def resume(self, last: Mapping[str, StoredReading]) -> None: ...


SourceFactory = Callable[[str, Mapping[str, str]], Source]  # (node uuid, environment) → source
REGISTRY: Dict[str, SourceFactory] = {}


def register(name: str, factory: SourceFactory) -> SourceFactory:
    """Make a source known under ``name``. Order of registration is order of trust."""
    REGISTRY[name] = factory
    return factory
