"""Waterfall of the parts of a change: bars that continue each other, from 0 to the difference."""

from collections.abc import Sequence
from html import escape
from typing import Any

from apps.dashboard.charts import SERIES, Chart, figure_as_json, label, new_figure
from apps.dashboard.formatting import Unit

MORE, LESS, DIFFERENCE = "s-idle", "s2", "s1"
_NAMES = {MORE: "More", LESS: "Less", DIFFERENCE: "Difference"}


def waterfall(*, name: str, summary: str, parts: Sequence[tuple[str, int]], unit: Unit) -> Chart:
    """Return the chart of (label, amount) parts and their sum. Hatched: more."""
    labels = [*(text for text, _ in parts), "Difference"]
    bars: dict[str, list[tuple[int, float, float]]] = {}
    start = 0
    for place, (_, amount) in enumerate(parts):
        colour = MORE if amount > 0 else LESS
        bars.setdefault(colour, []).append((place, start / unit.divisor, amount / unit.divisor))
        start += amount
    bars[DIFFERENCE] = [(len(parts), 0.0, start / unit.divisor)]
    figure = new_figure(barmode="overlay")
    for colour, places in bars.items():
        figure.add_bar(
            y=[place for place, _, _ in places],
            x=[length for _, _, length in places],
            base=[base for _, base, _ in places],
            orientation="h",
            name=_NAMES[colour],
            marker=_marker(colour),
            customdata=[[escape(labels[place]), f"{length:+.3g}"] for place, _, length in places],
            hovertemplate=f"%{{customdata[0]}}: %{{customdata[1]}} {unit.name}<extra></extra>",
        )
    figure.update_layout(
        yaxis={
            "tickvals": list(range(len(labels))),
            "ticktext": [label(text) for text in labels],
            "fixedrange": True,
            "range": [len(labels) - 0.5, -0.5],
            "showgrid": False,
            "zeroline": False,
        },
        xaxis={
            "nticks": 4,
            "exponentformat": "none",
            "showgrid": True,
            "zeroline": True,
            "fixedrange": True,
        },
        dragmode=False,
        showlegend=False,
        margin={"l": 148, "r": 14, "t": 10, "b": 30},
    )
    legend = [(colour, _NAMES[colour]) for colour in (MORE, LESS, DIFFERENCE) if colour in bars]
    return Chart(name, summary, figure_as_json(figure), legend, False, unit.name)


def _marker(colour: str) -> dict[str, Any]:
    marker: dict[str, Any] = {"color": SERIES[colour], "line": {"width": 0}}
    if colour == MORE:
        marker["pattern"] = {
            "shape": "/", "size": 6, "solidity": 0.5,
            "fgcolor": SERIES[colour], "bgcolor": "rgba(199,133,0,0.22)",
        }  # fmt: skip
    return marker
