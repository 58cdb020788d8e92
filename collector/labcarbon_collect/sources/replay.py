"""Replay of a recorded trace as a machine, for tests, demonstrations and back-fill.

A trace is JSON lines. The first is ``{"trace": "1.0", "devices": [{"key", "name", "facts"}]}``;
devices are optional. Then follows one line per reading: ``{"at_us", "device", "measurement",
"counter_mj", "epoch", "power_mw", "util_pm", "memory_mib", "processes"}`` with ``at_us`` since the
start of the trace and ``processes`` a list of ``[pid, sm_util_pm, memory_mib]`` or null (not
visible).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.clock import Clock
from labcarbon_collect.sources.base import (
    DeviceInfo,
    Gap,
    ProcessUse,
    Reading,
    SourceAbsent,
    SourceFailed,
    register,
)

TRACE_VERSION = "1.0"


class TraceWriter:
    """Writes readings as a trace that :class:`Replay` plays."""

    def __init__(self, out: IO[str], devices: Sequence[DeviceInfo] = ()) -> None:
        self._out = out
        self._first_us: Optional[int] = None
        descriptions = [{"key": d.key, "name": d.name, "facts": dict(d.facts)} for d in devices]
        self._write_line({"trace": TRACE_VERSION, "devices": descriptions})

    def write(self, reading: Reading) -> None:
        """Append one reading. Times are relative to the first one."""
        if self._first_us is None:
            self._first_us = reading.monotonic_us
        processes = reading.processes
        self._write_line(
            {
                "at_us": reading.monotonic_us - self._first_us,
                "device": reading.device,
                "measurement": reading.measurement,
                "counter_mj": reading.counter_mj,
                "epoch": reading.epoch,
                "power_mw": reading.power_mw,
                "util_pm": reading.util_pm,
                "memory_mib": reading.memory_mib,
                "processes": None
                if processes is None
                else [[use.pid, use.sm_util_pm, use.memory_mib] for use in processes],
            }
        )

    def _write_line(self, content: Mapping[str, Any]) -> None:
        self._out.write(json.dumps(content, separators=(",", ":")) + "\n")


class Replay:
    """Plays a trace against a clock, ``speed`` times as fast, from ``start_us`` (wall time) or the
    first poll on.
    """

    name = "replay"

    def __init__(self, path: Path, *, speed: int = 1, start_us: Optional[int] = None) -> None:
        self._path = path
        self._speed = speed
        self._start_us = start_us
        self._start_mono_us: Optional[int] = None
        self._lines: Iterator[Dict[str, Any]] = iter(())
        self._next_line: Optional[Dict[str, Any]] = None
        self._current: Dict[str, Dict[str, Any]] = {}

    def open(self) -> Sequence[DeviceInfo]:
        """Read the complete trace. Raises SourceAbsent if the file is missing or no trace."""
        try:
            devices = _devices(self._read())
            self._lines = self._read()
            next(self._lines)
        except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
            fix = (
                "set LABCARBON_REPLAY to a trace written by: labcarbon-collect daemon --record FILE"
            )
            raise SourceAbsent(f"{self._path} is not a readable trace ({error})", fix) from error
        self._next_line = next(self._lines, None)
        return devices

    def poll(self, now: Callable[[], Clock], *, with_processes: bool) -> Sequence[Reading]:
        """Return the newest reading of each device up to now. After the last line the counters do
        not change.
        """
        clock = now()
        position_us = self._elapsed_us(clock) * self._speed
        try:
            while self._next_line is not None and self._next_line["at_us"] <= position_us:
                self._current[self._next_line["device"]] = self._next_line
                self._next_line = next(self._lines, None)
        except (ValueError, KeyError) as error:
            raise SourceFailed(f"{self._path}: bad line in the trace ({error})") from error
        return [self._reading(line, clock, with_processes) for line in self._current.values()]

    def gaps(self) -> Sequence[Gap]:
        """Return no gaps: the window builder detects epoch changes in the trace."""
        return ()

    def close(self) -> None:
        """Close the iterator of the file."""
        self._lines = iter(())

    def _read(self) -> Iterator[Dict[str, Any]]:
        with self._path.open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    yield json.loads(line)

    def _elapsed_us(self, clock: Clock) -> int:
        """Return the monotonic time since the trace started. With a given start, a restarted
        collector continues in the trace.
        """
        if self._start_mono_us is None:
            start_us = clock.wall_us if self._start_us is None else self._start_us
            self._start_mono_us = clock.monotonic_us - (clock.wall_us - start_us)
        return clock.monotonic_us - self._start_mono_us

    def _reading(self, line: Mapping[str, Any], clock: Clock, with_processes: bool) -> Reading:
        process_rows: Optional[List[Tuple[int, Optional[int], Optional[int]]]] = line.get(
            "processes"
        )
        processes = None
        if with_processes and process_rows is not None:
            processes = tuple(ProcessUse(pid, sm, memory) for pid, sm, memory in process_rows)
        return Reading(
            device=line["device"],
            monotonic_us=clock.monotonic_us,
            wall_us=clock.wall_us,
            counter_mj=line["counter_mj"],
            epoch=line["epoch"],
            measurement=line["measurement"],
            power_mw=line.get("power_mw"),
            util_pm=line.get("util_pm"),
            memory_mib=line.get("memory_mib"),
            processes=processes,
        )


def _devices(lines: Iterator[Dict[str, Any]]) -> List[DeviceInfo]:
    header = next(lines)
    if header["trace"].split(".")[0] != TRACE_VERSION.split(".")[0]:
        raise ValueError(f"its version is {header['trace']}, supported is {TRACE_VERSION}")
    described = {item["key"]: item for item in header.get("devices", ())}
    measurements = {line["device"]: line["measurement"] for line in lines}
    return [
        DeviceInfo(
            key,
            described.get(key, {}).get("name", key),
            measurement,
            described.get(key, {}).get("facts", {}),
        )
        for key, measurement in sorted(measurements.items())
    ]


def _create(node: str, environ: Mapping[str, str]) -> Replay:
    path = environ.get("LABCARBON_REPLAY", "")
    if not path:
        raise SourceAbsent("LABCARBON_REPLAY is not set")
    start = environ.get("LABCARBON_REPLAY_START_US", "")
    speed = int(environ.get("LABCARBON_REPLAY_SPEED", "1"))
    return Replay(Path(path), speed=speed, start_us=int(start) if start else None)


register("replay", _create)
