"""Store the forecast of each budget after each day, and score those of periods that are over."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from functools import reduce
from operator import or_
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import Q

from apps.accounts.models import Lab
from apps.budgets import formulas
from apps.budgets.choices import BudgetMetric, PeriodKind
from apps.budgets.daily_use import DailyUse, daily_use
from apps.budgets.models import Budget, BudgetForecast
from apps.budgets.periods import day_at, period_at, period_of
from apps.budgets.progress import (
    PAST_PERIODS,
    Progress,
    first_day_read,
    progress_of,
    subject_of,
    without_value_mj,
)
from apps.budgets.selectors import active_budgets
from apps.carbon.choices import RollupKind
from apps.carbon.figures.energy import sum_figures
from apps.carbon.rollups.writer import count_days
from apps.core.intervals import midnight_hour
from apps.core.units import INT64_MAX, US_PER_HOUR, US_PER_S
from apps.reports.checklist import count_unsettled

AFTER_MIDNIGHT_US = 900 * US_PER_S  # the last hour of the day is rolled up by then
RETRY_US = US_PER_HOUR
_BATCH = 500


def record_forecasts(*, lab: Lab, now: int) -> int:
    """Store the forecasts after the day that ended last, and score those of periods that are over.
    Return when to do it again (µs): after the next midnight, or sooner if the figures are not
    complete.

    The day before is stored at no other time: a missed day has no forecast. A stored forecast is
    never changed, its score follows the actual use.
    """
    zone = ZoneInfo(lab.time_zone)
    today = day_at(now, zone)
    budgets = _without_forecast(lab, today, zone)
    ended = _of_ended_periods(lab, now, zone)
    if budgets or ended:
        first_days = [each.first_day for each in ended]
        if budgets:
            kinds = sorted({each.period for each in budgets})
            first_days.append(first_day_read([period_at(kind, now, zone) for kind in kinds], now))
        first_day = min(first_days)
        if not _is_complete(lab, midnight_hour(first_day, zone), midnight_hour(today, zone), now):
            return now + RETRY_US
        with transaction.atomic():
            if budgets:
                _store(progress_of(lab, budgets, now), now)
            if ended:
                _score(lab, ended, now)
    next_day = today + timedelta(days=1)
    return midnight_hour(next_day, zone) * US_PER_HOUR + AFTER_MIDNIGHT_US


def _without_forecast(lab: Lab, today: date, zone: ZoneInfo) -> list[Budget]:
    """Return the active budgets that can have a forecast after yesterday, and do not have it."""
    yesterday = today - timedelta(days=1)
    done = set(
        BudgetForecast.objects.filter(budget__lab=lab, day=yesterday).values_list(
            "budget", flat=True
        )
    )
    return [
        each
        for each in active_budgets(lab)
        if each.pk not in done
        and (today - period_of(each.period, today, zone).first_day).days >= formulas.FIRST_DAY
    ]


def _of_ended_periods(lab: Lab, now: int, zone: ZoneInfo) -> list[BudgetForecast]:
    """Return the forecasts of the periods that are over and recent enough to be read."""
    recent = []
    for kind, number in PAST_PERIODS.items():
        running = period_at(kind, now, zone)
        recent.append(
            Q(
                budget__period=kind,
                first_day__gte=running.past(number)[-1].first_day,
                first_day__lt=running.first_day,
            )
        )
    rows = BudgetForecast.objects.filter(reduce(or_, recent), budget__lab=lab)
    return list(rows.select_related("budget__lab", "budget__project").order_by("pk"))


def _is_complete(lab: Lab, from_hour: int, to_hour: int, now: int) -> bool:
    """Return whether the energy of a time is in the ledger, and its days are rolled up."""
    if count_unsettled(lab, from_hour, to_hour):
        return False
    done, total = count_days(lab, RollupKind.USE, from_hour, to_hour, now)
    return done == total


def _store(listed: Iterable[Progress], now: int) -> None:
    BudgetForecast.objects.bulk_create(
        [row for each in listed if (row := _row(each, now))], ignore_conflicts=True
    )


def _row(progress: Progress, now: int) -> BudgetForecast | None:
    """Return the forecast after the last complete day. None if a part of the use is unknown."""
    budget, complete = progress.budget, progress.days[:-1]
    used = sum_figures(complete)
    if not progress.has_data or without_value_mj(budget, used):
        return None
    forecast = formulas.forecast(
        [day.value(budget.metric) for day in complete],
        progress.period.day_count,
        progress.ratios.values_ppm,
    ).with_planned(progress.planned.low, progress.planned.likely, progress.planned.high)
    return BudgetForecast(
        budget=budget,
        first_day=progress.period.first_day,
        day=progress.period.first_day + timedelta(days=len(complete) - 1),
        created_us=now,
        basis=_basis(budget),
        used=used.value(budget.metric),
        total=_storable(forecast.total),
        low=None if forecast.low is None else _storable(forecast.low),
        high=None if forecast.high is None else _storable(forecast.high),
    )


def _storable(value: int) -> int:
    """Return a bound at most as high as any total that can be stored."""
    return min(value, INT64_MAX)


def _basis(budget: Budget) -> str:
    return budget.lab.basis if budget.metric == BudgetMetric.EMISSION else ""


def _score(lab: Lab, forecasts: Sequence[BudgetForecast], now: int) -> None:
    first_days: dict[str, date] = {}
    for each in forecasts:
        currency = each.budget.currency or lab.currency
        first_days[currency] = min(each.first_day, first_days.get(currency, each.first_day))
    use = {
        currency: daily_use(lab, first_day, now, currency)
        for currency, first_day in sorted(first_days.items())
    }
    of_period: dict[tuple[int, date], list[BudgetForecast]] = defaultdict(list)
    for each in forecasts:
        of_period[each.budget_id, each.first_day].append(each)
    changed = []
    for (_, first_day), rows in of_period.items():
        budget = rows[0].budget
        actual = _actual(budget, first_day, use[budget.currency or lab.currency])
        for row in rows:
            before = (row.actual, row.is_inside)
            row.actual = actual if row.basis == _basis(budget) else None
            row.is_inside = None
            if row.actual is not None and row.low is not None and row.high is not None:
                row.is_inside = formulas.is_inside(row.low, row.high, row.actual)
            if (row.actual, row.is_inside) != before:
                changed.append(row)
    BudgetForecast.objects.bulk_update(changed, ["actual", "is_inside"], batch_size=_BATCH)


def _actual(budget: Budget, first_day: date, use: DailyUse) -> int | None:
    """Return the use of a period, None if a part of it is unknown or nothing was measured."""
    period = period_of(PeriodKind(budget.period), first_day, ZoneInfo(budget.lab.time_zone))
    used = sum_figures(use.days(subject_of(budget), period))
    has_data = used.entries or any(day.entries for day in use.days("", period))
    if not has_data or without_value_mj(budget, used):
        return None
    return used.value(budget.metric)
