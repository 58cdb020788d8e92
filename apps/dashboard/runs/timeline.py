"""Power, utilization and memory of a run's devices and one metric, over one time axis."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.core.clock import utc
from apps.core.units import US_PER_S
from apps.dashboard.charts import SERIES, Chart, figure_as_json, label, new_figure, time_ticks
from apps.dashboard.formatting import duration
from apps.dashboard.periods import Period
from apps.energy.utilization import Utilization
from apps.ingest.choices import EnergyQuality
from apps.runs.metric_parsing import Point
from apps.runs.metric_summary import downsample

Window = Mapping[str, Any]
MAX_POINTS = 500
GAP_US = 150 * US_PER_S  # more than two missed windows of a minute
PANEL_PX, SPACE = 150, 0.10
_COLOURS, _DASHES = tuple(SERIES)[:6], ("solid", "dash", "dot", "dashdot")


@dataclass(frozen=True)
class RunDevice:
    """A device of a run: quality of its energy, measured time, and the utilization and memory of
    the whole device, None for unknown. ``others``: the most consumers beside the run in a window.
    """

    name: str
    quality: str
    measured_time: str
    utilization: Utilization | None
    others: int

    @property
    def mean_percent(self) -> str:
        return _percent(self.utilization.util_mean_pm if self.utilization else None)

    @property
    def p95_percent(self) -> str:
        return _percent(self.utilization.util_p95_pm if self.utilization else None)

    @property
    def idle_percent(self) -> str:
        return _percent(self.utilization.idle_pm if self.utilization else None)

    @property
    def memory(self) -> str:
        """Return the mean and the maximum, '' if they are unknown."""
        found = self.utilization
        if found is None or found.mem_mean_mib is None:
            return ""
        return f"{_gib(found.mem_mean_mib)} / {_gib(found.mem_max_mib)} GiB"


def _percent(share_pm: int | None) -> str:
    return "" if share_pm is None else f"{share_pm / 10:.0f} %"


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f}"


def run_device(windows: Sequence[Window], utilization: Utilization | None) -> RunDevice:
    """Return a device from its windows with a share of the run, which must not be empty."""
    known_us = sum(window["end_us"] - window["start_us"] for window in windows)
    worst = max(window["energy_quality"] for window in windows)
    return RunDevice(
        windows[0]["device_name"] or windows[0]["device"],
        EnergyQuality(worst).name.lower(),
        duration(known_us),
        utilization,
        max(0, utilization.most_consumers - 1) if utilization else 0,
    )


@dataclass(frozen=True)
class _Panel:
    """A measure: what a window contributes, None for unknown. ``per``: combines the parts of
    windows that are drawn as one.
    """

    title: str
    suffix: str
    value: Callable[[Sequence[Window]], float | None]


def _watts(windows: Sequence[Window]) -> float | None:
    energy_mj: int = sum(window["energy_mj"] for window in windows)
    length_us: int = windows[-1]["end_us"] - windows[0]["start_us"]
    return round(energy_mj / 1000 / (length_us / US_PER_S), 3)


def _utilization_percent(windows: Sequence[Window]) -> float | None:
    known = [
        (window["util_mean_pm"], window["end_us"] - window["start_us"])
        for window in windows
        if window["util_mean_pm"] is not None
    ]
    length_us = sum(length for _, length in known)
    return round(sum(pm * length for pm, length in known) / length_us / 10, 1) if known else None


def _memory_gib(windows: Sequence[Window]) -> float | None:
    known = [window["mem_max_mib"] for window in windows if window["mem_max_mib"] is not None]
    return round(max(known) / 1024, 3) if known else None


PANELS = (
    _Panel("Power of this run", " W", _watts),
    _Panel("Utilization of the device", " %", _utilization_percent),
    _Panel("Memory in use on the device", " GiB", _memory_gib),
)


def timeline(
    *,
    run_name: str,
    by_device: Mapping[str, Sequence[Window]],
    metric: str,
    points: Sequence[Point],
    period: Period,
) -> Chart | None:
    """Return the panels from top to bottom, without those of which nothing is known. None without
    windows. ``points``: of ``metric``, drawn within the time of the windows.
    """
    if not by_device:
        return None
    first_us = min(window["start_us"] for windows in by_device.values() for window in windows)
    last_us = max(window["end_us"] for windows in by_device.values() for window in windows)
    panels: list[tuple[str, str, list[dict[str, Any]]]] = []
    for panel in PANELS:
        traces = [
            _trace(name, number, windows, panel, period)
            for number, (name, windows) in enumerate(by_device.items())
        ]
        known = [trace for trace in traces if any(y is not None for y in trace["y"])]
        if known:
            panels.append((panel.title, panel.suffix, known))
    within = [point for point in points if first_us <= point.at_us <= last_us]
    if len(within) > 1:
        panels.append((metric, "", [_metric_trace(metric, within, period)]))
    figure = new_figure()
    room = (1 - SPACE * (len(panels) - 1)) / len(panels)
    annotations = []
    for place, (title, suffix, traces) in enumerate(panels):
        name = "" if place == 0 else str(place + 1)
        top = 1 - place * (room + SPACE)
        for trace in traces:
            figure.add_scatter(**trace, yaxis=f"y{name}")
        axis = {"domain": [max(0, top - room), top], "nticks": 4, "ticksuffix": suffix}
        if suffix == " %":
            axis["range"] = [0, 100]
        elif suffix:
            axis["rangemode"] = "tozero"
        figure.update_layout({f"yaxis{name}": axis})
        annotations.append(
            {
                "name": "panel", "text": label(title, 40), "x": 0, "y": top, "xref": "paper",
                "yref": "paper", "xanchor": "left", "yanchor": "bottom", "showarrow": False,
            }
        )  # fmt: skip
    ends = [_at(first_us, period), _at(last_us, period)]
    last_axis = "" if len(panels) == 1 else str(len(panels))
    figure.update_layout(
        xaxis={
            "type": "date", "fixedrange": True, "range": ends, "anchor": f"y{last_axis}",
            **time_ticks(ends),
        },
        annotations=annotations,
        dragmode=False,
        showlegend=False,
        margin={"l": 64, "r": 14, "b": 44, "t": 24},
        hovermode="x",
        height=PANEL_PX * len(panels) + 68,
    )  # fmt: skip
    names = " and ".join([", ".join(title for title, _, _ in panels[:-1]), panels[-1][0]][-2:])
    legend = [(_COLOURS[i % 6], name) for i, name in enumerate(by_device)]
    return Chart(
        "run-timeline",
        f"{names.removeprefix(' and ')} over the time of {run_name}. Gaps: no measurements.",
        figure_as_json(figure),
        legend,
        len(by_device) == 1,
        "W",
    )


def _at(time_us: int, period: Period) -> str:
    return utc(time_us).astimezone(period.zone).strftime("%Y-%m-%dT%H:%M:%S")


def _trace(
    device: str, number: int, windows: Sequence[Window], panel: _Panel, period: Period
) -> dict[str, Any]:
    """Return the values of one device, at most MAX_POINTS; a gap in the windows is a None."""
    step = -(-len(windows) // MAX_POINTS)
    times: list[str] = []
    values: list[float | None] = []
    last_us = 0
    for start in range(0, len(windows), step):
        part = windows[start : start + step]
        if last_us and part[0]["start_us"] - last_us > GAP_US:
            times.append(_at(last_us, period))
            values.append(None)
        last_us = part[-1]["end_us"]
        value = panel.value(part)
        times += [_at(part[0]["start_us"], period), _at(last_us, period)]
        values += [value, value]
    return {
        "x": times,
        "y": values,
        "name": label(device),
        "mode": "lines+markers" if len(times) < 4 else "lines",
        "line": {
            "shape": "hv", "width": 2, "color": SERIES[_COLOURS[number % 6]],
            "dash": _DASHES[number // 6 % 4],
        },
        "connectgaps": False,
        "hovertemplate": (
            f"%{{x|%H:%M:%S}}<br>%{{fullData.name}}: %{{y:.3~g}}{panel.suffix}<extra></extra>"
        ),
    }  # fmt: skip


def _metric_trace(metric: str, points: Sequence[Point], period: Period) -> dict[str, Any]:
    drawn = downsample(points, MAX_POINTS)
    return {
        "x": [_at(point.at_us, period) for point in drawn],
        "y": [point.value for point in drawn],
        "name": label(metric),
        "mode": "lines+markers" if len(drawn) < 30 else "lines",
        "line": {"width": 2, "color": SERIES["s1"]},
        "connectgaps": False,
        "hovertemplate": "%{x|%H:%M:%S}<br>%{y:.4g}<extra></extra>",
    }
