"""Forms of statements: close and restate."""

from datetime import date, timedelta
from typing import Any

from django import forms

from apps.core.units import hour_of
from apps.dashboard.decorators import MANAGERS, Visitor
from apps.dashboard.forms import DayField, PageForm, TextField
from apps.dashboard.periods import local
from apps.reports.models import Statement
from apps.reports.services import MAX_REASON, close_period, restate_period


class PeriodForm(forms.Form):
    """The days of a period. It is sent with GET; by default the last month that is over."""

    first_day = DayField(label="First day")
    last_day = DayField(label="Last day", help_text="Included.")

    def __init__(self, visitor: Visitor, params: Any) -> None:
        chosen = {name: params[name] for name in self.base_fields if name in params}
        first, last = previous_month(visitor)
        super().__init__(chosen or {"first_day": first.isoformat(), "last_day": last.isoformat()})


def previous_month(visitor: Visitor) -> tuple[date, date]:
    """Return the first and last day of the last month that is over, in the lab's zone."""
    today = local(hour_of(visitor.now), visitor.zone).date()
    last = today.replace(day=1) - timedelta(days=1)
    return last.replace(day=1), last


class CloseForm(PageForm):
    """Close the days of a period. ``statement`` is its statement after ``save``."""

    roles = MANAGERS
    statement: Statement
    first_day = DayField(label="First day")
    last_day = DayField(label="Last day")

    def save(self) -> str:
        closed = close_period(
            lab=self.visitor.lab,
            first_day=self.cleaned_data["first_day"],
            last_day=self.cleaned_data["last_day"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        self.statement = closed.statement
        if closed.is_new:
            return "The period is closed. Its figures are frozen."
        return "This period was closed already. Nothing was stored."


class RestateForm(PageForm):
    """Restate a closed period. ``restated`` is its last revision after ``save``."""

    roles = MANAGERS
    statement: Statement
    restated: Statement
    reason = TextField(
        max_length=MAX_REASON,
        help_text="Why the figures have changed, such as “late data of node 7”.",
        error_messages={"required": "State why the figures have changed."},
    )

    def save(self) -> str:
        result = restate_period(
            statement=self.statement,
            reason=self.cleaned_data["reason"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        self.restated = result.statement
        if result.is_new:
            return f"Revision {self.restated.revision} is stored. The earlier ones stay."
        return "No figure has changed. Nothing was stored."
