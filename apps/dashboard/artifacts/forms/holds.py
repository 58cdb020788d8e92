"""Forms of the page of holds: place and lift."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from django import forms
from django.urls import reverse

from apps.accounts.selectors import project_by_slug
from apps.artifacts.holds import hold_by_pk
from apps.artifacts.selectors import artifact_by_digest
from apps.artifacts.services.holds import MAX_REASON_LENGTH, Holdable, lift_hold, place_hold
from apps.core.errors import NotFound
from apps.core.intervals import midnight_hour
from apps.core.text import is_unstorable, parse_record_number
from apps.dashboard.artifacts.holds_page import hold_subject
from apps.dashboard.decorators import Visitor, or_not_found
from apps.dashboard.forms import PageForm, TextField
from apps.runs.selectors import run_of

SUBJECT_FIELDS = ("artifact", "project", "run")


def find_subject(values: Mapping[str, Any], visitor: Visitor) -> Holdable | None:
    """Return the subject of a hold named in a form or address. Raises NotFound if the lab has
    none such.
    """
    named = [(name, str(values[name])) for name in SUBJECT_FIELDS if values.get(name)]
    if not named:
        return None
    name, value = named[0]
    lookups: dict[str, Callable[[], Holdable | None]] = {
        "artifact": lambda: artifact_by_digest(visitor.lab, value),
        "project": lambda: None if is_unstorable(value) else project_by_slug(visitor.lab, value),
        "run": lambda: _find_run(value, visitor),
    }
    subject: Holdable = or_not_found(lookups[name](), name, reverse("holds"))
    return subject


def _find_run(text: str, visitor: Visitor) -> Holdable | None:
    try:
        return run_of(visitor.lab, UUID(text))
    except ValueError:
        return None


class HoldForm(PageForm):
    """A form of the page of holds. ``next_address``: the page after saving."""

    next_address = ""


class PlaceHoldForm(HoldForm):
    """A new hold. Its subject is given by the address, or selected among the lab's projects by a
    manager.
    """

    action = "place"
    _unknown_subject: NotFound | None = None

    artifact = TextField(required=False, widget=forms.HiddenInput)
    run = TextField(required=False, widget=forms.HiddenInput)
    project = TextField(required=False, widget=forms.HiddenInput)
    reason = TextField(
        max_length=MAX_REASON_LENGTH,
        help_text="Shown on its page and in cleanup plans.",
        error_messages={"required": "Enter a short reason, for example “paper under review”."},
    )
    until_day = forms.DateField(
        label="Last day",
        required=False,
        input_formats=["%Y-%m-%d"],
        widget=forms.DateInput({"type": "date"}),
        help_text=(
            "The hold ends at the end of this day (whole UTC hours). Leave empty to hold "
            "until lifted."
        ),
        error_messages={"invalid": "Enter a day as 2026-01-31."},
    )

    def __init__(self, visitor: Visitor, *args: Any, **options: Any) -> None:
        super().__init__(visitor, *args, **options)
        if self.subject is None and visitor.can_manage:
            projects = visitor.lab.projects.order_by("name", "pk").values_list("slug", "name")
            self.fields["project"].widget = forms.Select(choices=[("", "Choose …"), *projects])

    @cached_property
    def subject(self) -> Holdable | None:
        """The artifact, project or run to hold; None if none is selected.

        Raises NotFound for an unknown one in an address. In a form it is an error of the form.
        """
        if not self.is_bound:
            return find_subject(self.initial, self.visitor)
        try:
            return find_subject(self.data, self.visitor)
        except NotFound as error:
            self._unknown_subject = error
            return None

    @property
    def is_available(self) -> bool:
        """Return whether there is anything to hold."""
        return (
            self.subject is not None
            or len(getattr(self.fields["project"].widget, "choices", ())) > 1
        )

    def clean_until_day(self) -> int | None:
        """Return the UTC hour at which the day ends in the lab's time zone; None without a day."""
        day = self.cleaned_data["until_day"]
        if day is None:
            return None
        try:
            return midnight_hour(day + timedelta(days=1), self.visitor.zone)
        except (ValueError, OverflowError) as error:
            raise forms.ValidationError("Enter a day as 2026-01-31.", code="invalid") from error

    def clean(self) -> dict[str, Any]:
        if self._unknown_subject is not None:
            self.add_service_error(self._unknown_subject)
        elif self.subject is None:
            field = None if self.fields["project"].widget.is_hidden else "project"
            self.add_error(
                field, "Choose a project, or open the page of an artifact or run to hold it."
            )
        return super().clean() or self.cleaned_data

    def save(self) -> str:
        assert self.subject is not None
        place_hold(
            on=self.subject,
            reason=self.cleaned_data["reason"],
            until_hour=self.cleaned_data["until_day"],
            by=self.visitor.user,
            is_manager=self.visitor.can_manage,
            now=self.visitor.now,
        )
        self.next_address = hold_subject(self.subject).href
        return "Hold placed. Cleanup plans exclude its artifacts."


class LiftHoldForm(HoldForm):
    action = "lift"
    hold = TextField(required=False, widget=forms.HiddenInput)

    def save(self) -> str:
        number = parse_record_number(self.cleaned_data["hold"])
        hold = or_not_found(hold_by_pk(self.visitor.lab, number), "hold", reverse("holds"))
        lift_hold(
            hold=hold,
            by=self.visitor.user,
            is_manager=self.visitor.can_manage,
            now=self.visitor.now,
        )
        self.next_address = reverse("holds")
        return "Hold lifted. Artifacts that it excluded from open plans stay excluded."


HOLD_FORMS = (PlaceHoldForm, LiftHoldForm)
