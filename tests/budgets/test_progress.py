"""Progress of budgets: the figures of pages by day, forecast, range and state."""

from datetime import date, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import AuditEntry, Project
from apps.budgets.choices import (
    BudgetAct,
    BudgetMetric,
    BudgetState,
    NoForecast,
    NoRange,
    PeriodKind,
)
from apps.budgets.models import Budget, BudgetAmount
from apps.budgets.periods import period_at, period_of
from apps.budgets.progress import Progress, past_periods, progress_of
from apps.budgets.selectors import active_budgets
from apps.budgets.services import change_amount, end_budget
from apps.carbon.figures.energy import figure
from apps.carbon.rollups.writer import roll_up
from apps.core.errors import Conflict, InvalidInput
from apps.fleet.services import set_price
from tests.budgets.support import KWH, at, budget, use_days
from tests.builders import T0, SmallLab, small_lab

pytestmark = pytest.mark.django_db
MJ = 10**7  # of a day
NOVEMBER = date(2026, 11, 1)


def only(small: SmallLab, now: int) -> Progress:
    [found] = progress_of(small.lab, list(active_budgets(small.lab)), now)
    return found


def november(until: int, energy_mj: int = MJ) -> dict[date, int]:
    return {NOVEMBER + timedelta(days=place): energy_mj for place in range(until)}


def months(first: date, last: date, energy_mj: int = MJ) -> dict[date, int]:
    return {first + timedelta(days=place): energy_mj for place in range((last - first).days)}


@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("of_project", [False, True])
def test_the_days_sum_to_the_figure_of_the_page(rolled: bool, of_project: bool) -> None:
    small = small_lab()
    use_days(small, {day: MJ + day.day for day in november(20)})
    use_days(small, dict.fromkeys(november(20), 3 * MJ), project="other", number=2)
    project = Project.objects.get(slug="demo") if of_project else None
    for metric in (BudgetMetric.ENERGY, BudgetMetric.EMISSION):
        budget(small, metric=metric, project=project)
    now = at(small, date(2026, 11, 20), 18)
    if rolled:
        assert roll_up(lab=small.lab, now=now)
    for found in progress_of(small.lab, list(active_budgets(small.lab)), now):
        metric = found.budget.metric
        whole = figure(small.lab, found.query)
        assert found.used == whole
        assert whole.value(metric) > 0
        assert sum(day.value(metric) for day in found.days) == whole.value(metric)
        for place, day in enumerate(found.days):
            one = period_of("month", NOVEMBER, found.period.zone)
            start = one.from_hour + 24 * place
            query = found.query.replace(from_hour=start, to_hour=start + 24)
            assert figure(small.lab, query) == day


def test_days_follow_the_clock_of_the_lab() -> None:
    small = small_lab()
    zone = ZoneInfo(small.lab.time_zone)
    period = period_at("month", at(small, date(2026, 10, 25)), zone)
    assert period.to_hour - period.from_hour == 31 * 24 + 1
    early, late = date(2026, 10, 24), date(2026, 10, 25)
    use_days(small, {early: MJ, late: 2 * MJ}, hour=23)
    budget(small, now=at(small, early))
    found = only(small, at(small, date(2026, 10, 26), 1))
    assert [day.energy_mj for day in found.days[-3:]] == [MJ + 7, 2 * MJ + 7, 0]


def test_no_forecast_before_fourteen_complete_days() -> None:
    small = small_lab()
    use_days(small, november(15))
    budget(small)
    early = only(small, at(small, date(2026, 11, 14), 23))
    assert (early.complete_days, early.no_forecast) == (13, NoForecast.EARLY)
    assert early.forecast_day == date(2026, 11, 15)
    found = only(small, at(small, date(2026, 11, 15), 0))
    assert found.forecast is not None
    assert found.forecast.total == 30 * (MJ + 7)
    assert found.no_range == NoRange.FEW_PERIODS


