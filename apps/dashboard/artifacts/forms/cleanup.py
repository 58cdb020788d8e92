"""Forms of cleanup plans and retention periods."""

from typing import Any

from django import forms
from django.db.models import Exists, OuterRef
from django.http import QueryDict
from django.urls import reverse

from apps.accounts.models import Project
from apps.artifacts.cleanup import plans
from apps.artifacts.cleanup.proposals import own_periods
from apps.artifacts.cleanup.retention import DEFAULT_DAYS
from apps.artifacts.cleanup.retention_settings import (
    format_period,
    parse_period,
    set_retention_periods,
)
from apps.artifacts.models import CleanupPlan, Copy
from apps.core.errors import InvalidInput
from apps.core.text import parse_record_number
from apps.dashboard.decorators import MANAGERS, Visitor
from apps.dashboard.forms import NodeField, PageForm, ProjectField, TextField

PERIOD_PREFIX = "days:"
DEFAULT_PLAN_DAYS = 14  # prefilled grace period and time in the trash


class ScopeForm(PageForm):
    """Choice of the project whose retention periods are listed."""

    project = ProjectField(label="Scope", required=False, empty_label="Whole lab")


class PlansForm(PageForm):
    """A form of the list of plans. ``next_address``: the page after saving."""

    next_address = ""


