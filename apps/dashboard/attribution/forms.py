"""Forms of the attribution pages: claims, rules, their import, and the idle energy policy."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile

from apps.accounts.models import Lab, User
from apps.attribution.models import AttributionRule, Claim
from apps.attribution.services.rules import (
    Criteria,
    claim,
    drafted_rule,
    end_rule,
    make_rule,
    redo_claim,
    restore_rule,
    undo_claim,
    withdraw_rule,
)
from apps.carbon.figures.visibility import Visibility
from apps.core.errors import InvalidInput, LabCarbonError
from apps.core.intervals import datetime_to_us
from apps.core.text import parse_record_number
from apps.core.units import US_PER_HOUR
from apps.dashboard.attribution.unattributed_page import consumer_spans_of
from apps.dashboard.decorators import MANAGERS, Visitor
from apps.dashboard.forms import (
    LabRecordField,
    NodeField,
    PageForm,
    ProjectField,
    SiteField,
    TextField,
)
from apps.dashboard.periods import Period
from apps.energy.choices import IdleSpread
from apps.energy.services.idle import set_idle_policy, withdraw_idle_policy

TEXT_CRITERIA = ("os_user", "cluster", "account", "namespace", "path_prefix")
CREATE = "create"


class ItemsField(forms.MultipleChoiceField):
    """Keys of selected rows. The service checks them."""

    def valid_value(self, value: str) -> bool:
        return True


class DayField(forms.DateField):
    """A day of the lab's time zone."""

    widget = forms.DateInput({"type": "date"})

    def __init__(self, **options: Any) -> None:
        messages = {
            "invalid": "Enter a day as 2026-01-31.",
            "required": "Enter a day as 2026-01-31.",
        }
        super().__init__(input_formats=["%Y-%m-%d"], **{"error_messages": messages, **options})


class MemberField(LabRecordField):
    """A member of the lab, by number."""

    def __init__(self, **options: Any) -> None:
        messages = {"invalid_choice": "No such person in this lab. Choose one of the list."}
        super().__init__(
            User.objects.order_by("username"), **{"error_messages": messages, **options}
        )

    def limit_to_lab(self, lab: Lab) -> None:
        self.queryset = User.objects.filter(memberships__lab=lab).order_by("username")


def day_start_us(day: date, zone: ZoneInfo) -> int:
    """Return the start of a day in a time zone, in µs."""
    return datetime_to_us(datetime(day.year, day.month, day.day, tzinfo=zone))


class ClaimForm(PageForm):
    """Claim unattributed energy of a period for a project."""

    period: Period
    visibility: Visibility
    act: object = None

    item = ItemsField(
        label="Rows", error_messages={"required": "No rows selected. Select at least one row."}
    )
    project = ProjectField(
        label="Project for selected rows",
        empty_label="Choose a project",
        error_messages={
            "required": "Choose a project.",
            "invalid_choice": "No such project in this lab. Choose one.",
        },
    )

    @property
    def status(self) -> int:
        """Return the HTTP status: 404 for a project that the lab does not have."""
        return 404 if self.is_bound and "project" in self.errors else super().status

    def save(self) -> str:
        lab, project = self.visitor.lab, self.cleaned_data["project"]
        keys = self.cleaned_data["item"]
        spans, quantities = consumer_spans_of(
            lab=lab, period=self.period, keys=keys, visibility=self.visibility
        )
        self.act = claim(
            lab=lab, spans=spans, project=project, by=self.visitor.user, now=self.visitor.now
        )
        amounts = f"{quantities.energy.text}, {quantities.emission.text}"
        return f"{amounts} of {self.period.label} claimed for {project.name}."


class UndoClaimForm(PageForm):
    """Undo a claim: the default form of a claim, without an action."""

    claim: Claim

    def save(self) -> str:
        consumers = undo_claim(
            lab=self.visitor.lab, act=self.claim.act, by=self.visitor.user, now=self.visitor.now
        )
        return f"Claim for {self.claim.project.name} undone ({consumers} consumers)."


class RedoClaimForm(PageForm):
    """Restore a claim that was undone."""

    action = "redo"
    claim: Claim

    def save(self) -> str:
        consumers = redo_claim(
            lab=self.visitor.lab, act=self.claim.act, by=self.visitor.user, now=self.visitor.now
        )
        return f"Claim for {self.claim.project.name} restored ({consumers} consumers)."


def _text_criterion(label: str, limit: int = 100) -> TextField:
    attributes = {"autocapitalize": "off", "spellcheck": "false"}
    return TextField(
        label=label, required=False, max_length=limit, widget=forms.TextInput(attributes)
    )


