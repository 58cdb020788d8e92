"""Content of the live page of a node: power, utilization and memory per minute, and consumers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.urls import reverse

from apps.carbon.figures.visibility import Visibility
from apps.core.units import US_PER_S
from apps.dashboard.chart_picture import Drawing, draw
from apps.dashboard.charts import SERIES
from apps.dashboard.nodes.live_windows import (
    MINUTE_US,
    MINUTES,
    LiveDevice,
    LiveNode,
    Minute,
    minutes_of,
)
from apps.fleet.selectors import SILENT_AFTER_US

MOST_CONSUMERS = 4
RECENT = 3  # minutes: of the last upload, and before
_KIND_NAMES = {"gpu": "GPU", "mig": "MIG instance", "cpu": "CPU package"}


@dataclass(frozen=True)
class LiveChart:
    """One measure of a device over the period. ``latest``: of the latest known of the last
    RECENT minutes, '' for none. ``drawing`` None: unknown in all minutes.
    """

    name: str
    latest: str
    summary: str
    drawing: Drawing | None


@dataclass(frozen=True)
class LiveConsumer:
    """A consumer of a device in the period. ``href``: the page of its run, '' for others."""

    name: str
    href: str
    share: str


@dataclass(frozen=True)
class LiveDeviceView:
    """A device with its charts and consumers. ``unknown``: minutes without a window."""

    key: str
    name: str
    kind: str
    charts: list[LiveChart]
    consumers: list[LiveConsumer]
    more: int
    unknown: int


@dataclass(frozen=True)
class LivePage:
    """The last minutes of a node. ``age_s``: seconds since its last upload, None for none."""

    node: dict[str, Any]
    devices: list[LiveDeviceView]
    from_us: int
    to_us: int
    age_s: int | None
    age_text: str
    is_silent: bool
    version: str


def live_page(
    *, live: LiveNode, visibility: Visibility, zone: ZoneInfo, now: int, version: str
) -> LivePage:
    """Return the page. No query."""
    last_us = live.node["last_push_us"]
    age_us = None if last_us is None else max(0, now - last_us)
    return LivePage(
        node=live.node,
        devices=[_device(device, live, visibility, zone) for device in live.devices],
        from_us=live.from_us,
        to_us=live.to_us,
        age_s=None if age_us is None else age_us // US_PER_S,
        age_text="" if age_us is None else age_text(age_us // US_PER_S),
        is_silent=live.node["retired_us"] is None and (age_us is None or age_us > SILENT_AFTER_US),
        version=version,
    )


def age_text(age_s: int) -> str:
    """Return the age of the last upload, as the script of the page continues it."""
    minutes = age_s // 60
    if age_s < 120:
        return f"{age_s} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _device(
    device: LiveDevice, live: LiveNode, visibility: Visibility, zone: ZoneInfo
) -> LiveDeviceView:
    windows = sorted(device.windows.values(), key=lambda window: window.start_us)
    minutes = minutes_of(windows, live.from_us, live.to_us)

    def chart(
        name: str, unit: str, colour: str, value: Callable[[Minute], float | None]
    ) -> LiveChart:
        values = [value(minute) for minute in minutes]
        return _chart(device.name, name, unit, colour, minutes, values, zone)

    charts = [chart("Power", "W", "s1", lambda minute: minute.watts)]
    if device.kind != "cpu":
        charts += [
            chart("Utilization", "%", "s3", lambda minute: minute.utilization),
            chart("Memory", "GiB", "s4", _memory_gib),
        ]
    consumers = _consumers(device, visibility)
    return LiveDeviceView(
        device.key,
        device.name,
        _KIND_NAMES[device.kind],
        charts,
        consumers[:MOST_CONSUMERS],
        max(0, len(consumers) - MOST_CONSUMERS),
        sum(minute.watts is None for minute in minutes),
    )


def _memory_gib(minute: Minute) -> float | None:
    return None if minute.memory_mib is None else minute.memory_mib / 1024


def _chart(
    device: str,
    name: str,
    unit: str,
    colour: str,
    minutes: Sequence[Minute],
    values: Sequence[float | None],
    zone: ZoneInfo,
) -> LiveChart:
    known = [value for value in values if value is not None]
    if not known:
        return LiveChart(
            name, "", f"{name} of {device}: unknown in the last {MINUTES} minutes", None
        )
    low, high = _number(min(known)), _number(max(known))
    unknown = len(values) - len(known)
    summary = f"{name} of {device}: {low} to {high} {unit}"
    if unknown:
        summary += f", {unknown} of {MINUTES} minutes unknown"
    times, points = [], []
    for minute, value in zip(minutes, values, strict=True):
        # A level from the start to the end of its minute; unknown minutes interrupt the line.
        times += [_clock(minute.start_us, zone), _clock(minute.start_us + MINUTE_US, zone)]
        points += [value, value]
    ends = [times[0], times[-1]]
    axis = {"rangemode": "tozero", "nticks": 3}
    if unit == "%":
        axis["range"] = (0, 100)
    drawing = draw(
        {
            "data": [
                {"type": "scatter", "x": times, "y": points, "line": {"color": SERIES[colour]}}
            ],
            "layout": {
                "xaxis": {"type": "date", "range": [_seconds(time) for time in ends]},
                "yaxis": axis,
            },
        }
    )
    recent = [value for value in values[-RECENT:] if value is not None]
    latest = f"{_number(recent[-1])} {unit}" if recent else ""
    return LiveChart(name, latest, summary, drawing)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _clock(time_us: int, zone: ZoneInfo) -> str:
    """Return the wall clock of the lab as text, which the picture of a chart shows as it is."""
    local = datetime.fromtimestamp(time_us // US_PER_S, tz=zone)
    return local.replace(tzinfo=None).isoformat() + "+00:00"


def _seconds(clock: str) -> float:
    return datetime.fromisoformat(clock).timestamp()


def _consumers(device: LiveDevice, visibility: Visibility) -> list[LiveConsumer]:
    """Return the consumers, largest first. Hidden users are one consumer."""
    whole = sum(device.consumers.values())
    sums: dict[tuple[str, str], int] = {}
    for (key, run), part_mj in device.consumers.items():
        uuid = key.removeprefix("run:")
        label = (run, reverse("run", args=[uuid])) if run else (visibility.consumer(key), "")
        sums[label] = sums.get(label, 0) + part_mj
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return [
        LiveConsumer(name, href, f"{100 * part_mj / whole:.0f}" if whole else "")
        for (name, href), part_mj in ordered
    ]
