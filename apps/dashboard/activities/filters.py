"""Filters of the list of activities."""

from collections.abc import Mapping
from datetime import date, timedelta

from django import forms

from apps.accounts.models import Lab
from apps.activity.choices import ActivityKind
from apps.activity.selectors import Filters
from apps.core.intervals import midnight_hour
from apps.core.units import US_PER_HOUR
from apps.dashboard.decorators import Visitor
from apps.dashboard.forms import DayField, require_valid

ENTERED, BILL = "entered", "bill"


class FilterForm(forms.Form):
    """Filters of the list. It is sent with GET."""

    kind = forms.ChoiceField(required=False, choices=[("", "All"), *ActivityKind.choices])
    project = forms.ChoiceField(required=False)
    origin = forms.ChoiceField(
        required=False, choices=[("", "All"), (ENTERED, "Entered by the lab"), (BILL, "Cloud bill")]
    )
    first_day = DayField(label="First day", required=False)
    last_day = DayField(label="Last day", required=False)

    def __init__(self, lab: Lab, params: Mapping[str, str]) -> None:
        super().__init__({name: params.get(name, "") for name in self.base_fields})
        field = self.fields["project"]
        assert isinstance(field, forms.ChoiceField)
        projects = lab.projects.order_by("name").values_list("slug", "name")
        field.choices = [("", "All"), *((slug, name[:40]) for slug, name in projects)]

    @property
    def entered(self) -> dict[str, str]:
        """Return the filters that are set, as entered."""
        return {name: value for name, value in self.data.items() if value}


def parse_filters(params: Mapping[str, str], visitor: Visitor) -> tuple[FilterForm, Filters]:
    """Return the filters of an address; days are in the lab's zone. Raises InvalidInput."""
    form = FilterForm(visitor.lab, params)
    require_valid(form)
    data = form.cleaned_data
    first, last = data["first_day"], data["last_day"]

    def start_us(day: date) -> int:
        return midnight_hour(day, visitor.zone) * US_PER_HOUR

    return form, Filters(
        project=data["project"],
        kind=data["kind"],
        from_us=start_us(first) if first else None,
        to_us=start_us(last + timedelta(days=1)) if last else None,
        is_billed=data["origin"] == BILL if data["origin"] else None,
    )
