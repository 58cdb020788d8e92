"""Chart figures of artifacts: stored bytes by kind and project."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from apps.dashboard.charts import SERIES, UNKNOWN, Chart, figure_as_json, label, new_figure


@dataclass(frozen=True)
class BarSeries:
    """Bytes of a project by kind, or of a medium by project, in the chart's unit. ``colour``: a key
    of SERIES.
    """

    name: str
    colour: str
    href: str
    values: Sequence[float]
    is_hatched: bool = False  # unknown medium


def _marker(part: BarSeries) -> dict[str, Any]:
    if part.is_hatched:
        return {
            "color": SERIES[part.colour],
            "line": {"width": 0},
            "pattern": {"shape": "/", "size": 5, "fgcolor": UNKNOWN, "bgcolor": "rgba(0,0,0,0)"},
        }
    return {"color": SERIES[part.colour], "line": {"width": 0}}


def stacked_bytes_chart(
    *, name: str, summary: str, kinds: Sequence[str], projects: Sequence[BarSeries], unit: str
) -> Chart:
    """Return horizontal bars of bytes per kind, stacked by project, from zero."""
    figure = new_figure(barmode="stack")
    for part in projects:
        figure.add_bar(
            y=list(range(len(kinds))),
            x=list(part.values),
            orientation="h",
            name=label(part.name),
            meta=part.href,
            marker=_marker(part),
            customdata=[escape(kind) for kind in kinds],
            hovertemplate=(
                f"%{{customdata}}<br>%{{fullData.name}}: %{{x:.3~g}} {unit}<extra></extra>"
            ),
        )
    figure.update_layout(
        yaxis={
            "tickvals": list(range(len(kinds))),
            "ticktext": [label(kind) for kind in kinds],
            "fixedrange": True,
            "range": [len(kinds) - 0.5, -0.5],
            "showgrid": False,
            "zeroline": False,
        },
        xaxis={
            "rangemode": "tozero",
            "nticks": 5,
            "ticksuffix": f" {unit}",
            "exponentformat": "none",
            "showgrid": True,
            "fixedrange": True,
        },
        dragmode=False,
        showlegend=False,
        margin={"l": 82, "r": 10, "t": 10, "b": 30},
    )
    return Chart(
        name,
        summary,
        figure_as_json(figure),
        [(part.colour, part.name) for part in projects],
        False,
        unit,
    )
