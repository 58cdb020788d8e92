"""Forecasts are stored after each day, never afterwards, and scored when the use is known."""

from datetime import date, timedelta
from fractions import Fraction
from math import floor
from random import Random

import pytest
import time_machine
from django.db import IntegrityError, transaction

from apps.accounts.choices import Basis
from apps.accounts.models import Project
from apps.budgets.choices import BudgetMetric, PeriodKind
from apps.budgets.jobs import FORECAST, START
from apps.budgets.models import Budget, BudgetForecast
from apps.budgets.selectors import HitRate, forecasts_of, hit_rate
from apps.budgets.services import end_budget
from apps.budgets.stored_forecasts import AFTER_MIDNIGHT_US, RETRY_US, record_forecasts
from apps.carbon.choices import RollupKind
from apps.carbon.rollups.writer import mark_stale, roll_up
from apps.core.jobs import enqueue, enqueue_periodic_jobs, run_until_idle
from apps.core.models import Job
from apps.core.units import hour_of
from apps.fleet.services import set_price
from tests.budgets.support import KWH, at, budget, use_days
from tests.builders import T0, SmallLab, small_lab

pytestmark = pytest.mark.django_db
MJ = 10**7
NOVEMBER, DECEMBER = date(2026, 11, 1), date(2026, 12, 1)
DAY = timedelta(days=1)


def days_of(first: date, last: date, energy_mj: int = MJ) -> dict[date, int]:
    return {first + timedelta(days=place): energy_mj for place in range((last - first).days)}


def night(small: SmallLab, day: date) -> int:
    """Return the time of the job after midnight, when the day has just begun."""
    return at(small, day, 0) + AFTER_MIDNIGHT_US


def record(small: SmallLab, day: date, hour: int = 0) -> int:
    """Roll up the days before and run the job on a day."""
    now = at(small, day, hour) + AFTER_MIDNIGHT_US
    assert roll_up(lab=small.lab, now=now)
    return record_forecasts(lab=small.lab, now=now)


def stored() -> list[BudgetForecast]:
    return list(BudgetForecast.objects.order_by("budget", "day"))


def rounded(value: Fraction) -> int:
    return floor(value + Fraction(1, 2))


def expected_rest(values: list[int], remaining: int) -> int:
    return rounded(Fraction(sum(values[-7:]), 7) * remaining)


def at_tenth(values: list[int], tenth: int) -> Fraction:
    """Interpolate between the neighbours of a place in the sorted values."""
    place = Fraction(tenth, 10) * (len(values) - 1)
    below = floor(place)
    ordered = [*sorted(values), 0]
    return ordered[below] + (ordered[below + 1] - ordered[below]) * (place - below)


