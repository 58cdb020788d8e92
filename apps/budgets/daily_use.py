"""Figures of days of a lab, by project: the same sums as those of pages and the API."""

from bisect import bisect_right
from collections import defaultdict
from datetime import date, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from apps.accounts.models import Lab
from apps.budgets.periods import BudgetPeriod, day_at
from apps.carbon.figures.energy import Figure, figures_by, sum_figures
from apps.carbon.figures.figure_query import COST, FigureQuery
from apps.core.intervals import midnight_hour
from apps.core.units import hour_of

_NOTHING = Figure()


class DailyUse:
    """Figures of each day from ``first_day`` to the day of now, which is not over."""

    def __init__(self, first_day: date, today: date, parts: dict[str, dict[int, Figure]]) -> None:
        self.first_day = first_day
        self.today = today
        self._parts = parts

    @property
    def projects(self) -> list[str]:
        """Return the slugs of the projects with use."""
        return sorted(key for key in self._parts if not key.startswith("~"))

    @cached_property
    def _of_lab(self) -> dict[int, Figure]:
        by_day: dict[int, list[Figure]] = defaultdict(list)
        for days in self._parts.values():
            for place, part in days.items():
                by_day[place].append(part)
        return {place: sum_figures(parts) for place, parts in by_day.items()}

    def days(self, project: str, period: BudgetPeriod) -> list[Figure]:
        """Return the figures of the days of a period until today. ``project`` '': of the lab."""
        by_day = self._parts.get(project, {}) if project else self._of_lab
        start = (period.first_day - self.first_day).days
        end = (min(period.end_day, self.today + timedelta(days=1)) - self.first_day).days
        return [by_day.get(place, _NOTHING) for place in range(start, end)]


def daily_use(lab: Lab, first_day: date, now: int, currency: str) -> DailyUse:
    """Return the figures of the days of a lab from ``first_day`` on. One query."""
    zone = ZoneInfo(lab.time_zone)
    today = day_at(now, zone)
    edges = [
        midnight_hour(first_day + timedelta(days=number), zone)
        for number in range((today - first_day).days + 1)
    ]
    query = FigureQuery(
        metric=COST,
        from_hour=edges[0],
        to_hour=hour_of(now) + 1,
        basis=lab.basis,
        profile=lab.profile,
        currency=currency,
    )
    by_charge: dict[str, dict[int, list[Figure]]] = defaultdict(lambda: defaultdict(list))
    for (hour, charge), part in figures_by(lab, query, ["stretch", "charge"]).items():
        by_charge[charge][bisect_right(edges, hour) - 1].append(part)
    return DailyUse(
        first_day,
        today,
        {
            charge: {place: sum_figures(parts) for place, parts in days.items()}
            for charge, days in by_charge.items()
        },
    )
