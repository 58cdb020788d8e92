"""Burn-down of a budget: its remaining amount after each day, even use, and the forecast."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from itertools import accumulate

from apps.budgets.progress import Progress
from apps.core.units import US_PER_S
from apps.dashboard.charts import SERIES, Chart, figure_as_json, new_figure
from apps.dashboard.formatting import Unit, format_value

REMAINING, EVEN, FORECAST, RANGE = "s1", "s-held", "s5", "s6"
_NAMES = {
    REMAINING: "Remaining",
    EVEN: "Even use (dashed)",
    FORECAST: "Forecast (dotted)",
    RANGE: "Range (dots and dashes)",
}
_Point = tuple[str, int]


def burn_down(progress: Progress, unit: Unit, now: int) -> Chart:
    """Return the chart. A day's point is its end; the last point is now."""
    period, amount = progress.period, progress.amount
    values = [figure.value(progress.budget.metric) for figure in progress.days]
    used = [0, *accumulate(values)]
    edges = [period.first_day + timedelta(days=place) for place in range(len(values))]
    local_now = datetime.fromtimestamp(now // US_PER_S, tz=period.zone)
    times = [*map(_midnight, edges), local_now.strftime("%Y-%m-%dT%H:%M")]
    end = _midnight(period.end_day)
    lines: list[tuple[str, str, Sequence[_Point]]] = [
        (EVEN, "dash", [(times[0], amount), (end, 0)]),
        (REMAINING, "solid", [(at, amount - sum_) for at, sum_ in zip(times, used, strict=True)]),
    ]
    forecast = progress.forecast
    if forecast:
        start = (_midnight(edges[-1]), amount - used[-2])
        lines.append((FORECAST, "dot", [start, (end, amount - forecast.total)]))
        if forecast.low is not None and forecast.high is not None:
            lines += [
                (RANGE, "dashdot", [start, (end, amount - bound)])
                for bound in (forecast.low, forecast.high)
            ]
    figure = new_figure()
    for colour, dash, points in lines:
        figure.add_scatter(
            x=[at for at, _ in points],
            y=[value / unit.divisor for _, value in points],
            name=_NAMES[colour],
            mode="lines",
            line={
                "width": 2.5 if colour == REMAINING else 2,
                "color": SERIES[colour],
                "dash": dash,
            },
            hovertemplate=(
                f"%{{x|%-d %b}}<br>{_NAMES[colour]}: %{{y:.3~g}} {unit.name}<extra></extra>"
            ),
        )
    figure.update_layout(
        yaxis={"rangemode": "tozero", "nticks": 5},
        xaxis={"type": "date", "tickformat": "%-d %b", "nticks": 6, "tickangle": 0},
        dragmode=False,
        showlegend=False,
        margin={"r": 10},
    )
    summary = (
        f"Remaining budget by day: {format_value(amount - used[-1], unit)} of "
        f"{format_value(amount, unit)} {unit.name}"
    )
    legend = [(colour, _NAMES[colour]) for colour in dict.fromkeys(each[0] for each in lines)]
    return Chart("burn-down", summary, figure_as_json(figure), legend, False, unit.name)


def _midnight(day: date) -> str:
    return f"{day.isoformat()}T00:00"