class CreatePlanForm(PlansForm):
    action = "create"
    node = NodeField(
        empty_label="Choose …",
        error_messages={
            "required": "Choose a node.",
            "invalid_choice": "No such node in this lab. Choose one of the list.",
        },
    )
    project = ProjectField(required=False, empty_label="All projects")

    def __init__(self, visitor: Visitor, *args: Any, **options: Any) -> None:
        super().__init__(visitor, *args, **options)
        node = self.fields["node"]
        assert isinstance(node, NodeField)
        assert node.queryset is not None
        node.queryset = node.queryset.filter(Exists(Copy.objects.filter(node=OuterRef("pk"))))

    def save(self) -> str:
        plan = plans.create_plan(
            lab=self.visitor.lab,
            node=self.cleaned_data["node"],
            project=self.cleaned_data["project"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        self.next_address = reverse("cleanup-plan", args=[plan.uuid])
        return "Draft created. Review the items, then notify the owners. Nothing is deleted yet."


class PeriodField(TextField):
    """A number of days, ``never``, or empty for the inherited period."""

    def validate(self, value: Any) -> None:
        super().validate(value)
        try:
            parse_period(str(value))
        except InvalidInput as error:
            raise forms.ValidationError(
                f"{error.message} {error.hint}".strip(), code="invalid"
            ) from error


class RetentionForm(PlansForm):
    """Retention periods of the lab, or of a project: one field for each class."""

    action = "retention"
    roles = MANAGERS
    project = ProjectField(required=False, widget=forms.HiddenInput)

    def __init__(self, visitor: Visitor, *args: Any, **options: Any) -> None:
        super().__init__(visitor, *args, **options)
        for retention_class in DEFAULT_DAYS:
            field = PeriodField(label=str(retention_class.label).capitalize(), required=False)
            field.widget.attrs.update(
                {"size": "6", "aria-describedby": f"inherited-{retention_class.value}"}
            )
            self.fields[f"{PERIOD_PREFIX}{retention_class.value}"] = field

    def clean(self) -> dict[str, Any]:
        for name in self.data:
            if name.startswith(PERIOD_PREFIX) and name not in self.fields:
                message = (
                    f"{name.removeprefix(PERIOD_PREFIX)[:40]!r} is not a class with a retention "
                    "period."
                )
                self.add_error(None, message)
        for error in self.errors.get("project", ()):  # the field is hidden
            self.add_error(None, str(error))
        return super().clean() or self.cleaned_data

    def save(self) -> str:
        project: Project | None = self.cleaned_data["project"]
        days = {
            name.removeprefix(PERIOD_PREFIX): self.cleaned_data[name]
            for name in self.fields
            if name.startswith(PERIOD_PREFIX) and name in self.data
        }
        set_retention_periods(
            lab=self.visitor.lab,
            project=project,
            days=days,
            by=self.visitor.user,
            now=self.visitor.now,
        )
        self.next_address = reverse("cleanup-plans") + (
            f"?project={project.slug}" if project else ""
        )
        return f"Retention periods of {project.name if project else 'the lab'} saved."


def period_values(visitor: Visitor, project: Project | None) -> dict[str, Any]:
    """Return the periods of a project, or of the lab, as initial values of RetentionForm."""
    periods = own_periods(visitor.lab, project)
    return {"project": project} | {
        f"{PERIOD_PREFIX}{retention_class.value}": format_period(days)
        for retention_class, days in periods.items()
    }


class ItemCheckboxes(forms.CheckboxSelectMultiple):
    """Checkboxes that the template draws in the rows of a table."""

    def id_for_label(self, id_: str, index: Any = None) -> str:
        return id_


class ItemsField(forms.Field):
    """Numbers of items of a plan."""

    widget = ItemCheckboxes

    def to_python(self, value: Any) -> list[int]:
        texts = list(value or [])
        numbers = [
            number for text in texts if (number := parse_record_number(str(text))) is not None
        ]
        if len(numbers) < len(texts):
            raise forms.ValidationError("No such item. Load the page again.", code="invalid")
        return numbers


class PlanForm(PageForm):
    """A form of a plan's page."""

    plan: CleanupPlan

    def service_arguments(self) -> dict[str, Any]:
        """Return the arguments that all services of this page take."""
        return {"plan": self.plan, "by": self.visitor.user, "now": self.visitor.now}

    @property
    def ticks(self) -> dict[str, bool]:
        """Return for each posted item whether its checkbox was checked."""
        data = self.data if isinstance(self.data, QueryDict) else QueryDict()
        return {
            **dict.fromkeys(data.getlist("listed"), False),
            **dict.fromkeys(data.getlist("item"), True),
        }


class DaysField(forms.IntegerField):
    """A number of days of a plan."""

    def __init__(self, **options: Any) -> None:
        widget = forms.TextInput({"size": "4", "inputmode": "numeric"})
        messages = {"required": "Enter a number of days.", "invalid": "Enter a number of days."}
        super().__init__(
            min_value=plans.MIN_DAYS,
            max_value=plans.MAX_DAYS,
            widget=widget,
            error_messages=messages,
            **options,
        )


class SelectItemsForm(PlanForm):
    """Selection of items of a draft. ``listed``: the items on the page. The days are only kept
    for the next page.
    """

    action = "select"
    item = ItemsField(label="Items", required=False)
    listed = ItemsField(label="Items", required=False)
    grace_days = TextField(label="Grace period (days)", required=False)
    trash_days = TextField(label="Time in trash (days)", required=False)

    def save(self) -> str:
        selected, listed = self.cleaned_data["item"], self.cleaned_data["listed"]
        changed = plans.select_items(selected=selected, listed=listed, **self.service_arguments())
        return f"{changed} item{'s' if changed != 1 else ''} changed."

    @property
    def changed_days(self) -> dict[str, str]:
        """Return the days that differ from the default."""
        days = {name: self.cleaned_data[name] for name in ("grace_days", "trash_days")}
        return {
            name: text for name, text in days.items() if text not in ("", str(DEFAULT_PLAN_DAYS))
        }


class NotifyOwnersForm(PlanForm):
    """Notification of the owners of a draft, with the selection on the page."""

    action = "notify"
    roles = MANAGERS
    item = ItemsField(label="Items", required=False)
    listed = ItemsField(label="Items", required=False)
    grace_days = DaysField(label="Grace period (days)")
    trash_days = DaysField(label="Time in trash (days)")

    def save(self) -> str:
        plan = plans.notify_owners(
            grace_days=self.cleaned_data["grace_days"],
            trash_days=self.cleaned_data["trash_days"],
            selected=self.cleaned_data["item"],
            listed=self.cleaned_data["listed"],
            **self.service_arguments(),
        )
        number = plan.items.filter(selected=True).count()
        return (
            f"Owners of {number} item{'s' if number != 1 else ''} notified. They can object "
            "during the grace period."
        )


class NotifyRemainingForm(PlanForm):
    action = "notify_remaining"
    roles = MANAGERS
    grace_days = DaysField(label="Grace period (days)", initial=DEFAULT_PLAN_DAYS)

    def save(self) -> str:
        number = plans.notify_remaining(
            grace_days=self.cleaned_data["grace_days"], **self.service_arguments()
        )
        return f"{number} more {'people' if number != 1 else 'person'} notified."


class ObjectForm(PlanForm):
    action = "object"
    item = ItemsField(label="Items", error_messages={"required": "Select the items to exclude."})
    reason = TextField(
        max_length=300,
        error_messages={"required": "Enter a short reason, for example “needed for a paper”."},
    )

    def clean_item(self) -> list[int]:
        items: list[int] = self.cleaned_data["item"]
        others = self.plan.items.filter(pk__in=items).exclude(artifact__owner=self.visitor.user)
        if not self.visitor.can_manage and others.exists():
            message = "You do not own all selected items. Only owners, PIs and admins can object."
            raise forms.ValidationError(message, code="invalid")
        return items

    def save(self) -> str:
        items = self.cleaned_data["item"]
        number = plans.object_to_items(
            items=items, reason=self.cleaned_data["reason"], **self.service_arguments()
        )
        late = len(set(items)) - number
        rest = f" {late} {'were' if late != 1 else 'was'} moved or excluded before." if late else ""
        return f"{number} item{'s' if number != 1 else ''} excluded.{rest}"


class ApproveForm(PlanForm):
    action = "approve"
    roles = MANAGERS

    def save(self) -> str:
        plans.approve(**self.service_arguments())
        return "Plan approved. Run the command below on the node."


class WithdrawForm(PlanForm):
    action = "withdraw"

    def save(self) -> str:
        plans.withdraw(**self.service_arguments())
        return "Plan withdrawn. Nothing was changed on the node."


PLANS_FORMS = (CreatePlanForm, RetentionForm)
PLAN_FORMS = (
    SelectItemsForm,
    NotifyOwnersForm,
    NotifyRemainingForm,
    ObjectForm,
    ApproveForm,
    WithdrawForm,
)