class RuleForm(PageForm):
    """A rule that is previewed. An empty criterion matches everything."""

    roles = MANAGERS

    os_user = _text_criterion("OS user")
    node = NodeField(label="Node", required=False, empty_label="Any")
    site = SiteField(with_declared=True, label="Site", required=False, empty_label="Any")
    account = _text_criterion("Slurm account")
    namespace = _text_criterion("Kubernetes namespace")
    cluster = _text_criterion("Cluster")
    path_prefix = _text_criterion("Command prefix", 256)
    project = ProjectField(label="Project", required=False, empty_label="From the next rule")
    person = MemberField(label="Person", required=False, empty_label="Not specified")
    from_day = DayField(label="From", required=False, help_text="If empty: the current hour.")
    to_day = DayField(
        label="Until", required=False, help_text="The first day that the rule does not cover."
    )
    note = TextField(label="Note", required=False, max_length=200)

    def criteria_fields(self) -> list[forms.BoundField]:
        """Return the fields that select energy."""
        return [
            self[name]
            for name in (
                "os_user",
                "node",
                "site",
                "account",
                "namespace",
                "cluster",
                "path_prefix",
            )
        ]

    def target_fields(self) -> list[forms.BoundField]:
        """Return the fields for project, person and time."""
        return [self[name] for name in ("project", "person", "from_day", "to_day", "note")]

    def draft(self) -> AttributionRule | None:
        """Return the rule, not saved; None if the form has errors."""
        self.visitor.require_role(self.roles)
        if not self.is_valid():
            return None
        try:
            return self._rule()
        except LabCarbonError as error:
            self.add_service_error(error)
            return None

    def _rule(self) -> AttributionRule:
        data, zone = self.cleaned_data, self.visitor.zone
        current_hour_us = self.visitor.now // US_PER_HOUR * US_PER_HOUR
        rule = drafted_rule(
            lab=self.visitor.lab,
            criteria=Criteria(
                node=data["node"], site=data["site"], **{name: data[name] for name in TEXT_CRITERIA}
            ),
            project=data["project"],
            person=data["person"],
            from_us=max(0, day_start_us(data["from_day"], zone))
            if data["from_day"]
            else current_hour_us,
            to_us=max(0, day_start_us(data["to_day"], zone)) if data["to_day"] else None,
        )
        rule.note = data["note"]
        return rule


class CreateRuleForm(RuleForm):
    """Create a rule."""

    action = CREATE

    def save(self) -> str:
        make_rule(rule=self._rule(), by=self.visitor.user, now=self.visitor.now)
        return "Rule created. Figures are updated within seconds."


class RuleActionForm(PageForm):
    """A button on the page of a rule."""

    roles = MANAGERS
    rule: AttributionRule


class EndRuleForm(RuleActionForm):
    """End a rule with the last full hour."""

    action = "end"

    def save(self) -> str:
        end_rule(rule=self.rule, at_us=self.visitor.now, by=self.visitor.user, now=self.visitor.now)
        return "Rule ended with the last full hour. Earlier energy stays attributed."


class WithdrawRuleForm(RuleActionForm):
    """Withdraw a rule with its effect on past energy."""

    action = "withdraw"

    def save(self) -> str:
        withdraw_rule(rule=self.rule, by=self.visitor.user, now=self.visitor.now)
        return (
            "Rule withdrawn. Figures are updated within seconds. You can restore the rule on "
            "this page."
        )


class RestoreRuleForm(RuleActionForm):
    """Restore a withdrawn rule."""

    action = "restore"

    def save(self) -> str:
        restore_rule(rule=self.rule, by=self.visitor.user, now=self.visitor.now)
        return "Rule restored. Figures are updated within seconds."


RULE_ACTION_FORMS: tuple[type[RuleActionForm], ...] = (
    EndRuleForm,
    WithdrawRuleForm,
    RestoreRuleForm,
)


class SetIdlePolicyForm(PageForm):
    """Set the idle energy policy from a day on."""

    action = "set"
    roles = MANAGERS

    policy = forms.ChoiceField(label="Policy", choices=IdleSpread.choices)
    from_day = DayField(label="From")

    def __init__(
        self,
        visitor: Visitor,
        data: Mapping[str, Any] | None = None,
        *arguments: Any,
        **options: Any,
    ) -> None:
        super().__init__(visitor, data, *arguments, **options)
        self.fields["from_day"].help_text = (
            f"Days start in {visitor.lab.time_zone}. A policy that starts in the same hour is "
            "replaced."
        )

    def save(self) -> str:
        visitor, data = self.visitor, self.cleaned_data
        from_us = day_start_us(data["from_day"], visitor.zone)
        set_idle_policy(
            lab=visitor.lab,
            policy=data["policy"],
            from_us=from_us,
            by=visitor.user,
            now=visitor.now,
        )
        return "Policy saved. Figures are up to date."


class WithdrawIdlePolicyForm(PageForm):
    """Withdraw an idle energy policy."""

    action = "withdraw"
    roles = MANAGERS

    from_hour = TextField(required=False, widget=forms.HiddenInput)

    def save(self) -> str:
        from_hour = parse_record_number(self.cleaned_data["from_hour"])
        if from_hour is None:
            raise InvalidInput("No such policy.", hint="Reload the page and use a button on it.")
        withdraw_idle_policy(
            lab=self.visitor.lab, from_hour=from_hour, by=self.visitor.user, now=self.visitor.now
        )
        return "Policy withdrawn. The previous policy continues."


def uploaded_text(file: "UploadedFile[Any]", max_bytes: int) -> str:
    """Return the text of an uploaded file. Raises ValidationError if it is too large or not
    UTF-8.
    """
    if (file.size or 0) > max_bytes:
        raise ValidationError(
            "The file is too large. Split it into smaller files.", code="max_length"
        )
    try:
        return str(file.read().decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValidationError(
            "The file is not UTF-8 text. Save it as CSV in UTF-8.", code="invalid"
        ) from error
