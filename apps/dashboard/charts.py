"""Chart figures for Plotly, built here. One template for light and dark: plot.css colours what is
not data.

Every text that a person chose is escaped: Plotly reads a small HTML in labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from html import escape
from typing import Any

import plotly.graph_objects as go

from apps.dashboard.chart_picture import Drawing, draw

GREY = "#7c837f"
UNKNOWN = "#8b918d"
ACCENT = "#159187"
SERIES = {
    "s1": "#0072b2",
    "s2": "#009e73",
    "s3": "#cc79a7",
    "s4": "#3a96dd",
    "s5": "#d55e00",
    "s6": "#a64780",
    "s-idle": "#c78500",
    "s-overhead": "#8f9590",
    "s-system": "#6f7f8c",
    "s-unattributed": "rgba(0,0,0,0)",
    "s-more": "#858546",
    "s-held": "#706f6b",
    "s-off": "#7f97ad",
    "s-lost": "#8c5f4d",
}
# Quality has the same mark everywhere: solid counter, dotted sampled, light modelled or declared.
MARKS: Mapping[str, dict[str, Any]] = {
    "COUNTER": {},
    "SAMPLED": {
        "pattern": {
            "shape": ".",
            "size": 5,
            "solidity": 0.35,
            "fgcolor": "#ffffff",
            "fillmode": "overlay",
        }
    },
    "MODELLED": {"opacity": 0.5},
    "DECLARED": {"opacity": 0.5},
    "SPREAD": {},
}
# Colours with a mark of their own: idle is hatched, unattributed an outline.
COLOUR_MARKS: Mapping[str, dict[str, Any]] = {
    "s-idle": {
        "pattern": {
            "shape": "/",
            "size": 6,
            "solidity": 0.5,
            "fgcolor": "#c78500",
            "bgcolor": "rgba(199,133,0,0.22)",
        }
    },
    "s-unattributed": {"line": {"width": 1.5, "color": GREY}},
}
_VALUE = "%{y:.3~g}"
_LABEL_LENGTH, _LABEL_GAP_PX, _LABEL_PX = (
    14,
    6,
    7.5,
)  # 12 px letters, the widest of common system fonts
_AXIS = {
    "showline": False,
    "ticks": "",
    "zeroline": False,
    "zerolinewidth": 1,
    "gridcolor": "#e4e4de",
    "fixedrange": True,
}


@dataclass(frozen=True)
class Series:
    """One stack of bars: a name, a colour (key of SERIES), a quality (key of MARKS), a page, a
    value per bucket.
    """

    name: str
    colour: str
    quality: str
    href: str
    values: Sequence[float]


@dataclass(frozen=True)
class Chart:
    """A figure as JSON, with a sentence as its text alternative.

    ``running`` is the name of the shaded bar whose hour, day or week is not over, '' for none.
    ``legend`` pairs colour classes with names; ``direct`` says that the names stand beside the bars
    where there is room.
    """

    name: str
    summary: str
    json: dict[str, Any] = field(repr=False)
    legend: Sequence[tuple[str, str]] = ()
    direct: bool = False
    unit: str = ""
    running: str = ""

    @property
    def drawing(self) -> Drawing | None:
        """Return the picture that stands until Plotly has loaded; None without a value."""
        return draw(self.json)


def label(text: str, length: int = 22) -> str:
    """Return a name as a Plotly label, shortened and with escaped markup."""
    return escape(text if len(text) <= length else text[: length - 1] + "…", quote=False)


def _ticks(labels: Sequence[str], max_ticks: int = 8) -> dict[str, Any]:
    step = max(1, -(-len(labels) // max_ticks))
    positions = list(range(0, len(labels), step))
    return {
        "tickvals": positions,
        "ticktext": [label(labels[i]) for i in positions],
        "range": [-0.5, len(labels) - 0.5],
    }


def _direct_labels(series: Sequence[Series]) -> list[dict[str, Any]]:
    """Return labels beside the last bar, in ascending order, at least 6 % of the height apart."""
    tops: dict[str, tuple[float, float]] = {}
    height = 0.0
    for part in series:
        start = tops.get(part.name, (height, height))[0]
        height += part.values[-1]
        tops[part.name] = (start, height)
    highest = (
        max(
            (sum(part.values[i] for part in series) for i in range(len(series[0].values))),
            default=0.0,
        )
        or 1.0
    )
    annotations, last = [], -1.0
    for name, (low, high) in tops.items():
        last = (
            max(last + 0.065, (low + high) / 2 / highest)
            if last >= 0
            else (low + high) / 2 / highest
        )
        annotations.append(
            {
                "text": label(name, _LABEL_LENGTH),
                "x": 1,
                "xref": "paper",
                "xanchor": "left",
                "xshift": _LABEL_GAP_PX,
                "showarrow": False,
                "y": last * highest,
                "yref": "y",
                "yanchor": "middle",
                "font": {"size": 12},
            }
        )
    return annotations


def _room_right(names: Sequence[str]) -> int:
    """Return the pixels that the longest direct label needs."""
    return int(_LABEL_GAP_PX + _LABEL_PX * min(_LABEL_LENGTH, max(map(len, names)))) + 6


def _json(figure: Any) -> dict[str, Any]:
    payload: dict[str, Any] = figure.to_plotly_json()
    return payload


@cache
def _template() -> Any:
    """Return the template of all charts. It is built with the first chart, because Plotly loads
    slowly.
    """
    return go.layout.Template(
        layout={
            "font": {"family": "system-ui, sans-serif", "size": 12, "color": GREY},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "margin": {"l": 48, "r": 92, "t": 10, "b": 28},
            "xaxis": {**_AXIS, "showgrid": False, "fixedrange": False, "ticklabelstandoff": 4},
            "yaxis": {**_AXIS, "zeroline": True, "ticklabelstandoff": 6},
            "hoverlabel": {"font": {"size": 12}},
            "bargap": 0.3,
            "dragmode": "zoom",
        }
    )


@cache
def _template_json() -> dict[str, Any]:
    stored: dict[str, Any] = _template().to_plotly_json()
    return stored


def _figure(**layout: Any) -> Any:
    return go.Figure(layout={"template": _template(), **layout})


def load_plotly() -> None:
    """Load Plotly before the first request, which would otherwise wait for it."""
    _figure().add_bar()


# For figures built in other modules.
new_figure, figure_as_json = _figure, _json


def stacked(
    *,
    name: str,
    summary: str,
    labels: Sequence[str],
    full_labels: Sequence[str],
    edges: Sequence[str],
    unit: str,
    series: Sequence[Series],
    unknown: Sequence[float | None],
    running: int | None = None,
) -> Chart:
    """Return bars stacked by series, from zero; below them, if any device time is unknown, a strip
    that hatches it. It is written as JSON: Plotly's classes take half of the time of an overview's
    chart (tests/dashboard/test_charts.py reads it with them).

    ``unknown`` is the share (0–1) of device time without data per bucket (None: nothing was
    expected): time, not energy, so it is never stacked on kWh. ``running`` is the place of the
    bar whose hour, day or week is not over: it is shaded.
    """
    names = list(dict.fromkeys(part.name for part in series))
    xs = list(range(len(labels)))
    full_texts = [escape(text) for text in full_labels]
    bars: list[dict[str, Any]] = [
        {
            "x": xs,
            "y": list(part.values),
            "name": label(part.name),
            "meta": part.href,
            "marker": {
                "color": SERIES[part.colour],
                "line": {"width": 0},
                **MARKS[part.quality],
                **COLOUR_MARKS.get(part.colour, {}),
            },
            "customdata": full_texts,
            "hovertemplate": (
                f"%{{customdata}}<br>%{{fullData.name}} ({part.quality.lower()}): {_VALUE} "
                f"{unit}<extra></extra>"
            ),
        }
        for part in series
    ]
    strip = any(share is not None and share > 0.005 for share in unknown)
    if strip:
        hatched = {"shape": "/", "size": 5, "fgcolor": UNKNOWN, "bgcolor": "rgba(0,0,0,0)"}
        known = [None if share is None else 1 - share for share in unknown]
        bars += [
            {
                "x": xs,
                "y": values,
                "yaxis": "y2",
                "name": text,
                "marker": marker,
                "customdata": full_texts,
                "hovertemplate": (
                    f"%{{customdata}}<br>{text}: %{{y:.0%}} of device time<extra></extra>"
                ),
            }
            for text, values, marker in (
                ("Measured or estimated", known, {"color": ACCENT}),
                ("Unknown", list(unknown), {"color": "rgba(0,0,0,0)", "pattern": hatched}),
            )
        ]
    direct = 1 < len(names) <= 5
    layout: dict[str, Any] = {
        "template": _template_json(),
        "barmode": "stack",
        "xaxis": {**_ticks(labels), "anchor": "y2" if strip else "y"},
        "yaxis": {"domain": [0.16, 1] if strip else [0, 1], "rangemode": "tozero", "nticks": 5},
        "showlegend": False,
        "annotations": _direct_labels(series) if direct else [],
        "meta": {"edges": list(edges)},
        "margin": {"r": _room_right(names) if direct else 10},
    }
    if running is not None:
        layout["shapes"] = [
            {
                "type": "rect", "xref": "x", "x0": running - 0.5, "x1": running + 0.5,
                "yref": "y domain", "y0": 0, "y1": 1, "layer": "below",
                "fillcolor": GREY, "opacity": 0.22, "line": {"width": 0},
            }
        ]  # fmt: skip
    if strip:
        layout["yaxis2"] = {
            "domain": [0, 0.07],
            "range": [0, 1],
            "showticklabels": False,
            "showgrid": False,
            "fixedrange": True,
        }
    legend = {part.name: part.colour for part in series}
    return Chart(
        name,
        summary,
        {"data": [{"type": "bar", **bar} for bar in bars], "layout": layout},
        [(colour, text) for text, colour in legend.items()],
        len(names) <= 5,
        unit,
        "" if running is None else full_labels[running],
    )


def time_ticks(times: Sequence[str]) -> dict[str, Any]:
    """Return the ticks of a time axis (ISO 8601), with seconds for a range of a few minutes."""
    moments = [datetime.fromisoformat(time) for time in times]
    if moments and max(moments) - min(moments) < timedelta(minutes=5):
        return {"nticks": 3, "tickformat": "%H:%M:%S\n%-d %b", "tickangle": 0}
    return {"nticks": 6, "tickformat": "%H:%M\n%-d %b"}


def lines(
    *,
    name: str,
    summary: str,
    curves: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    unit: str,
) -> Chart:
    """Return lines over years from today on: (name, years, values); each has its own colour and
    dash.
    """
    figure = _figure()
    dashes = ("solid", "dash", "dot")
    for i, (title, years, values) in enumerate(curves):
        figure.add_scatter(
            x=list(years),
            y=list(values),
            name=label(title),
            mode="lines",
            line={"width": 2.5, "color": SERIES[f"s{i + 1}"], "dash": dashes[i % 3]},
            hovertemplate=(
                f"%{{x:.3~g}} years<br>%{{fullData.name}}: {_VALUE} {unit}<extra></extra>"
            ),
        )
    figure.update_layout(
        yaxis={"rangemode": "tozero", "nticks": 5, "ticksuffix": f" {unit.split()[0]}"},
        xaxis={"fixedrange": True, "ticksuffix": " y", "dtick": 1 if curves[0][1][-1] <= 12 else 5},
        dragmode=False,
        showlegend=False,
        margin={"l": 62, "r": 14, "b": 34},
    )
    return Chart(
        name,
        summary,
        _json(figure),
        [(f"s{i + 1}", title) for i, (title, _, _) in enumerate(curves)],
        False,
        unit,
    )


def metric_curve(
    *, name: str, summary: str, steps: Sequence[int], values: Sequence[float | None]
) -> Chart:
    """Return a metric of a run over its steps; a value that is not a number is drawn as a gap."""
    figure = _figure()
    figure.add_scatter(
        x=list(steps),
        y=list(values),
        mode="lines+markers" if len(steps) < 30 else "lines",
        line={"width": 2, "color": SERIES["s1"]},
        connectgaps=False,
        hovertemplate="step %{x}: %{y:.4g}<extra></extra>",
    )
    figure.update_layout(
        yaxis={"nticks": 5, "zeroline": False},
        xaxis={"fixedrange": True, "nticks": 6, "title": {"text": "step"}},
        dragmode=False,
        showlegend=False,
        margin={"l": 58, "r": 14, "b": 44},
    )
    return Chart(name, summary, _json(figure), [], True, "")