def test_the_range_is_that_of_own_past_months() -> None:
    small = small_lab()
    use_days(small, months(date(2026, 4, 1), date(2026, 11, 21)))
    budget(small)
    found = only(small, at(small, date(2026, 11, 20)))
    assert found.ratios.is_own
    assert list(found.ratios.values_ppm) == [1_000_000] * 7
    assert found.forecast is not None
    assert (found.forecast.low, found.forecast.high) == (30 * (MJ + 7),) * 2


def test_the_range_is_pooled_over_projects_until_there_are_six_own_months() -> None:
    small = small_lab()
    use_days(small, months(date(2026, 7, 1), date(2026, 11, 21)))
    use_days(small, months(date(2026, 5, 1), date(2026, 11, 21)), project="old", number=2)
    budget(small, project=Project.objects.get(slug="demo"))
    found = only(small, at(small, date(2026, 11, 20)))
    assert not found.ratios.is_own
    assert len(found.ratios.values_ppm) == 4 + 6
    old = budget(small, project=Project.objects.get(slug="old"))
    [_, of_old] = progress_of(small.lab, [found.budget, old], at(small, date(2026, 11, 20)))
    assert (of_old.ratios.is_own, len(of_old.ratios.values_ppm)) == (True, 6)


def test_other_labs_are_no_past_of_this_one() -> None:
    small, other = small_lab(), small_lab(name="Other")
    use_days(other, months(date(2026, 3, 1), date(2026, 11, 21)), number=9)
    use_days(small, november(20))
    budget(small)
    assert len(only(small, at(small, date(2026, 11, 20))).ratios.values_ppm) == 0


def test_no_use_in_the_last_week_has_no_range() -> None:
    small = small_lab()
    use_days(small, {**months(date(2026, 4, 1), date(2026, 11, 5))})
    budget(small)
    found = only(small, at(small, date(2026, 11, 20)))
    assert found.no_range == NoRange.NO_USE
    assert found.forecast is not None
    assert found.forecast.total == found.used.energy_mj == 4 * (MJ + 7)


