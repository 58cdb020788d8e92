"""Progress of budgets in the running period: use, forecast with its range, and state."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from zoneinfo import ZoneInfo

from apps.accounts.models import Lab
from apps.budgets import formulas
from apps.budgets.choices import BudgetMetric, BudgetState, NoForecast, NoRange, PeriodKind
from apps.budgets.daily_use import DailyUse, daily_use
from apps.budgets.formulas import Forecast
from apps.budgets.models import Budget
from apps.budgets.periods import BudgetPeriod, day_at, period_at
from apps.budgets.planned_runs import PlannedRuns, planned_runs, read_planned_runs
from apps.carbon.coverage import TimeShares, device_times, time_shares
from apps.carbon.figures.energy import Figure, sum_figures
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.units import hour_of

UNKNOWN = BudgetState.UNKNOWN
# Past periods whose errors make a range.
PAST_PERIODS = {PeriodKind.MONTH: 12, PeriodKind.QUARTER: 8, PeriodKind.YEAR: 3}


@dataclass(frozen=True)
class PastRatios:
    """Actual ÷ forecast use of past periods in ppm. ``is_own``: of this project or lab only, else
    of all projects.
    """

    values_ppm: Sequence[int]
    is_own: bool


@dataclass(frozen=True)
class PastPeriod:
    """A period that is over, and the amount of the budget in it."""

    period: BudgetPeriod
    amount: int
    query: FigureQuery
    used: Figure
    state: BudgetState


@dataclass(frozen=True)
class Progress:
    """A budget in its running period.

    ``days``: figures of the days, today's last. ``forecast`` None: see ``no_forecast``.
    ``ratios``: of the range, also if they are too few. ``times``: device time of the lab.
    ``planned``: part of the forecast.
    """

    budget: Budget
    period: BudgetPeriod
    amount: int
    query: FigureQuery
    days: list[Figure]
    used: Figure
    forecast: Forecast | None
    no_forecast: NoForecast | None
    no_range: NoRange | None
    ratios: PastRatios
    times: TimeShares
    planned: PlannedRuns

    @property
    def state(self) -> BudgetState:
        if not self.has_value:
            return UNKNOWN
        return state_of(self.used.value(self.budget.metric), self.amount, self.forecast)

    @property
    def complete_days(self) -> int:
        return len(self.days) - 1

    @property
    def forecast_day(self) -> date:
        """Return the first day with a forecast."""
        return self.period.first_day + timedelta(days=formulas.FIRST_DAY)

    @property
    def without_value_mj(self) -> int:
        """Return the energy without an emission factor, or without a price."""
        return without_value_mj(self.budget, self.used)

    @property
    def has_value(self) -> bool:
        """Return whether the use, or a part of it, is known."""
        return self.has_data and is_known(self.budget, self.used)

    @property
    def has_data(self) -> bool:
        """Return whether anything was measured in the lab, or declared for the budget."""
        return bool(self.used.entries or self.times.measured_us or self.times.estimated_us)


def progress_of(lab: Lab, budgets: Sequence[Budget], now: int) -> list[Progress]:
    """Return the progress of active budgets. One query for each kind of period and each currency,
    and one for planned runs, whatever the number of budgets.
    """
    zone = ZoneInfo(lab.time_zone)
    periods = {kind: period_at(kind, now, zone) for kind in {each.period for each in budgets}}
    times = {
        kind: time_shares(
            device_times(lab, period.from_hour, min(period.to_hour, hour_of(now) + 1), now)
        )
        for kind, period in sorted(periods.items())
    }
    use = {
        currency: daily_use(lab, first_day_read(periods.values(), now), now, currency)
        for currency in sorted({each.currency or lab.currency for each in budgets})
    }
    estimates = read_planned_runs(lab, now)
    return [
        _progress(
            each,
            periods[each.period],
            use[each.currency or lab.currency],
            times[each.period],
            planned_runs(each, estimates),
            now,
        )
        for each in budgets
    ]


def first_day_read(periods: Iterable[BudgetPeriod], now: int) -> date:
    """Return the first day of the periods, and of the past ones of those with a forecast."""
    return min(
        period.past(PAST_PERIODS[PeriodKind(period.kind)])[-1].first_day
        if (day_at(now, period.zone) - period.first_day).days >= formulas.FIRST_DAY
        else period.first_day
        for period in periods
    )


def _progress(
    budget: Budget,
    period: BudgetPeriod,
    use: DailyUse,
    times: TimeShares,
    planned: PlannedRuns,
    now: int,
) -> Progress:
    days = use.days(subject_of(budget), period)
    used = sum_figures(days)
    values = [day.value(budget.metric) for day in days]
    complete = values[:-1]
    amount = budget.amount_on(period.first_day)
    ratios = past_ratios(budget, period, use, len(complete))
    forecast, no_forecast, no_range = None, None, None
    if len(complete) < formulas.FIRST_DAY:
        no_forecast = NoForecast.EARLY
    elif not is_known(budget, used):
        no_forecast = NoForecast.UNKNOWN
    else:
        forecast = formulas.forecast(
            complete, period.day_count, ratios.values_ppm, used_today=values[-1]
        ).with_planned(planned.low, planned.likely, planned.high)
        if forecast.low is None:
            no_range = NoRange.NO_USE if forecast.rest <= 0 else NoRange.FEW_PERIODS
    return Progress(
        budget,
        period,
        amount,
        query_of(budget, period, min(period.to_hour, hour_of(now) + 1)),
        days,
        used,
        forecast,
        no_forecast,
        no_range,
        ratios,
        times,
        planned,
    )


def subject_of(budget: Budget) -> str:
    """Return the slug of the project, '' for the lab."""
    return budget.project.slug if budget.project else ""


def query_of(budget: Budget, period: BudgetPeriod, to_hour: int) -> FigureQuery:
    """Return the query of a budget's figure from the start of a period to an hour."""
    return FigureQuery(
        metric=budget.metric,
        from_hour=period.from_hour,
        to_hour=to_hour,
        subject_kind="project" if budget.project else "lab",
        subject_key=subject_of(budget),
        basis=budget.lab.basis,
        profile=budget.lab.profile,
        currency=budget.currency,
    )


