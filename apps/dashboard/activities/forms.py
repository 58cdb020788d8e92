"""Forms of activities: add with preview, and withdraw."""

from datetime import date, timedelta
from typing import Any
from uuid import uuid4

from django import forms
from django.urls import reverse

from apps.activity.choices import RepetitionKind
from apps.activity.declared_rows import MAX_ID_CHARS, MAX_PUE
from apps.activity.instance_types import gpu_instance_types
from apps.activity.kinds import Input, Kind
from apps.activity.models import Activity
from apps.activity.services import Draft, preview_activity, withdraw_activity
from apps.activity.services.activities import MAX_NAME, MAX_REASON, check_entered
from apps.activity.services.activity_forms import record_form
from apps.activity.services.recurring_activities import (
    Repetition,
    add_recurring_activity,
    preview_period,
)
from apps.carbon.factor_files import MAX_G_PER_KWH
from apps.catalog.choices import HardwareKind
from apps.catalog.selectors import search
from apps.core.errors import Forbidden, LabCarbonError
from apps.core.intervals import midnight_hour
from apps.core.units import PPM, UG_PER_G, US_PER_HOUR
from apps.dashboard.activities.pages import PreviewPage, preview_page
from apps.dashboard.forms import DayField, DecimalField, PageForm, ProjectField, TextField
from apps.fleet.zones import zones

_FIELDS = {"from": "first_day", "to": "last_day"}  # of the service → of the form
COMMON = (
    "name", "project", "first_day", "last_day", "repeats", "until", "zone", "g_per_kwh", "pue",
    "external_id",
)  # fmt: skip


def _input_field(each: Input) -> forms.Field:
    options: dict[str, Any] = {
        "label": each.label,
        "required": each.required,
        "help_text": each.help,
        "initial": each.default or None,
        "error_messages": {"required": "Enter a value."},
    }
    if each.choices:
        return forms.ChoiceField(choices=each.choices, **options)
    if each.is_text:
        return TextField(max_length=200, **options)
    return DecimalField(min_value=0, max_value=each.most, decimal_places=9, **options)


