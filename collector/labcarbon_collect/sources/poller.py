"""Opening and polling of the sources of this machine, with backoff after failures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect import sources
from labcarbon_collect.clock import Clock
from labcarbon_collect.sources.base import (
    REGISTRY,
    DeviceInfo,
    DeviceProblem,
    Reading,
    Source,
    SourceAbsent,
    SourceFailed,
    StoredReading,
)

ABSENT, MEASURING, FAILED = "absent", "measuring", "failed"
_FIRST_WAIT_US, _LONGEST_WAIT_US = 1_000_000, 300_000_000
# An absent source is opened again later: drivers get installed, permissions get fixed.
_ABSENT_WAIT_US = 300_000_000


@dataclass
class PolledSource:
    """One source and its state."""

    name: str
    source: Source
    state: str = ABSENT
    reason: str = ""
    fix: str = ""
    failures: int = 0  # in a row
    retry_us: int = 0  # monotonic
    polls_ok: int = 0
    polls_failed: int = 0
    elapsed_us: int = 0
    devices: Dict[str, DeviceInfo] = field(default_factory=dict)


def select_sources(environ: Mapping[str, str]) -> List[str]:
    """Return the names of the sources to open: ``LABCARBON_SOURCES`` (comma separated), a replay
    alone, or all real meters.

    Raises ValueError for an unknown source.
    """
    sources.load()
    names = [
        name.strip() for name in environ.get("LABCARBON_SOURCES", "").split(",") if name.strip()
    ]
    unknown = [name for name in names if name not in REGISTRY]
    if unknown:
        raise ValueError(
            f"unknown source in LABCARBON_SOURCES: {', '.join(unknown)}; valid are "
            f"{', '.join(REGISTRY)}"
        )
    if names:
        return names
    if environ.get("LABCARBON_REPLAY"):
        return ["replay"]
    known_order = [name for name in sources.ORDER if name in REGISTRY]
    return [
        name
        for name in known_order + [n for n in REGISTRY if n not in known_order]
        if name != "replay"
    ]


class SourcePoller:
    """All sources. The first source that claims a device measures it: a counter takes precedence
    over a model.
    """

    def __init__(
        self,
        opened: Sequence[Tuple[str, Source]],
        *,
        now: Callable[[], Clock],
        last: Callable[[], Mapping[str, StoredReading]] = dict,
    ) -> None:
        self.sources = [PolledSource(name, source) for name, source in opened]
        self._now = now
        self._last = last

    @property
    def devices(self) -> Dict[str, DeviceInfo]:
        """Devices of all measuring sources by key."""
        return {key: info for polled in self.sources for key, info in polled.devices.items()}

    def device(self, key: str) -> Optional[DeviceInfo]:
        """Return a device of a measuring source, None if it is unknown."""
        for polled in self.sources:
            if key in polled.devices:
                return polled.devices[key]
        return None

    def poll(self, *, with_processes: bool) -> Tuple[List[Reading], Dict[str, str]]:
        """Read all sources. Returns the readings, and the reason of each device's epoch change.
        Never raises.
        """
        readings: List[Reading] = []
        reasons: Dict[str, str] = {}
        for polled in self.sources:
            started_us = self._now().monotonic_us
            if polled.state != MEASURING:
                if started_us < polled.retry_us:
                    continue
                self._open(polled)
            if polled.state == MEASURING:
                readings.extend(self._poll(polled, with_processes))
                reasons.update((gap.device, gap.reason) for gap in polled.source.gaps())
            polled.elapsed_us += self._now().monotonic_us - started_us
        return readings, reasons

    def problems(self) -> List[DeviceProblem]:
        """Return the devices that are lost or measured by a lesser meter now."""
        return [
            problem
            for polled in self.sources
            if hasattr(polled.source, "problems")
            for problem in polled.source.problems()
        ]

    def is_asleep(self, device: str) -> bool:
        """Whether a device has no reading because it may be suspended."""
        return any(
            polled.source.is_asleep(device)
            for polled in self.sources
            if hasattr(polled.source, "is_asleep")
        )

    def is_resting(self, device: str) -> bool:
        """Whether a device responds without a reading, because its counter stands still."""
        return any(
            polled.source.is_resting(device)
            for polled in self.sources
            if hasattr(polled.source, "is_resting")
        )

    def set_learnt_idle_mw(self, learnt_idle_mw: Callable[[str], Optional[int]]) -> None:
        """Tell the sources the learnt idle power of a device."""
        for polled in self.sources:
            if hasattr(polled.source, "learnt_idle_mw"):
                polled.source.learnt_idle_mw = learnt_idle_mw

    def close(self) -> None:
        """Release all drivers."""
        for polled in self.sources:
            if polled.state == MEASURING:
                polled.source.close()

    def take_health(self) -> Dict[str, Dict[str, int]]:
        """Return polls and time per source since the last call, in the shape of the wire."""
        health = {}
        for polled in self.sources:
            if polled.state != ABSENT:
                health[polled.name] = {
                    "ok": polled.polls_ok,
                    "failed": polled.polls_failed,
                    "ms": polled.elapsed_us // 1000,
                }
            polled.polls_ok = polled.polls_failed = polled.elapsed_us = 0
        return health

    def status(self) -> Dict[str, Dict[str, Any]]:
        """Return the state of each source with reason and fix."""
        return {
            polled.name: {
                "state": polled.state,
                "why": polled.reason,
                "mend": polled.fix,
                "devices": sorted(polled.devices),
            }
            for polled in self.sources
        }

    def _open(self, polled: PolledSource) -> None:
        resume = getattr(polled.source, "resume", None)
        try:
            if resume is not None:
                resume(self._last())
            discovered = polled.source.open()
        except SourceAbsent as error:
            polled.state, polled.reason, polled.fix = ABSENT, error.reason, error.fix
            polled.retry_us = self._now().monotonic_us + _ABSENT_WAIT_US
            return
        except Exception as error:  # noqa: BLE001 - a broken driver must not take the other meters down
            self._mark_failed(polled, error)
            return
        claimed = self.devices
        polled.devices = {
            info.key: info
            for info in discovered
            if info.key not in claimed or info.key in polled.devices
        }
        if discovered and not polled.devices:
            polled.source.close()
            polled.state, polled.reason, polled.fix = (
                ABSENT,
                "a better source measures the same devices",
                "",
            )
            polled.retry_us = self._now().monotonic_us + _ABSENT_WAIT_US
            return
        polled.state, polled.reason, polled.fix = MEASURING, "", ""

    def _poll(self, polled: PolledSource, with_processes: bool) -> List[Reading]:
        try:
            readings = polled.source.poll(self._now, with_processes=with_processes)
        except Exception as error:  # noqa: BLE001 - see _open
            self._mark_failed(polled, error)
            return []
        polled.polls_ok += 1
        polled.failures = 0
        if hasattr(polled.source, "take_found"):
            for info in polled.source.take_found():
                if info.key not in self.devices:
                    polled.devices[info.key] = info
        return [reading for reading in readings if reading.device in polled.devices]

    def _mark_failed(self, polled: PolledSource, error: Exception) -> None:
        """Close the source and wait 1, 2, 4 … 300 s before opening it again."""
        if polled.state == MEASURING:
            polled.source.close()
        message = str(error) or type(error).__name__
        polled.reason = (
            message if isinstance(error, SourceFailed) else f"{type(error).__name__}: {message}"
        )
        polled.state, polled.polls_failed, polled.failures = (
            FAILED,
            polled.polls_failed + 1,
            polled.failures + 1,
        )
        wait_us = min(_LONGEST_WAIT_US, _FIRST_WAIT_US << min(polled.failures - 1, 20))
        polled.retry_us = self._now().monotonic_us + wait_us


def open_sources(
    node: str,
    environ: Mapping[str, str],
    *,
    now: Callable[[], Clock],
    last: Optional[Callable[[], Mapping[str, StoredReading]]] = None,
) -> SourcePoller:
    """Create the selected sources. A source that is absent by its settings is listed with its
    reason.
    """
    opened: List[Tuple[str, Source]] = []
    for name in select_sources(environ):
        try:
            opened.append((name, REGISTRY[name](node, environ)))
        except SourceAbsent as error:
            opened.append((name, _AbsentSource(name, error)))
    return SourcePoller(opened, now=now, last=last or dict)


class _AbsentSource:
    """A source that is absent by its settings."""

    def __init__(self, name: str, error: SourceAbsent) -> None:
        self.name = name
        self._absent = error

    def open(self) -> Sequence[DeviceInfo]:
        raise self._absent

    def poll(self, now: Callable[[], Clock], *, with_processes: bool) -> Sequence[Reading]:
        raise SourceFailed(self._absent.reason)

    def gaps(self) -> Sequence[Any]:
        return ()

    def close(self) -> None:
        return None