def state_of(used: int, amount: int, forecast: Forecast | None = None) -> BudgetState:
    """Return the state of a known use."""
    if used > amount:
        return BudgetState.OVER
    near = formulas.is_near(used, amount, forecast.total if forecast else None)
    return BudgetState.NEAR if near else BudgetState.WITHIN


def without_value_mj(budget: Budget, used: Figure) -> int:
    """Return the energy that has no value in the metric of a budget."""
    missing_mj = {
        BudgetMetric.EMISSION.value: used.without_factor_mj,
        BudgetMetric.COST.value: used.without_price_mj,
    }
    return missing_mj.get(budget.metric, 0)


def is_known(budget: Budget, used: Figure) -> bool:
    """Return whether a part of the use has a value: energy without any factor or price has none."""
    return not used.energy_mj or without_value_mj(budget, used) != used.energy_mj


def past_ratios(budget: Budget, period: BudgetPeriod, use: DailyUse, day: int) -> PastRatios:
    """Return the ratios of past periods at the same share of the period: the budget's own if there
    are enough, else those of all projects.
    """
    if not formulas.FIRST_DAY <= day < period.day_count:
        return PastRatios([], True)
    past = period.past(PAST_PERIODS[PeriodKind(period.kind)])
    own = _ratios_of(subject_of(budget), budget.metric, period, past, use, day)
    if len(own) >= formulas.LEAST_PERIODS:
        return PastRatios(own, True)
    others = [
        ratio
        for slug in use.projects
        if slug != subject_of(budget)
        for ratio in _ratios_of(slug, budget.metric, period, past, use, day)
    ]
    return PastRatios([*own, *others], not others)


def _ratios_of(
    subject: str,
    metric: str,
    period: BudgetPeriod,
    past: Sequence[BudgetPeriod],
    use: DailyUse,
    day: int,
) -> list[int]:
    found = []
    for each in past:
        values = [part.value(metric) for part in use.days(subject, each)]
        same_day = formulas.same_share(day, period.day_count, each.day_count)
        ratio = formulas.past_ratio_ppm(values, same_day)
        if ratio is not None:
            found.append(ratio)
    return found


def past_periods(budget: Budget, now: int) -> list[PastPeriod]:
    """Return the periods of a budget that are over, latest first. One query."""
    zone = ZoneInfo(budget.lab.time_zone)
    running = period_at(budget.period, now, zone)
    ended = period_at(budget.period, budget.ended_us or now, zone)
    past = [
        (each, budget.amount_on(each.first_day))
        for each in running.past(PAST_PERIODS[PeriodKind(budget.period)])
        if budget.first_day <= each.first_day <= ended.first_day
    ]
    if not past:
        return []
    first_day = past[-1][0].first_day
    use = daily_use(budget.lab, first_day, now, budget.currency or budget.lab.currency)
    found = []
    for each, amount in past:
        used = sum_figures(use.days(subject_of(budget), each))
        has_value = used.entries and is_known(budget, used)
        state = state_of(used.value(budget.metric), amount) if has_value else UNKNOWN
        found.append(PastPeriod(each, amount, query_of(budget, each, each.to_hour), used, state))
    return found
