"""The picture of a chart without JavaScript: bars, lines and ticks of a Plotly figure, in parts per
thousand of their panel.

Pure. It reads what charts.py and its neighbours write: stacked bars, vertical or horizontal,
lines, marks, and axes with a domain.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import unescape
from typing import Any

FULL = 1000  # the width and height of a panel
BAR_SHARE = 0.7  # of the room between two bars, as the template's bargap
DASHES = {"dash": "7 5", "dot": "2 4", "dashdot": "7 4 2 4"}
_STEPS = (1, 2, 5, 10)
_HATCH_SLOPE, _HATCH_STEP = 2.7, 24  # a panel is about 2.7 times as wide as high
Trace = Mapping[str, Any]


@dataclass(frozen=True)
class Bar:
    """A rectangle in parts per thousand. ``is_hatched``: unknown or idle. ``outline``: the colour
    of its edge, '' for none.
    """

    x: float
    y: float
    width: float
    height: float
    fill: str
    opacity: float = 1
    is_hatched: bool = False
    outline: str = ""

    @property
    def hatching(self) -> str:
        """Return the path of the lines of a hatched bar: rising, as far apart in every bar."""
        right, bottom = self.x + self.width, self.y + self.height
        first = math.ceil((self.y + _HATCH_SLOPE * self.x) / _HATCH_STEP)
        last = math.floor((bottom + _HATCH_SLOPE * right) / _HATCH_STEP)
        parts = []
        for number in range(first, last + 1):
            level = number * _HATCH_STEP  # y + slope × x of the points of a line
            left_x = max(self.x, (level - bottom) / _HATCH_SLOPE)
            right_x = min(right, (level - self.y) / _HATCH_SLOPE)
            if left_x < right_x:
                left_y, right_y = (level - _HATCH_SLOPE * at for at in (left_x, right_x))
                parts.append(f"M{left_x:.1f} {left_y:.1f}L{right_x:.1f} {right_y:.1f}")
        return "".join(parts)


@dataclass(frozen=True)
class Line:
    """A path in parts per thousand. ``is_marks``: its points are drawn, not what joins them."""

    path: str
    colour: str
    dash: str = ""
    is_marks: bool = False


@dataclass(frozen=True)
class Tick:
    """A label at a place of an axis, in percent from left or from the bottom."""

    percent: float
    text: str

    @property
    def from_top(self) -> float:
        """Return the place from the top in parts per thousand."""
        return round(FULL - self.percent * FULL / 100, 1)


@dataclass
class Panel:
    """What is drawn over one vertical axis. ``top`` and ``height`` in percent of the chart.
    ``title``: the annotation named ``panel`` at its top. ``bands``: shaded places.
    """

    top: float
    height: float
    title: str = ""
    bands: list[Bar] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    ticks: list[Tick] = field(default_factory=list)


@dataclass(frozen=True)
class Drawing:
    """The panels of a chart from top to bottom, over one horizontal axis."""

    panels: list[Panel]
    ticks: list[Tick]
    is_horizontal: bool = False


def draw(figure: Mapping[str, Any]) -> Drawing | None:
    """Return the picture of a figure, None if it has no value."""
    layout = figure["layout"]
    traces = [trace for trace in figure["data"] if _has_values(trace)]
    if not traces:
        return None
    horizontal = traces[0].get("orientation") == "h"
    across = layout.get("xaxis", {})
    along = layout.get("yaxis", {})
    places, values = ("y", "x") if horizontal else ("x", "y")
    place_axis = _Places(along if horizontal else across, [trace[places] for trace in traces])
    panels = []
    for name in sorted({trace.get("yaxis", "y") for trace in traces}, reverse=True):
        axis = across if horizontal else layout.get("yaxis" + name[1:], {})
        own = [trace for trace in traces if trace.get("yaxis", "y") == name]
        low, high = axis.get("domain", (0, 1))
        panels.append(_panel(own, place_axis, axis, values, (100 * (1 - high), 100 * (high - low))))
    for panel in panels:
        panel.bands = [place_axis.band(shape) for shape in layout.get("shapes", ())]
    panels.sort(key=lambda panel: panel.top)
    titles = [note for note in layout.get("annotations", ()) if note.get("name") == "panel"]
    for panel, note in zip(panels, titles, strict=False):
        panel.title = unescape(note["text"])
    return Drawing(panels, place_axis.ticks(), horizontal)


def _has_values(trace: Trace) -> bool:
    values = trace["x" if trace.get("orientation") == "h" else "y"]
    return any(value is not None for value in values)


class _Places:
    """The axis of places: numbers, times or names."""

    def __init__(self, axis: Mapping[str, Any], columns: Iterable[Sequence[Any]]) -> None:
        self.axis = axis
        found = [place for column in columns for place in column]
        self.names: list[Any] = []
        if axis.get("type") == "category":
            self.names = list(dict.fromkeys(found))
        self.is_time = axis.get("type") == "date"
        numbers = [self.number(place) for place in found]
        low, high = -0.5, len(self.names) - 0.5
        if not self.names:
            low, high = map(self.number, axis.get("range") or (min(numbers), max(numbers)))
        self.is_reversed = low > high
        self.low, self.high = min(low, high), max(low, high)
        if self.low == self.high:
            self.low, self.high = self.low - 0.5, self.high + 0.5

    def number(self, place: Any) -> float:
        if self.names:
            return float(self.names.index(place))
        if isinstance(place, str):
            moment = datetime.fromisoformat(place)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        return float(place)

    def share(self, number: float) -> float:
        share = (number - self.low) / (self.high - self.low)
        return 1 - share if self.is_reversed else share

    def band(self, shape: Mapping[str, Any]) -> Bar:
        """Return the rectangle of a shaded place, as high as a panel."""
        start, end = (self.share(self.number(shape[edge])) * FULL for edge in ("x0", "x1"))
        size = round(start, 2), 0, round(end - start, 2), FULL
        return Bar(*size, fill=shape["fillcolor"], opacity=shape["opacity"])

    def ticks(self) -> list[Tick]:
        if "tickvals" in self.axis:
            pairs = list(zip(self.axis["tickvals"], self.axis["ticktext"], strict=True))
            return [Tick(round(100 * self.share(at), 2), text) for at, text in pairs]
        if self.names:
            return [
                Tick(round(100 * self.share(at), 2), str(name))
                for at, name in enumerate(self.names)
            ]
        suffix = self.axis.get("ticksuffix", "")
        if not self.is_time:
            steps = _nice(self.low, self.high, self.axis.get("nticks", 6))
            return [Tick(round(100 * self.share(at), 2), f"{at:g}{suffix}") for at in steps]
        return [
            Tick(round(100 * self.share(moment), 2), text)
            for moment, text in _times(self.low, self.high)
        ]


def _times(low: float, high: float) -> list[tuple[float, str]]:
    """Return about five times of a range (seconds), as text of a fitting length."""
    span = high - low
    form = "%Y" if span > 3 * 366 * 86_400 else "%-d %b" if span > 2 * 86_400 else "%H:%M"
    form = "%H:%M:%S" if span < 300 else form
    found: dict[str, float] = {}
    for at in (low + span * part / 4 for part in range(5)):
        found.setdefault(datetime.fromtimestamp(at, tz=UTC).strftime(form), at)
    return [(at, text) for text, at in found.items()]


def _nice(low: float, high: float, number: int) -> list[float]:
    """Return at most ``number`` round values between ``low`` and ``high``."""
    span = high - low
    if span <= 0 or not math.isfinite(span):
        return [low]
    rough = span / max(1, number - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in _STEPS if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [at * step for at in range(first, last + 1)]


def _panel(
    traces: Sequence[Trace],
    places: _Places,
    axis: Mapping[str, Any],
    values: str,
    room: tuple[float, float],
) -> Panel:
    bars = [trace for trace in traces if trace["type"] == "bar"]
    lines = [trace for trace in traces if trace["type"] == "scatter"]
    stacks = _stacked(bars, places, values)
    numbers = [edge for _, _, low, high in stacks for edge in (low, high)]
    numbers += [value for trace in lines for value in trace[values] if value is not None]
    numbers += [0.0] if bars or axis.get("rangemode") == "tozero" else []
    low, high = axis.get("range") or (min(numbers), max(numbers))
    high = high if high > low else low + 1

    def share(value: float) -> float:
        return (value - low) / (high - low)

    panel = Panel(round(room[0], 3), round(room[1], 3))
    for trace, (start, end), bottom, top in stacks:
        panel.bars.append(
            _bar(trace, (places.share(start), places.share(end)), (share(bottom), share(top)))
        )
    for trace in lines:
        panel.lines.extend(_lines(trace, places, share))
    if axis.get("showticklabels", True) and axis.get("visible", True):
        suffix = axis.get("ticksuffix", "")
        panel.ticks = [
            Tick(round(100 * share(at), 2), f"{at:g}{suffix}")
            for at in _nice(low, high, axis.get("nticks", 5))
        ]
    return panel


def _stacked(
    traces: Sequence[Trace], places: _Places, values: str
) -> list[tuple[Trace, tuple[float, float], float, float]]:
    """Return (trace, its edges, bottom, top) of each bar: positive ones up, negative ones down."""
    tops: dict[tuple[Any, bool], float] = defaultdict(float)
    found = []
    other = "y" if values == "x" else "x"
    for trace in traces:
        widths = trace.get("width")
        for i, (place, value) in enumerate(zip(trace[other], trace[values], strict=True)):
            if not value:
                continue
            at = places.number(place)
            start, width = at - BAR_SHARE / 2, BAR_SHARE
            if widths is not None:  # of time axes: milliseconds from the place on
                start, width = at, widths[i] / 1000
            if "base" in trace:  # of a waterfall
                found.append((trace, (start, start + width), *_edges(trace["base"][i], value)))
                continue
            key = (place, value > 0)
            bottom, tops[key] = tops[key], tops[key] + value
            found.append((trace, (start, start + width), bottom, tops[key]))
    return found


def _edges(base: float, value: float) -> tuple[float, float]:
    """Return the lower and the upper edge of a bar that starts at its own place."""
    return min(base, base + value), max(base, base + value)


def _bar(trace: Trace, across: tuple[float, float], along: tuple[float, float]) -> Bar:
    marker = trace["marker"]
    pattern = marker.get("pattern", {})
    left, right = sorted(across)
    bottom, top = sorted(along)
    across_size, along_size = (right - left) * FULL, (top - bottom) * FULL
    x, y, width, height = left * FULL, (1 - top) * FULL, across_size, along_size
    if trace.get("orientation") == "h":
        x, y, width, height = bottom * FULL, (1 - right) * FULL, along_size, across_size
    return Bar(
        round(x, 2),
        round(y, 2),
        round(width, 2),
        round(height, 2),
        fill=pattern.get("fgcolor", "") if pattern.get("shape") == "/" else marker["color"],
        opacity=marker.get("opacity", 1),
        is_hatched=pattern.get("shape") == "/",
        outline=marker["line"]["color"] if marker.get("line", {}).get("width") else "",
    )


def _lines(trace: Trace, places: _Places, share: Callable[[float], float]) -> list[Line]:
    style = trace.get("line", {})
    parts: list[list[tuple[float, float]]] = [[]]
    for place, value in zip(trace["x"], trace["y"], strict=True):
        if value is None:
            parts.append([])
            continue
        point = places.share(places.number(place)) * FULL, (1 - share(value)) * FULL
        parts[-1].append((round(point[0], 2), round(point[1], 2)))
    mode = trace.get("mode", "lines")
    colour = style.get("color") or trace.get("marker", {}).get("color", "")
    found = []
    if "lines" in mode:
        stepped = style.get("shape") == "hv"
        path = " ".join(_path(part, stepped) for part in parts if part)
        found.append(Line(path, colour, DASHES.get(style.get("dash", ""), "")))
    if "markers" in mode:
        path = " ".join(f"M{x:g} {y:g}h0" for part in parts for x, y in part)
        found.append(Line(path, colour, is_marks=True))
    return found


def _path(points: Sequence[tuple[float, float]], stepped: bool) -> str:
    first, *others = points
    between = "H{0:g}V{1:g}" if stepped else "L{0:g} {1:g}"
    joined = "".join(between.format(*point) for point in others)
    return f"M{first[0]:g} {first[1]:g}{joined or 'h0'}"
