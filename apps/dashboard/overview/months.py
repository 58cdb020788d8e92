"""The lab's emissions of the last twelve months, a bar per month; its energy where nothing has a
factor.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from apps.accounts.models import Lab
from apps.carbon.figures.combined import CombinedFigure
from apps.carbon.figures.embodied import Embodied, embodied_in
from apps.carbon.figures.energy import Figure, figures_of_lab
from apps.carbon.figures.figure_query import ALLOCATION, TOGETHER, FigureQuery
from apps.core.intervals import midnight_hour, next_unit, unit_start
from apps.core.units import US_PER_HOUR
from apps.dashboard.figures import Quantity, carbon_quantity, percent_quantity, quantity, total
from apps.dashboard.formatting import Unit, unit_for
from apps.dashboard.periods import Period

NUMBER = 12


@dataclass(frozen=True)
class Month:
    """A month. ``quantity`` None: nothing was measured, or nothing of it has
    a factor. ``percent``: height of its bar.
    ``is_shown``: part of it is in the period of the page.
    """

    label: str
    name: str
    quantity: Quantity | None
    percent: float
    is_shown: bool
    is_running: bool


@dataclass(frozen=True)
class Months:
    """Twelve months in one unit. ``share``: the energy of the period in percent of that of the
    months, None if the months contain no other energy.
    """

    unit: Unit
    months: list[Month]
    share: Quantity | None

    @property
    def text(self) -> str:
        """Return the first and the last month."""
        return f"{self.months[0].name} to {self.months[-1].name}"


def last_months(day: date) -> list[date]:
    """Return the first days of the month of ``day`` and of the eleven before, and of the next."""
    first = unit_start("month", day)
    starts = [next_unit("month", first), first]
    for _ in range(NUMBER - 1):
        first = date(first.year - (first.month == 1), (first.month - 2) % 12 + 1, 1)
        starts.append(first)
    return starts[::-1]


def months_of(
    lab: Lab, query: FigureQuery, period: Period, energy_mj: int, now: int, has_hardware: bool
) -> Months | None:
    """Return the months up to the end of ``period``, None if none has data. ``query``,
    ``energy_mj``: of the lab over the period. Two queries.
    """
    starts = last_months(period.last_day)
    edges = [midnight_hour(day, period.zone) for day in starts]
    year = query.replace(from_hour=edges[0], to_hour=edges[-1])
    used = _by_month(figures_of_lab(lab, edges[0], edges[-1]), edges)
    priced = any(part.emission_ug for part in used)
    has_hardware = has_hardware and priced
    metric = TOGETHER if has_hardware else "emission_ug" if priced else "energy_mj"
    charged: dict[int, Embodied] = defaultdict(Embodied)
    if has_hardware:
        parts = embodied_in(lab, year.replace(metric=ALLOCATION), edges, now)
        for (place, _), part in parts.items():
            charged[place] += part
    if not any(part.entries for part in used):
        return None
    values = [
        used[i].emission_ug + charged[i].embodied_ug if priced else used[i].energy_mj
        for i in range(NUMBER)
    ]
    unit = unit_for(metric, [max(values)], column=True)
    months = []
    for i, (start, end) in enumerate(pairwise(edges)):
        own = query.replace(metric=metric, from_hour=start, to_hour=end)
        shown = (
            carbon_quantity(CombinedFigure(own, used[i], charged[i], None), unit)
            if has_hardware
            else quantity(own, used[i], unit)
        )
        month = Period(start, end, period.zone)
        months.append(
            Month(
                label=f"{starts[i]:%b}",
                name=month.label,
                quantity=shown if used[i].entries and not shown.missing else None,
                percent=round(100 * values[i] / max(values), 1) if max(values) else 0,
                is_shown=start < period.to_hour and period.from_hour < end,
                is_running=start <= now // US_PER_HOUR < end,
            )
        )
    return Months(unit, months, _share(query, energy_mj, edges, used))


def _share(
    query: FigureQuery, energy_mj: int, edges: Sequence[int], used: Sequence[Figure]
) -> Quantity | None:
    whole_mj = sum(part.energy_mj for part in used)
    is_within = edges[0] <= query.from_hour and query.to_hour <= edges[-1]
    return (
        percent_quantity(query, energy_mj, whole_mj)
        if is_within and whole_mj > energy_mj > 0
        else None
    )


def _by_month(parts: dict[int, Figure], edges: Sequence[int]) -> list[Figure]:
    """Return the figure of each month. ``parts``: by first hour, of stretches within months."""
    groups: dict[int, list[Figure]] = defaultdict(list)
    for hour, part in parts.items():
        place = next(i for i, end in enumerate(edges[1:]) if hour < end)
        groups[place].append(part)
    return [total(groups[i]) for i in range(len(edges) - 1)]
