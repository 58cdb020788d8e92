"""The sources of this machine, opened, polled, and retried with back-off when they fail."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect import sources
from labcarbon_collect.clock import Clock
from labcarbon_collect.sources.base import REGISTRY, DeviceInfo, Reading, Source, SourceAbsent, SourceFailed, StoredReading

ABSENT, MEASURING, FAILED = "absent", "measuring", "failed"
_FIRST_WAIT_US, _LONGEST_WAIT_US = 1_000_000, 300_000_000
# A meter that was absent is looked for again: drivers are installed, permissions mended.
_ABSENT_WAIT_US = 300_000_000


@dataclass
class PolledSource:
    """One source and how it fares."""

    name: str
    source: Source
    state: str = ABSENT
    why: str = ""
    mend: str = ""
    failures: int = 0  # in a row
    retry_at_us: int = 0  # monotonic
    polls_ok: int = 0
    polls_failed: int = 0
    spent_us: int = 0
    devices: Dict[str, DeviceInfo] = field(default_factory=dict)


def select_sources(environ: Mapping[str, str]) -> List[str]:
    """Names of the sources to open: ``LABCARBON_SOURCES`` (comma separated), a replay alone, else all real meters.

    Raises ValueError naming an unknown source.
    """
    sources.load()
    given = [name.strip() for name in environ.get("LABCARBON_SOURCES", "").split(",") if name.strip()]
    unknown = [name for name in given if name not in REGISTRY]
    if unknown:
        raise ValueError(f"LABCARBON_SOURCES names {', '.join(unknown)}: known are {', '.join(REGISTRY)}")
    if given:
        return given
    if environ.get("LABCARBON_REPLAY"):
        return ["replay"]
    in_order = [name for name in sources.ORDER if name in REGISTRY]
    return [name for name in in_order + [n for n in REGISTRY if n not in in_order] if name != "replay"]


class SourcePoller:
    """All meters. The first source that claims a device keeps it: a counter before a model of the same package."""

    def __init__(
        self,
        found: Sequence[Tuple[str, Source]],
        *,
        now: Callable[[], Clock],
        last: Callable[[], Mapping[str, StoredReading]] = dict,
    ) -> None:
        self.meters = [PolledSource(name, source) for name, source in found]
        self._now = now
        self._last = last

    @property
    def devices(self) -> Dict[str, DeviceInfo]:
        """Device key → what it is, of all sources that measure."""
        return {key: info for meter in self.meters for key, info in meter.devices.items()}

    def poll(self, *, with_processes: bool) -> Tuple[List[Reading], Dict[str, str]]:
        """Read everything that can be read: readings, and why devices changed their epochs. Never raises."""
        readings: List[Reading] = []
        reasons: Dict[str, str] = {}
        for meter in self.meters:
            begun_us = self._now().monotonic_us
            if meter.state != MEASURING:
                if begun_us < meter.retry_at_us:
                    continue
                self._open(meter)
            if meter.state == MEASURING:
                readings.extend(self._poll(meter, with_processes))
                reasons.update((gap.device, gap.reason) for gap in meter.source.gaps())
            meter.spent_us += self._now().monotonic_us - begun_us
        return readings, reasons

    def close(self) -> None:
        """Let go of all drivers."""
        for meter in self.meters:
            if meter.state == MEASURING:
                meter.source.close()

    def take_health(self) -> Dict[str, Dict[str, int]]:
        """Polls and time per source since the last call, in the shape of the wire."""
        health = {}
        for meter in self.meters:
            if meter.state != ABSENT:
                health[meter.name] = {"ok": meter.polls_ok, "failed": meter.polls_failed, "ms": meter.spent_us // 1000}
            meter.polls_ok = meter.polls_failed = meter.spent_us = 0
        return health

    def status(self) -> Dict[str, Dict[str, Any]]:
        """State per source, with reason and mend."""
        return {
            meter.name: {"state": meter.state, "why": meter.why, "mend": meter.mend, "devices": sorted(meter.devices)}
            for meter in self.meters
        }

    def _open(self, meter: PolledSource) -> None:
        resume = getattr(meter.source, "resume", None)
        try:
            if resume is not None:
                resume(self._last())
            found = meter.source.open()
        except SourceAbsent as absent:
            meter.state, meter.why, meter.mend = ABSENT, absent.why, absent.mend
            meter.retry_at_us = self._now().monotonic_us + _ABSENT_WAIT_US
            return
        except Exception as error:  # noqa: BLE001 - a broken driver must not take the other meters down
            self._failed(meter, error)
            return
        claimed = self.devices
        meter.devices = {info.key: info for info in found if info.key not in claimed or info.key in meter.devices}
        if found and not meter.devices:
            meter.source.close()
            meter.state, meter.why, meter.mend = ABSENT, "a better source measures the same devices", ""
            meter.retry_at_us = self._now().monotonic_us + _ABSENT_WAIT_US
            return
        meter.state, meter.why, meter.mend = MEASURING, "", ""

    def _poll(self, meter: PolledSource, with_processes: bool) -> List[Reading]:
        try:
            readings = meter.source.poll(self._now, with_processes=with_processes)
        except Exception as error:  # noqa: BLE001 - see _open
            self._failed(meter, error)
            return []
        meter.polls_ok += 1
        meter.failures = 0
        return [reading for reading in readings if reading.device in meter.devices]

    def _failed(self, meter: PolledSource, error: Exception) -> None:
        """Close and wait 1, 2, 4 … 300 s before opening it again."""
        if meter.state == MEASURING:
            meter.source.close()
        said = str(error) or type(error).__name__
        meter.why = said if isinstance(error, SourceFailed) else f"{type(error).__name__}: {said}"
        meter.state, meter.polls_failed, meter.failures = FAILED, meter.polls_failed + 1, meter.failures + 1
        wait_us = min(_LONGEST_WAIT_US, _FIRST_WAIT_US << min(meter.failures - 1, 20))
        meter.retry_at_us = self._now().monotonic_us + wait_us


def open_sources(
    node: str,
    environ: Mapping[str, str],
    *,
    now: Callable[[], Clock],
    last: Optional[Callable[[], Mapping[str, StoredReading]]] = None,
) -> SourcePoller:
    """Build the chosen sources. A source whose factory says absent is listed with its reason."""
    found: List[Tuple[str, Source]] = []
    for name in select_sources(environ):
        try:
            found.append((name, REGISTRY[name](node, environ)))
        except SourceAbsent as absent:
            found.append((name, _Missing(name, absent)))
    return SourcePoller(found, now=now, last=last or dict)


class _Missing:
    """A source that is absent by its settings already."""

    def __init__(self, name: str, absent: SourceAbsent) -> None:
        self.name = name
        self._absent = absent

    def open(self) -> Sequence[DeviceInfo]:
        raise self._absent

    def poll(self, now: Callable[[], Clock], *, with_processes: bool) -> Sequence[Reading]:
        raise SourceFailed(self._absent.why)

    def gaps(self) -> Sequence[Any]:
        return ()

    def close(self) -> None:
        return None
