"""Forms about duplicate findings."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from apps.core.text import parse_record_number
from apps.dashboard.decorators import MANAGERS
from apps.dashboard.forms import PageForm, TextField
from apps.preflight.choices import FindingState
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
        "required": "Select at least one finding.",
        "invalid_choice": "Select findings of the list.",
    }

    def clean(self, value: Any) -> list[int]:
        texts = self.to_python(value)
        if not texts:
            raise ValidationError(self.error_messages["required"], code="required")
        numbers = [parse_record_number(text) for text in texts]
        if None in numbers:
            raise ValidationError(self.error_messages["invalid_choice"], code="invalid_choice")
        return [number for number in numbers if number is not None]


class FindingForm(PageForm):
    """Base of forms about findings: those selected in a list, or the one of its page
    (``finding``).
    """

    finding: DuplicateFinding | None = None
    item = FindingNumbersField(label="Findings")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.finding is not None:
            del self.fields["item"]

    @classmethod
    def _auto_id(cls) -> str:
        return "%s"  # the forms of a page share their fields

    def finding_ids(self) -> Sequence[int]:
        return [self.finding.pk] if self.finding is not None else self.cleaned_data["item"]

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
