"""Charts of assets: the lifecycle of one asset, and the fleet by age."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from apps.dashboard.charts import ACCENT, SERIES, Chart, figure_as_json, label, new_figure

LABEL_SHARE = 0.16  # of the width: size of a label of 20 letters


@dataclass(frozen=True)
class Mark:
    """A lifecycle event on the line: time (ISO, lab's zone), book value then, and kind."""

    x: str
    y: float
    flag: str
    text: str


@dataclass(frozen=True)
class MonthBars:
    """Charges to one party by month."""

    name: str
    colour: str
    href: str
    values: Sequence[float]


def life(
    *,
    name: str,
    summary: str,
    unit: str,
    past: tuple[Sequence[str], Sequence[float]],
    ahead: tuple[Sequence[str], Sequence[float]],
    marks: Sequence[Mark],
    months: Sequence[tuple[str, float, str]],
    bars: Sequence[MonthBars],
) -> Chart:
    """Return the book value over time (dashed: planned) with events, above charges by month.

    ``months`` are (start in the lab's zone, length in ms, name).
    """
    figure = new_figure(barmode="stack")
    for xs, ys, dash, text in ((*past, "solid", "Book value"), (*ahead, "dash", "As planned")):
        figure.add_scatter(
            x=list(xs),
            y=list(ys),
            yaxis="y2",
            name=text,
            mode="lines",
            line={"width": 2, "color": ACCENT, "dash": dash},
            hovertemplate=f"%{{x|%-d %b %Y}}<br>{text}: %{{y:.3~g}} {unit}<extra></extra>",
        )
    figure.add_scatter(
        x=[mark.x for mark in marks],
        y=[mark.y for mark in marks],
        yaxis="y2",
        name="Entries",
        mode="markers",
        cliponaxis=False,
        marker={
            "size": 10,
            "color": ACCENT,
            "symbol": "diamond",
            "line": {"width": 1.5, "color": "#ffffff"},
        },
        customdata=[escape(mark.text) for mark in marks],
        hovertemplate="%{x|%-d %b %Y}<br>%{customdata}<extra></extra>",
    )
    for part in bars:
        figure.add_bar(
            x=[start for start, _, _ in months],
            y=list(part.values),
            width=[length * 0.86 for _, length, _ in months],
            offset=0,
            name=label(part.name),
            meta=part.href,
            marker={"color": SERIES[part.colour], "line": {"width": 0}},
            customdata=[escape(month_name) for _, _, month_name in months],
            hovertemplate=(
                f"%{{customdata}}<br>%{{fullData.name}}: %{{y:.3~g}} {unit}<extra></extra>"
            ),
        )
    figure.update_layout(
        xaxis={"type": "date", "nticks": 8, "fixedrange": True, "anchor": "y"},
        yaxis={
            "domain": [0, 0.34],
            "visible": bool(bars),
            "rangemode": "tozero",
            "nticks": 4,
            "exponentformat": "none",
        },
        yaxis2={
            "domain": [0.46 if bars else 0, 1],
            "rangemode": "tozero",
            "nticks": 5,
            "zeroline": True,
            "fixedrange": True,
            "exponentformat": "none",
        },
        dragmode=False,
        showlegend=False,
        hovermode="closest",
        margin={"l": 52, "r": 14, "t": 14, "b": 30},
        annotations=_flags(marks, [*past[0], *ahead[0]]),
    )
    return Chart(
        name,
        summary,
        figure_as_json(figure),
        [(part.colour, part.name) for part in bars],
        False,
        unit,
    )


def _flags(marks: Sequence[Mark], xs: Sequence[str]) -> list[dict[str, object]]:
    """Return the labels of the marks, without those that would overlap the previous one."""
    if not xs:
        return []
    times = [datetime.fromisoformat(x) for x in (min(xs), max(xs))]
    room = (times[1] - times[0]) * LABEL_SHARE
    annotations: list[dict[str, object]] = []
    next_free: datetime | None = None
    for mark in marks:
        at = datetime.fromisoformat(mark.x)
        if next_free is not None and at < next_free:
            continue
        next_free = at + room
        annotations.append(
            {
                "x": mark.x,
                "y": mark.y,
                "xref": "x",
                "yref": "y2",
                "text": label(mark.flag, 20),
                "showarrow": False,
                "xanchor": "left",
                "yanchor": "bottom",
                "yshift": 6,
                "xshift": 2,
                "font": {"size": 11},
            }
        )
    return annotations


KindOfYear = tuple[str, str, Sequence[float], Sequence[int]]


def fleet(
    *, name: str, summary: str, unit: str, years: Sequence[str], series: Sequence[KindOfYear]
) -> Chart:
    """Return embodied carbon by purchase year, stacked by kind, above the number of assets.

    ``series`` are (kind, colour, embodied carbon per year, number per year).
    """
    figure = new_figure(barmode="stack")
    for kind, colour, carbon, number in series:
        marker = {"color": SERIES[colour], "line": {"width": 0}}
        figure.add_bar(
            x=list(years),
            y=list(carbon),
            yaxis="y2",
            name=label(kind),
            marker=marker,
            hovertemplate=f"bought %{{x}}<br>%{{fullData.name}}: %{{y:.3~g}} {unit}<extra></extra>",
        )
        figure.add_bar(
            x=list(years),
            y=list(number),
            name=label(kind),
            marker=marker,
            hovertemplate="bought %{x}<br>%{fullData.name}: %{y} things<extra></extra>",
        )
    figure.update_layout(
        xaxis={"type": "category", "fixedrange": True, "anchor": "y"},
        yaxis={"domain": [0, 0.3], "rangemode": "tozero", "nticks": 4},
        yaxis2={
            "domain": [0.42, 1],
            "rangemode": "tozero",
            "nticks": 5,
            "zeroline": True,
            "fixedrange": True,
            "exponentformat": "none",
        },
        dragmode=False,
        showlegend=False,
        margin={"l": 52, "r": 14, "t": 10, "b": 30},
    )
    return Chart(
        name,
        summary,
        figure_as_json(figure),
        [(colour, kind) for kind, colour, _, _ in series],
        False,
        unit,
    )