@pytest.mark.parametrize(
    ("share_percent", "state"),
    [(50, BudgetState.OVER), (99, BudgetState.OVER), (101, BudgetState.NEAR),
     (149, BudgetState.NEAR), (151, BudgetState.WITHIN)],
)  # fmt: skip
def test_states_compare_use_and_forecast_with_the_amount(
    share_percent: int, state: BudgetState
) -> None:
    small = small_lab()
    use_days(small, november(20))
    used = 20 * (MJ + 7)
    budget(small, amount=used * share_percent // 100)
    assert only(small, at(small, date(2026, 11, 20), 23)).state == state


def test_nothing_measured_is_unknown_and_no_energy_of_a_project_is_zero() -> None:
    small = small_lab()
    idle = Project.objects.create(lab=small.lab, slug="idle", name="Idle", created_us=T0)
    budget(small, project=idle)
    now = at(small, date(2026, 11, 5))
    found = only(small, now)
    assert (found.state, found.has_data) == (BudgetState.UNKNOWN, False)
    use_days(small, november(4))
    found = only(small, now)
    assert (found.state, found.has_data, found.used.entries) == (BudgetState.WITHIN, True, 0)


def test_emissions_without_factor_and_cost_without_price_are_unknown() -> None:
    small = small_lab(zone="")
    use_days(small, november(18))
    budget(small, metric=BudgetMetric.EMISSION)
    now = at(small, date(2026, 11, 18), 23)
    found = only(small, now)
    assert (found.state, found.no_forecast) == (BudgetState.UNKNOWN, NoForecast.UNKNOWN)
    assert found.without_value_mj == found.used.energy_mj


def test_a_cost_is_in_the_currency_of_its_budget() -> None:
    small = small_lab()
    with pytest.raises(InvalidInput) as error:
        budget(small, metric=BudgetMetric.COST)
    assert error.value.field == "metric"
    set_price(
        site=small.site, ucurrency_per_kwh=300_000, currency="EUR",
        from_us=at(small, date(2026, 1, 1)), by=small.owner, now=T0,
    )  # fmt: skip
    small.lab.refresh_from_db()
    use_days(small, november(3, KWH // 100))
    budget(small, metric=BudgetMetric.COST, amount=10**6)
    found = only(small, at(small, date(2026, 11, 3), 23))
    assert found.query.currency == "EUR"
    assert found.used.cost_ucurrency == figure(small.lab, found.query).cost_ucurrency > 0


def test_a_changed_amount_holds_from_the_running_period_on() -> None:
    small = small_lab()
    use_days(small, months(date(2026, 10, 1), date(2026, 11, 3)))
    stored = budget(small, amount=5 * MJ, now=at(small, date(2026, 10, 15)))
    now = at(small, date(2026, 11, 2))
    assert change_amount(budget=stored, amount=100 * MJ, by=small.owner, now=now)
    assert not change_amount(budget=stored, amount=100 * MJ, by=small.owner, now=now)
    assert change_amount(budget=stored, amount=90 * MJ, by=small.owner, now=now)
    stored = Budget.objects.get()
    assert [each.amount for each in stored.amounts.order_by("first_day")] == [5 * MJ, 90 * MJ]
    assert only(small, now).amount == 90 * MJ
    [past] = past_periods(stored, now)
    assert (past.amount, past.state) == (5 * MJ, BudgetState.OVER)
    assert past.used == figure(small.lab, past.query)
    assert past.used.energy_mj == 31 * (MJ + 7)


def test_an_ended_budget_keeps_its_past_and_makes_room_for_another() -> None:
    small = small_lab()
    stored = budget(small)
    with pytest.raises(InvalidInput) as error:
        budget(small)
    assert error.value.field == "period"
    budget(small, period=PeriodKind.YEAR)
    end_budget(budget=stored, by=small.owner, now=T0 + 1)
    for act in (
        lambda: end_budget(budget=stored, by=small.owner, now=T0 + 2),
        lambda: change_amount(budget=stored, amount=1, by=small.owner, now=T0 + 2),
    ):
        with pytest.raises(Conflict):
            act()
    budget(small)
    assert active_budgets(small.lab).count() == 2
    acts = AuditEntry.objects.filter(lab=small.lab, action__startswith="budget.")
    assert list(acts.order_by("sequence").values_list("action", flat=True)) == [
        BudgetAct.ADDED, BudgetAct.ADDED, BudgetAct.ENDED, BudgetAct.ADDED,
    ]  # fmt: skip


def test_the_database_refuses_a_second_budget_and_an_empty_amount() -> None:
    small = small_lab()
    stored = budget(small)
    demo = Project.objects.get(lab=small.lab, slug="demo")
    of_project = budget(small, project=demo)
    for row in (stored, of_project):
        row.pk = None
        with pytest.raises(IntegrityError), transaction.atomic():
            row.save(force_insert=True)
    with pytest.raises(IntegrityError), transaction.atomic():
        BudgetAmount.objects.update(amount=0)
    for amount in (0, -1, 2**63):
        with pytest.raises(InvalidInput) as error:
            budget(small, amount=amount, period=PeriodKind.QUARTER)
        assert error.value.field == "amount"


def test_a_project_of_another_lab_is_refused() -> None:
    small, other = small_lab(), small_lab(name="Other")
    project = Project.objects.create(lab=other.lab, slug="x", name="X", created_us=T0)
    with pytest.raises(InvalidInput) as error:
        budget(small, project=project)
    assert error.value.field == "project"


def test_the_number_of_queries_does_not_depend_on_that_of_budgets() -> None:
    small = small_lab()
    use_days(small, november(20))
    now = at(small, date(2026, 11, 20))

    def count() -> int:
        with CaptureQueriesContext(connection) as captured:
            progress_of(small.lab, list(active_budgets(small.lab)), now)
        return len(captured)

    budget(small)
    one = count()
    for number in range(6):
        project = Project.objects.create(
            lab=small.lab, slug=f"p{number}", name=f"P{number}", created_us=T0
        )
        budget(small, project=project)
    assert count() == one