def test_a_month_of_forecasts_equals_an_oracle_of_the_uploaded_days() -> None:
    small, random = small_lab(), Random(7)
    first = date(2026, 4, 1)
    days = {day: random.randrange(MJ // 10, MJ) for day in days_of(first, DECEMBER)}
    use_days(small, days)
    budget(small, project=Project.objects.get(slug="demo"))
    now = night(small, DECEMBER)
    assert roll_up(lab=small.lab, now=now)
    for number in range(1, 31):
        record_forecasts(lab=small.lab, now=night(small, NOVEMBER + number * DAY))
    rows = stored()
    assert [row.day.day for row in rows] == list(range(14, 30))
    november = [days[NOVEMBER + place * DAY] for place in range(30)]
    hits = 0
    for row in rows:
        count = row.day.day
        rest = expected_rest(november[:count], 30 - count)
        ratios = []
        for month in range(4, 11):
            start = date(2026, month, 1)
            values = [
                days[start + place * DAY]
                for place in range(31)
                if (start + place * DAY).month == month
            ]
            cut = min(rounded(Fraction(count * len(values), 30)), len(values) - 1)
            pace = expected_rest(values[:cut], len(values) - cut)
            ratios.append(rounded(Fraction(sum(values[cut:]) * 10**6, pace)))
        used = sum(november[:count])
        low, high = (
            used + rounded(Fraction(rest * rounded(at_tenth(ratios, tenth)), 10**6))
            for tenth in (1, 9)
        )
        assert (row.used, row.total, row.low, row.high) == (used, used + rest, low, high)
        assert (row.actual, row.is_inside) == (sum(november), low <= sum(november) <= high)
        hits += low <= sum(november) <= high
    assert hit_rate(Budget.objects.get()) == HitRate(hits, 16)


def test_days_thirteen_and_the_last_have_none() -> None:
    small = small_lab()
    use_days(small, days_of(NOVEMBER, DECEMBER))
    budget(small)
    record(small, date(2026, 11, 14))
    assert not stored()
    record(small, date(2026, 11, 15))
    assert [row.day for row in stored()] == [date(2026, 11, 14)]
    record(small, date(2026, 11, 30))
    record(small, DECEMBER)
    assert [row.day for row in stored()] == [date(2026, 11, 14), date(2026, 11, 29)]


def test_twice_is_the_same_as_one_time_and_a_stored_forecast_is_not_changed() -> None:
    small = small_lab()
    use_days(small, days_of(NOVEMBER, DECEMBER))
    budget(small)
    for _ in range(2):
        record(small, date(2026, 11, 20))
    [before] = BudgetForecast.objects.values()
    use_days(small, {date(2026, 11, 19): 5 * MJ}, number=2, hour=8)
    record(small, date(2026, 11, 20), 23)
    assert list(BudgetForecast.objects.values()) == [before]
    for _ in range(2):
        record(small, DECEMBER)
    [after] = BudgetForecast.objects.values()
    assert after["actual"] == 30 * (MJ + 7) + 5 * MJ + 7
    assert {**after, "actual": None, "is_inside": None} == before


def test_a_missed_day_is_not_made_up() -> None:
    small = small_lab()
    use_days(small, days_of(NOVEMBER, DECEMBER))
    budget(small)
    for day in (date(2026, 11, 16), date(2026, 11, 19), date(2026, 12, 20)):
        record(small, day)
    assert [row.day.day for row in stored()] == [15, 18]


def test_use_of_the_running_day_is_not_in_it() -> None:
    small = small_lab()
    use_days(small, {**days_of(NOVEMBER, date(2026, 11, 20)), date(2026, 11, 20): 90 * MJ}, hour=3)
    budget(small)
    record(small, date(2026, 11, 20), 22)
    [row] = stored()
    assert (row.day.day, row.used, row.total) == (19, 19 * (MJ + 7), 30 * (MJ + 7))


def test_it_waits_until_the_days_are_settled_and_rolled_up() -> None:
    small = small_lab()
    use_days(small, days_of(NOVEMBER, date(2026, 11, 20)))
    budget(small)
    now = night(small, date(2026, 11, 20))
    assert record_forecasts(lab=small.lab, now=now) == now + RETRY_US
    assert roll_up(lab=small.lab, now=now)
    hour = hour_of(at(small, date(2026, 11, 3)))
    mark_stale(lab=small.lab, what=RollupKind.USE, from_hour=hour, to_hour=hour + 1)
    assert record_forecasts(lab=small.lab, now=now) == now + RETRY_US
    assert roll_up(lab=small.lab, now=now)
    enqueue(kind="carbon.apply_factors", key=str(small.lab.pk))
    assert record_forecasts(lab=small.lab, now=now) == now + RETRY_US
    assert not stored()
    Job.objects.all().delete()
    assert record_forecasts(lab=small.lab, now=now) == night(small, date(2026, 11, 21))
    assert len(stored()) == 1


def test_a_forecast_without_a_range_is_scored_and_not_counted() -> None:
    small = small_lab()
    use_days(small, days_of(NOVEMBER, DECEMBER))
    one = budget(small)
    record(small, date(2026, 11, 20))
    record(small, DECEMBER)
    [row] = stored()
    assert (row.low, row.high, row.is_inside) == (None, None, None)
    assert row.actual == row.total == 30 * (MJ + 7)
    assert hit_rate(one) == HitRate(0, 0)
    assert hit_rate(one).ppm is None


def test_the_score_follows_late_data() -> None:
    small = small_lab()
    use_days(small, days_of(date(2026, 4, 1), DECEMBER))
    one = budget(small)
    record(small, date(2026, 11, 20))
    record(small, DECEMBER)
    [row] = stored()
    assert (row.actual, row.is_inside) == (30 * (MJ + 7), True)
    assert hit_rate(one) == HitRate(1, 1)
    use_days(small, {date(2026, 11, 28): MJ}, number=2, hour=8)
    record(small, date(2026, 12, 2))
    [row] = stored()
    assert (row.actual, row.is_inside) == (31 * (MJ + 7), False)
    assert (hit_rate(one), hit_rate(one).ppm) == (HitRate(0, 1), 0)


def test_an_unknown_emission_factor_has_no_forecast_and_an_unknown_actual_no_score() -> None:
    dark = small_lab(zone="")
    use_days(dark, days_of(NOVEMBER, date(2026, 11, 20)))
    budget(dark, metric=BudgetMetric.EMISSION)
    record(dark, date(2026, 11, 20))
    assert not stored()
    small = small_lab(name="Light")
    use_days(small, days_of(NOVEMBER, DECEMBER), number=3)
    budget(small, metric=BudgetMetric.EMISSION)
    record(small, date(2026, 11, 20))
    small.lab.refresh_from_db()
    record(small, DECEMBER)
    [row] = stored()
    assert row.basis == small.lab.basis
    assert row.actual is not None
    other = Basis.DIRECT if small.lab.basis == Basis.LIFECYCLE else Basis.LIFECYCLE
    small.lab.basis = other
    small.lab.save()
    record(small, date(2026, 12, 2))
    [row] = stored()
    assert (row.actual, row.is_inside) == (None, None)


def test_a_cost_of_which_the_price_is_partly_unknown_is_no_actual() -> None:
    small = small_lab()
    set_price(
        site=small.site, ucurrency_per_kwh=300_000, currency="EUR",
        from_us=at(small, date(2026, 11, 3)), by=small.owner, now=T0,
    )  # fmt: skip
    small.lab.refresh_from_db()
    use_days(small, days_of(date(2026, 11, 4), DECEMBER, KWH // 100))
    budget(small, metric=BudgetMetric.COST, amount=10**6)
    record(small, date(2026, 11, 20))
    record(small, DECEMBER)
    [row] = stored()
    assert row.actual is not None
    assert row.actual > row.used > 0
    use_days(small, {date(2026, 11, 2): MJ}, number=2)
    record(small, date(2026, 12, 2))
    [row] = stored()
    assert row.actual is None


def test_nothing_measured_has_no_forecast_and_a_project_without_use_has_one_of_zero() -> None:
    small = small_lab()
    idle = Project.objects.create(lab=small.lab, slug="idle", name="Idle", created_us=T0)
    budget(small, project=idle)
    record(small, date(2026, 11, 20))
    assert not stored()
    use_days(small, days_of(NOVEMBER, DECEMBER))
    record(small, date(2026, 11, 20))
    record(small, DECEMBER)
    [row] = stored()
    assert (row.used, row.total, row.low, row.actual) == (0, 0, None, 0)


def test_all_kinds_of_periods_and_ended_budgets_are_scored() -> None:
    small = small_lab()
    use_days(small, days_of(date(2026, 10, 1), date(2027, 1, 3)))
    ended, *_ = [budget(small, period=kind) for kind in PeriodKind]
    record(small, date(2026, 11, 20))
    end_budget(budget=ended, by=small.owner, now=night(small, date(2026, 11, 21)))
    record(small, date(2026, 11, 22))
    numbers = {
        kind: BudgetForecast.objects.filter(budget__period=kind).count() for kind in PeriodKind
    }
    assert numbers == {PeriodKind.MONTH: 1, PeriodKind.QUARTER: 2, PeriodKind.YEAR: 2}
    record(small, date(2026, 12, 1))
    assert [row.actual for row in stored() if row.actual is not None] == [30 * (MJ + 7)]
    record(small, date(2027, 1, 2))
    actuals = {row.budget.period: row.actual for row in stored()}
    assert actuals == {
        PeriodKind.MONTH: 30 * (MJ + 7),
        PeriodKind.QUARTER: 92 * (MJ + 7),
        PeriodKind.YEAR: 92 * (MJ + 7),
    }


def test_other_labs_are_left_alone() -> None:
    small, other = small_lab(), small_lab(name="Other")
    for number, each in enumerate((small, other)):
        use_days(each, days_of(NOVEMBER, DECEMBER), number=number)
        budget(each)
    record(small, date(2026, 11, 20))
    assert [row.budget.lab_id for row in stored()] == [small.lab.pk]
    record(other, date(2026, 11, 21))
    record(other, DECEMBER)
    assert {row.budget.lab_id: row.actual for row in stored()} == {
        small.lab.pk: None, other.lab.pk: 30 * (MJ + 7),
    }  # fmt: skip


def test_the_job_runs_after_each_midnight_of_the_lab() -> None:
    small, quiet = small_lab(), small_lab(name="Quiet")
    use_days(small, days_of(NOVEMBER, DECEMBER))
    one = budget(small)
    Job.objects.all().delete()
    with time_machine.travel(night(small, date(2026, 11, 20)) / 1e6, tick=False) as clock:
        assert roll_up(lab=small.lab, now=night(small, date(2026, 11, 20)))
        enqueue_periodic_jobs()
        run_until_idle(worker="w")
        job = Job.objects.get(kind=FORECAST)
        assert (job.key, job.due_us) == (str(small.lab.pk), night(small, date(2026, 11, 21)))
        assert Job.objects.filter(kind=START).count() == 1
        clock.move_to(night(small, date(2026, 11, 21)) / 1e6)
        assert roll_up(lab=small.lab, now=night(small, date(2026, 11, 21)))
        run_until_idle(worker="w")
    assert [row.day.day for row in forecasts_of(one)] == [20, 19]
    assert not Job.objects.filter(kind=FORECAST, key=str(quiet.lab.pk)).exists()


def test_the_database_refuses_a_second_forecast_a_half_range_and_a_score_without_range() -> None:
    small = small_lab()
    values = {
        "budget": budget(small), "first_day": NOVEMBER, "day": date(2026, 11, 14), "created_us": T0,
        "used": 1, "total": 2,
    }  # fmt: skip
    for wrong in (
        {"low": 1},
        {"high": 1},
        {"low": 2, "high": 1},
        {"is_inside": True},
        {"is_inside": True, "actual": 1},
        {"low": 1, "high": 2, "actual": 1},
        {"low": 1, "high": 2, "is_inside": True},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            BudgetForecast.objects.create(**values, **wrong)
    BudgetForecast.objects.create(**values)
    with pytest.raises(IntegrityError), transaction.atomic():
        BudgetForecast.objects.create(**values)
