"""Add, change and end budgets."""

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import Lab, Project, User
from apps.budgets.choices import BudgetAct, BudgetMetric, PeriodKind
from apps.budgets.models import Budget, BudgetAmount
from apps.budgets.periods import BudgetPeriod, period_at
from apps.budgets.selectors import active_budgets
from apps.core.errors import Conflict, InvalidInput
from apps.core.units import INT64_MAX


@dataclass(frozen=True)
class BudgetInput:
    """Values of a budget. ``project`` None: of the whole lab. ``amount``: in the unit of the
    metric.
    """

    metric: BudgetMetric
    period: PeriodKind
    amount: int
    project: Project | None = None


@transaction.atomic
def add_budget(*, lab: Lab, values: BudgetInput, by: User | None, now: int) -> Budget:
    """Add a budget from the running period on. Raises InvalidInput."""
    lab = audit.hold(lab)
    _check_amount(values.amount)
    if values.project is not None and values.project.lab_id != lab.pk:
        raise InvalidInput("There is no such project in this lab.", field="project")
    if values.metric == BudgetMetric.COST and not lab.currency:
        raise InvalidInput(
            "The lab has no currency.",
            field="metric",
            hint="Record the electricity price of a site first.",
        )
    same = active_budgets(lab).filter(
        project=values.project, metric=values.metric, period=values.period
    )
    if same.exists():
        raise InvalidInput(
            "There is such a budget already.",
            field="period",
            hint="Change its amount, or end it first.",
        )
    budget = Budget.objects.create(
        lab=lab,
        project=values.project,
        metric=values.metric,
        period=values.period,
        currency=lab.currency if values.metric == BudgetMetric.COST else "",
        created_us=now,
        created_by=by,
    )
    _set_amount(budget, values.amount, now)
    _record(budget, BudgetAct.ADDED, by, now, amount=values.amount)
    return budget


@transaction.atomic
def change_amount(*, budget: Budget, amount: int, by: User | None, now: int) -> bool:
    """Set the amount of the running period and the later ones; return whether it differs. Earlier
    periods keep theirs. Raises InvalidInput, and Conflict for an ended budget.
    """
    _check_amount(amount)
    budget = _active(budget)
    before = budget.amount_on(_running_period(budget, now).first_day)
    if before == amount:
        return False
    _set_amount(budget, amount, now)
    _record(budget, BudgetAct.CHANGED, by, now, amount=amount, before=before)
    return True


@transaction.atomic
def end_budget(*, budget: Budget, by: User | None, now: int) -> None:
    """End a budget. Its past periods stay. Raises Conflict for an ended budget."""
    budget = _active(budget)
    budget.ended_us = now
    budget.save(update_fields=["ended_us"])
    _record(budget, BudgetAct.ENDED, by, now)


def _active(budget: Budget) -> Budget:
    """Return the stored budget, locked with its lab."""
    audit.hold(budget.lab)
    stored = Budget.objects.select_related("lab", "project").get(pk=budget.pk)
    if stored.ended_us is not None:
        raise Conflict("This budget has ended.", hint="Add a new one.")
    return stored


def _running_period(budget: Budget, now: int) -> BudgetPeriod:
    return period_at(PeriodKind(budget.period), now, ZoneInfo(budget.lab.time_zone))


def _set_amount(budget: Budget, amount: int, now: int) -> None:
    BudgetAmount.objects.update_or_create(
        budget=budget, first_day=_running_period(budget, now).first_day, defaults={"amount": amount}
    )


def _check_amount(amount: int) -> None:
    if not 0 < amount <= INT64_MAX:
        raise InvalidInput("Enter an amount above 0.", field="amount", hint="Example: 500.")


def _record(
    budget: Budget, act: BudgetAct, by: User | None, now: int, **details: int | None
) -> None:
    currency = {"currency": budget.currency} if budget.currency else {}
    audit.record(
        lab=budget.lab,
        by=by,
        action=act,
        subject=str(budget),
        details={"metric": budget.metric, "period": budget.period, **currency, **details},
        now=now,
    )
