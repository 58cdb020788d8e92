"""Forms of budgets."""

from decimal import Decimal
from typing import Any

from django import forms

from apps.budgets.choices import BudgetMetric, PeriodKind
from apps.budgets.models import Budget
from apps.budgets.services import BudgetInput, add_budget, change_amount, end_budget
from apps.core.units import MJ_PER_KWH, UG_PER_KG, money_unit
from apps.dashboard.decorators import MANAGERS
from apps.dashboard.forms import DecimalField, PageForm, ProjectField

_MAX_AMOUNT = 10**9


def unit_label(metric: str, currency: str) -> str:
    """Return the unit in which amounts of a metric are entered."""
    return {BudgetMetric.ENERGY: "kWh", BudgetMetric.EMISSION: "kg CO₂e"}.get(
        BudgetMetric(metric), currency
    )


def stored_amount(metric: str, entered: Decimal) -> int:
    """Return an entered amount in mJ, µg or millionths of a currency, exactly."""
    divisors = {
        BudgetMetric.ENERGY: MJ_PER_KWH,
        BudgetMetric.EMISSION: UG_PER_KG,
        BudgetMetric.COST: money_unit("").divisor,
    }
    return int(entered * divisors[BudgetMetric(metric)])


def entered_amount(metric: str, amount: int) -> Decimal:
    """Return a stored amount as it was entered."""
    return (Decimal(amount) / stored_amount(metric, Decimal(1))).normalize()


def amount_field(label: str = "Amount") -> DecimalField:
    """Return the field of an amount."""
    return DecimalField(
        label=label,
        decimal_places=3,
        max_value=_MAX_AMOUNT,
        error_messages={"required": "Enter an amount.", "invalid": "Enter a number, e.g. 500."},
    )


class AddBudgetForm(PageForm):
    """A new budget. ``budget`` is the budget after ``save``."""

    roles = MANAGERS
    project = ProjectField(required=False, empty_label="Whole lab", label="Budget of")
    metric = forms.ChoiceField(
        label="Unit", error_messages={"invalid_choice": "Choose a unit of the list."}
    )
    period = forms.ChoiceField(
        label="Per",
        choices=PeriodKind.choices,
        error_messages={"invalid_choice": "Choose a period of the list."},
    )
    amount = amount_field()
    budget: Budget

    def __init__(self, *args: Any, **context: Any) -> None:
        super().__init__(*args, **context)
        metric, currency = self.fields["metric"], self.visitor.lab.currency
        assert isinstance(metric, forms.ChoiceField)
        metric.choices = [
            (each.value, f"{each.label}, {unit_label(each, currency)}")
            for each in BudgetMetric
            if each != BudgetMetric.COST or currency
        ]

    def save(self) -> str:
        data, visitor = self.cleaned_data, self.visitor
        self.budget = add_budget(
            lab=visitor.lab,
            values=BudgetInput(
                BudgetMetric(data["metric"]),
                PeriodKind(data["period"]),
                stored_amount(data["metric"], data["amount"]),
                data["project"],
            ),
            by=visitor.user,
            now=visitor.now,
        )
        return "The budget was added."


class BudgetActionForm(PageForm):
    """Base of the forms of one budget."""

    roles = MANAGERS
    budget: Budget


class ChangeForm(BudgetActionForm):
    """Another amount from the running period on."""

    action = "change"
    amount = amount_field()

    def __init__(self, *args: Any, **context: Any) -> None:
        super().__init__(*args, **context)
        unit = unit_label(self.budget.metric, self.budget.currency)
        self.fields["amount"].label = f"Amount, {unit}"

    def save(self) -> str:
        changed = change_amount(
            budget=self.budget,
            amount=stored_amount(self.budget.metric, self.cleaned_data["amount"]),
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return "The amount was changed." if changed else "Nothing changed: it is the same amount."


class EndForm(BudgetActionForm):
    action = "end"

    def save(self) -> str:
        end_budget(budget=self.budget, by=self.visitor.user, now=self.visitor.now)
        return "The budget has ended."


BUDGET_FORMS: tuple[type[PageForm], ...] = (ChangeForm, EndForm)