class ActivityForm(PageForm):
    """A new activity of ``kind``, which can repeat. ``address``: of its page after ``save``."""

    kind: Kind
    address: str
    form_key = forms.UUIDField(
        required=False,
        initial=uuid4,
        widget=forms.HiddenInput,
        error_messages={"invalid": "This form has an invalid key. Reload the page."},
    )
    name = TextField(max_length=MAX_NAME, error_messages={"required": "Enter a name."})
    project = ProjectField(required=False, empty_label="No project")
    first_day = DayField(label="First day")
    last_day = DayField(
        label="Last day", required=False, help_text="Included. Empty if the activity repeats."
    )
    repeats = forms.ChoiceField(
        label="Repeats",
        required=False,
        choices=[("", "Never"), *RepetitionKind.choices],
        help_text="From the first day on. Hours, kWh and all other amounts are those of one "
        "period. Each is recorded after it is over.",
    )
    until = DayField(
        label="Until",
        required=False,
        help_text="Included. The last period is over by this day. Empty: until you end it.",
    )
    zone = TextField(
        label="Grid zone or cloud region",
        max_length=80,
        required=False,
        widget=forms.TextInput({"list": "activity-zones", "autocomplete": "off"}),
        help_text="Such as DE or eu-central-1.",
    )
    g_per_kwh = DecimalField(
        label="Or g CO₂e per kWh",
        required=False,
        min_value=0,
        max_value=MAX_G_PER_KWH,
        decimal_places=6,
        help_text="Stated by the operator.",
    )
    pue = DecimalField(
        label="PUE",
        required=False,
        min_value=1,
        max_value=MAX_PUE,
        decimal_places=6,
        help_text="1 if the energy includes the facility. Empty: the default of the kind.",
    )
    external_id = TextField(
        label="External id",
        required=False,
        max_length=MAX_ID_CHARS,
        help_text="Such as the number of a bill. The same id is recorded once.",
    )

    def __init__(self, *args: Any, **context: Any) -> None:
        super().__init__(*args, **context)
        for each in self.kind.inputs:
            self.fields[each.name] = _input_field(each)
        if "gpu" in self.fields:
            self.fields["gpu"].widget.attrs |= {"list": "activity-gpus", "autocomplete": "off"}
        if "instance_type" in self.fields:
            suggestions = {"list": "activity-instances", "autocomplete": "off"}
            self.fields["instance_type"].widget.attrs |= suggestions

    @property
    def is_preview(self) -> bool:
        """Whether the result is requested, and nothing is saved."""
        return self.is_bound and "preview" in self.data

    @property
    def input_fields(self) -> list[forms.BoundField]:
        """Fields of the kind."""
        return [self[each.name] for each in self.kind.inputs]

    @property
    def common_fields(self) -> list[forms.BoundField]:
        """Fields of all kinds."""
        return [self[name] for name in COMMON]

    @staticmethod
    def zone_labels() -> list[str]:
        """Return all grid zones for the list of suggestions."""
        return [zone.label for zone in zones().values()]

    def instance_names(self) -> list[str]:
        """Return the known instance types with GPUs for the list of suggestions, if the kind has
        instances.
        """
        return gpu_instance_types() if "instance_type" in self.fields else []

    def gpu_names(self) -> list[str]:
        """Return the GPUs of the catalogue with a maximum power for the list of suggestions, if
        the kind has GPUs.
        """
        if "gpu" not in self.fields:
            return []
        models = search(self.visitor.lab, HardwareKind.GPU).filter(tdp_mw__isnull=False)
        return list(models.values_list("name", flat=True))

    def clean(self) -> dict[str, Any]:
        data = self.cleaned_data
        first, last = data.get("first_day"), data.get("last_day")
        if first and last and last < first:
            self.add_error("last_day", "Enter the first day or a later one.")
        elif data.get("repeats"):
            self._check_first_period(first, last)
        elif "repeats" in data:
            if last is None and "last_day" not in self.errors:
                self.add_error("last_day", "Enter a day.")
            if data.get("until"):
                self.add_error("until", "Choose how often the activity repeats, or no day.")
        return super().clean() or self.cleaned_data

    def _check_first_period(self, first: date | None, last: date | None) -> None:
        """Add an error if the last day is not that of the first period."""
        if first is None or last is None:
            return
        expected = self._repetition(first).first_period.last_day
        if last != expected:
            message = f"The first period ends on {expected}. Enter that day, or leave it empty."
            self.add_error("last_day", message)

    @property
    def repetition(self) -> Repetition | None:
        """How the activity repeats, None if it does not. Call it on a valid form only."""
        data = self.cleaned_data
        return self._repetition(data["first_day"]) if data["repeats"] else None

    def _repetition(self, first_day: date) -> Repetition:
        data = self.cleaned_data
        return Repetition(RepetitionKind(data["repeats"]), first_day, data.get("until"))

    def draft(self) -> Draft:
        """Return the activity as entered. Call it on a valid form only. The period of one that
        repeats is that of its repetition.
        """
        data = self.cleaned_data
        last_day = data["last_day"] or data["first_day"]
        project, grams, pue = data["project"], data["g_per_kwh"], data["pue"]
        return Draft(
            kind=self.kind.kind.value,
            name=data["name"],
            start_us=self._start_us(data["first_day"]),
            end_us=self._start_us(last_day + timedelta(days=1)),
            inputs={each.name: data.get(each.name) for each in self.kind.inputs},
            project=project.slug if project else "",
            zone=data["zone"],
            ug_per_kwh=None if grams is None else int(grams * UG_PER_G),
            pue_ppm=None if pue is None else int(pue * PPM),
            external_id=data["external_id"],
        )

    def preview(self) -> PreviewPage | None:
        """Return the result before saving; None for invalid input, whose errors are shown."""
        if not self.is_valid():
            return None
        lab, now = self.visitor.lab, self.visitor.now
        draft, repetition = self.draft(), self.repetition
        try:
            if repetition:
                found = preview_period(lab=lab, draft=draft, repetition=repetition, now=now)
            else:
                found = preview_activity(lab=lab, draft=draft, now=now)
                check_entered(found)
        except LabCarbonError as error:
            self.add_service_error(error)
            return None
        return preview_page(lab, found)

    def save(self) -> str:
        key = self.cleaned_data["form_key"]
        form_key, repetition = str(key) if key else "", self.repetition
        return self._add(form_key, repetition) if repetition else self._record(form_key)

    def _record(self, form_key: str) -> str:
        visitor = self.visitor
        activity, created = record_form(
            lab=visitor.lab,
            draft=self.draft(),
            form_key=form_key,
            by=visitor.user,
            now=visitor.now,
        )
        self.address = reverse("activity", args=[activity.uuid])
        if not created:
            return (
                "This activity was recorded before, so nothing was recorded. To correct it, "
                "withdraw it and add it again."
            )
        return "The activity was recorded. Its energy is counted within a minute."

    def _add(self, form_key: str, repetition: Repetition) -> str:
        visitor = self.visitor
        recurring, created = add_recurring_activity(
            lab=visitor.lab,
            draft=self.draft(),
            repetition=repetition,
            form_key=form_key,
            by=visitor.user,
            now=visitor.now,
        )
        self.address = reverse("recurring-activity", args=[recurring.uuid])
        if not created:
            return "This recurring activity was added before, so nothing was added."
        return "The recurring activity was added. Periods that are over are recorded in a minute."

    def add_service_error(self, error: LabCarbonError) -> None:
        if error.field == "to" and "UTC" in error.hint:  # the form has days of the lab's zone
            error.hint = "Choose a day that is over."
        error.field = _FIELDS.get(error.field or "", error.field)
        super().add_service_error(error)

    def _start_us(self, day: date) -> int:
        return midnight_hour(day, self.visitor.zone) * US_PER_HOUR


class WithdrawForm(PageForm):
    """Withdraw an activity with a reason."""

    activity: Activity
    may_withdraw: bool
    reason = TextField(
        max_length=MAX_REASON,
        help_text="It is stored with the activity.",
        error_messages={"required": "Enter a reason."},
    )

    def save(self) -> str:
        visitor = self.visitor
        if not self.may_withdraw:
            raise Forbidden(
                "Another person recorded this activity.",
                hint="Ask them, a PI or an admin to withdraw it.",
            )
        withdraw_activity(
            activity=self.activity,
            reason=self.cleaned_data["reason"],
            by=visitor.user,
            now=visitor.now,
        )
        return "The activity was withdrawn. Its energy is removed within a minute."
