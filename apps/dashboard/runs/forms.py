"""Forms about duplicate findings."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from apps.carbon.figures.visibility import visibility_for
from apps.core.text import parse_record_number
from apps.dashboard.decorators import MANAGERS
from apps.dashboard.forms import PageForm, TextField
from apps.dashboard.runs.duplicate_families import family_finding_ids
from apps.preflight.choices import FindingState
from apps.preflight.finding_families import parse_family
from apps.preflight.models import DuplicateFinding
from apps.preflight.services.findings import (
    MAX_REASON,
    count_parameter_again,
    decide,
    ignore_finding_parameter,
    reopen,
)


class FindingNumbersField(forms.MultipleChoiceField):
    """Numbers of duplicate findings, from the checkboxes of a list."""

    default_error_messages = {
        "invalid_choice": "Select findings of the list.",
    }

    def clean(self, value: Any) -> list[int]:
        numbers = [parse_record_number(text) for text in self.to_python(value)]
        if None in numbers:
            raise ValidationError(self.error_messages["invalid_choice"], code="invalid_choice")
        return [number for number in numbers if number is not None]


class FamiliesField(forms.MultipleChoiceField):
    """Families of findings, from the checkboxes of a list: key and number of the findings that
    the page showed.
    """

    def clean(self, value: Any) -> list[tuple[int, int]]:
        return [self._parse(text) for text in self.to_python(value)]

    def _parse(self, text: str) -> tuple[int, int]:
        key_text, _, number_text = text.partition("-")
        key, number = parse_family(key_text), parse_record_number(number_text)
        if key is None or number is None:
            raise ValidationError("Select families of the list.", code="invalid_choice")
        return key, number


class FindingForm(PageForm):
    """Base of forms about findings: those and the families that are selected in a list, or the
    finding of its page (``finding``). ``params``: the filters of the list.
    """

    finding: DuplicateFinding | None = None
    params: Mapping[str, str] = MappingProxyType({})
    item = FindingNumbersField(label="Findings", required=False)
    family = FamiliesField(label="Families", required=False)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.finding is not None:
            del self.fields["item"], self.fields["family"]

    def clean(self) -> dict[str, Any]:
        is_empty = not self.errors and not any(
            self.cleaned_data.get(name) for name in ("item", "family")
        )
        if self.finding is None and is_empty:
            self.add_error("item", "Select at least one finding.")
        return super().clean() or self.cleaned_data

    @classmethod
    def _auto_id(cls) -> str:
        return "%s"  # the forms of a page share their fields

    def finding_ids(self) -> Sequence[int]:
        if self.finding is not None:
            return [self.finding.pk]
        ids = list(self.cleaned_data["item"])
        if self.cleaned_data["family"]:
            visitor = self.visitor
            visibility = visibility_for(visitor.lab, visitor.user)
            for key, number in self.cleaned_data["family"]:
                ids += family_finding_ids(
                    visitor.lab,
                    self.params,
                    key,
                    number,
                    visibility=visibility,
                    is_manager=visitor.can_manage,
                    now=visitor.now,
                )
        return ids

    def service_arguments(self) -> dict[str, Any]:
        visitor = self.visitor
        return {
            "lab": visitor.lab,
            "finding_ids": self.finding_ids(),
            "by": visitor.user,
            "is_manager": visitor.can_manage,
            "now": visitor.now,
        }


class DecisionForm(FindingForm):
    """A decision about findings. ``result``: the decision, for the message."""

    state: ClassVar[FindingState]
    result: ClassVar[str]
    reason = TextField(
        label="Reason",
        required=False,
        max_length=MAX_REASON,
        help_text="Required to mark a finding as no duplicate.",
        widget=forms.TextInput({"placeholder": "e.g. “paper under review”"}),
    )

    def save(self) -> str:
        findings = decide(
            state=self.state, reason=self.cleaned_data["reason"], **self.service_arguments()
        )
        number = len(findings)
        return (
            f"{number} finding{'' if number == 1 else 's'} marked as {self.result}. To undo, "
            "filter by this state."
        )


class ConfirmForm(DecisionForm):
    action, state, result = "confirmed", FindingState.CONFIRMED, "duplicate"


class IntentionalForm(DecisionForm):
    action, state, result = "intentional", FindingState.INTENTIONAL, "intentional"


class DismissForm(DecisionForm):
    action, state, result = "dismissed", FindingState.DISMISSED, "no duplicate"


class ReopenForm(FindingForm):
    action = "undo"

    def save(self) -> str:
        number = len(reopen(**self.service_arguments()))
        return f"{number} finding{' is' if number == 1 else 's are'} open again."


DECISION_FORMS = (ConfirmForm, IntentionalForm, DismissForm, ReopenForm)


class ParameterForm(PageForm):
    """Base of forms that change which parameters of a project are compared."""

    roles = MANAGERS  # it changes the comparison of all runs of the project
    finding: DuplicateFinding
    name = TextField(label="Parameter", widget=forms.Select)

    def offer(self, names: Sequence[str]) -> None:
        """Offer these parameters."""
        widget = self.fields["name"].widget
        assert isinstance(widget, forms.Select)
        widget.choices = [(name, name[:60]) for name in names]


class IgnoreParameterForm(ParameterForm):
    action = "ignore"

    def save(self) -> str:
        name, visitor = self.cleaned_data["name"], self.visitor
        project = ignore_finding_parameter(
            finding=self.finding, name=name, by=visitor.user, now=visitor.now
        )
        return f"{project.name} now ignores {name}. Its runs are compared again within a minute."


class CountParameterForm(ParameterForm):
    action = "count"

    def save(self) -> str:
        name, visitor = self.cleaned_data["name"], self.visitor
        project = count_parameter_again(
            finding=self.finding, name=name, by=visitor.user, now=visitor.now
        )
        return f"{project.name} now compares {name}. Its runs are compared again within a minute."
