"""Open estimates as a part of the forecast of a budget."""

from datetime import date, timedelta
from typing import Any

import pytest

from apps.accounts.models import Project
from apps.budgets.choices import BudgetMetric
from apps.budgets.models import BudgetForecast
from apps.budgets.planned_runs import PlannedRuns
from apps.budgets.progress import Progress, progress_of
from apps.budgets.selectors import active_budgets
from apps.budgets.stored_forecasts import record_forecasts
from apps.carbon.rollups.writer import roll_up
from apps.fleet.services import set_price
from apps.planner.choices import Basis
from apps.planner.models import Estimate
from apps.runs.models import Run
from tests.budgets.support import KWH, at, budget, use_days
from tests.builders import T0, SmallLab, small_lab

pytestmark = pytest.mark.django_db
MJ = 10**7  # of a day
NOVEMBER = date(2026, 11, 1)
DAYS = {NOVEMBER + timedelta(days=place): MJ for place in range(15)}


def only(small: SmallLab, now: int) -> Progress:
    [found] = progress_of(small.lab, list(active_budgets(small.lab)), now)
    return found


def estimate(small: SmallLab, now: int, **facts: Any) -> Estimate:
    """Store an open estimate of 1, 2 and 4 kWh."""
    columns = {
        "time_low_us": 1, "time_likely_us": 1, "time_high_us": 1,
        "node_energy_low_mj": KWH, "node_energy_likely_mj": 2 * KWH, "node_energy_high_mj": 4 * KWH,
    }  # fmt: skip
    return Estimate.objects.create(
        **{
            "lab": small.lab, "created_us": now, "expires_us": now + 10**12, "version": 1,
            "basis": Basis.CATALOGUE, **columns, **facts,
        }
    )  # fmt: skip


def test_open_estimates_are_added_to_the_forecast() -> None:
    small = small_lab()
    use_days(small, DAYS)
    budget(small)
    now = at(small, date(2026, 11, 16))
    before = only(small, now)
    estimate(small, now)
    after = only(small, now)
    assert before.forecast is not None
    assert after.forecast is not None
    assert before.planned == PlannedRuns()
    assert after.planned == PlannedRuns(1, 0, KWH, 2 * KWH, 4 * KWH)
    assert after.forecast.total == before.forecast.total + 2 * KWH
    assert after.used == before.used


@pytest.mark.parametrize("kind", ["expired", "attached", "deleted run", "other lab"])
def test_other_estimates_are_not_counted(kind: str) -> None:
    small = small_lab()
    use_days(small, DAYS)
    budget(small)
    now = at(small, date(2026, 11, 16))
    if kind == "expired":
        estimate(small, now - 10, expires_us=now)
    elif kind == "attached":
        run = Run.objects.filter(lab=small.lab).first()
        estimate(small, now, run=run, attached_us=now)
    elif kind == "deleted run":
        estimate(small, now, attached_us=now)
    else:
        estimate(small_lab(name="Other"), now)
    assert only(small, now).planned == PlannedRuns()


def test_a_project_has_its_own_estimates_and_the_lab_all() -> None:
    small = small_lab()
    use_days(small, DAYS)
    project = Project.objects.get(lab=small.lab, slug="demo")
    budget(small)
    budget(small, project=project)
    now = at(small, date(2026, 11, 16))
    estimate(small, now, project=project)
    estimate(small, now)
    numbers = {
        each.budget.project_id: each.planned.number
        for each in progress_of(small.lab, list(active_budgets(small.lab)), now)
    }
    assert numbers == {None: 2, project.pk: 1}


def test_an_unknown_figure_is_counted_and_not_zero() -> None:
    small = small_lab()
    use_days(small, DAYS)
    budget(small, metric=BudgetMetric.EMISSION)
    now = at(small, date(2026, 11, 16))
    estimate(small, now)
    assert only(small, now).planned == PlannedRuns(0, 1)


def test_a_cost_in_another_currency_is_unknown() -> None:
    small = small_lab()
    set_price(
        site=small.site, ucurrency_per_kwh=300_000, currency="EUR",
        from_us=at(small, date(2026, 1, 1)), by=small.owner, now=T0,
    )  # fmt: skip
    small.lab.refresh_from_db()
    use_days(small, DAYS)
    budget(small, metric=BudgetMetric.COST)
    now = at(small, date(2026, 11, 16))
    costs = {"cost_low_ucurrency": 1, "cost_likely_ucurrency": 2, "cost_high_ucurrency": 3}
    estimate(small, now, currency=small.lab.currency, **costs)
    estimate(small, now, currency="XTS", **costs)
    assert only(small, now).planned == PlannedRuns(1, 1, 1, 2, 3)


def test_a_stored_forecast_contains_the_planned_runs() -> None:
    small = small_lab()
    use_days(small, DAYS)
    budget(small)
    now = at(small, date(2026, 11, 16))
    estimate(small, now)
    roll_up(lab=small.lab, now=now)
    record_forecasts(lab=small.lab, now=now)
    [stored] = BudgetForecast.objects.all()
    # Each day has the same use, so that half of the month is half of it.
    assert stored.total == 2 * stored.used + 2 * KWH
