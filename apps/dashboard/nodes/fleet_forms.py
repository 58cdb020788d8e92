"""Forms of the page that adds nodes: fleet tokens, approvals, and known nodes."""

from typing import Any

from django import forms

from apps.core.units import US_PER_HOUR
from apps.dashboard.decorators import MANAGERS
from apps.dashboard.forms import PageForm, ProjectField, SiteField
from apps.fleet.services import (
    MAX_USES,
    allow_known_node,
    approve_node,
    create_fleet_token,
    decline_node,
    dismiss_refusal,
    end_fleet_token,
    rotate_fleet_token,
)

# Hours of validity. A token for more than 24 hours needs approvals unless chosen otherwise.
LIVES = [
    ("1", "1 hour"),
    ("24", "24 hours"),
    ("168", "7 days"),
    ("720", "30 days"),
    ("2160", "90 days"),
]
AUTOMATIC, ALWAYS, NEVER = "automatic", "always", "never"
_APPROVAL = {AUTOMATIC: None, ALWAYS: True, NEVER: False}


class FleetForm(PageForm):
    """A form of the page. ``text``: a new fleet token, which is shown once."""

    roles = MANAGERS
    text = ""

    @property
    def author(self) -> dict[str, Any]:
        """Return the arguments of services that record who changes what when."""
        return {"lab": self.visitor.lab, "by": self.visitor.user, "now": self.visitor.now}


class CreateFleetTokenForm(FleetForm):
    """Create a fleet token."""

    action = "create"

    site = SiteField(empty_label="Choose a site")
    project = ProjectField(
        required=False, label="Project (optional)", empty_label="None: decide by rule"
    )
    uses = forms.IntegerField(
        label="Number of nodes",
        min_value=1,
        max_value=MAX_USES,
        initial=20,
        error_messages=dict.fromkeys(
            ("required", "invalid", "min_value", "max_value"),
            f"Enter a number of nodes from 1 to {MAX_USES}.",
        ),
    )
    hours = forms.ChoiceField(label="Valid for", choices=LIVES, initial="24")
    approval = forms.ChoiceField(
        label="Approval per node",
        choices=[
            (AUTOMATIC, "If valid for more than 24 hours"),
            (ALWAYS, "Always"),
            (NEVER, "Never"),
        ],
        initial=AUTOMATIC,
    )

    def save(self) -> str:
        data = self.cleaned_data
        token, self.text = create_fleet_token(
            site=data["site"],
            project=data["project"],
            uses=data["uses"],
            life_us=int(data["hours"]) * US_PER_HOUR,
            needs_approval=_APPROVAL[data["approval"]],
            **self.author,
        )
        return f"Fleet token {token.public_id} created."


class FleetTokenForm(FleetForm):
    """A form of one fleet token."""

    token = forms.CharField(max_length=8, widget=forms.HiddenInput)


class RotateForm(FleetTokenForm):
    """Replace a fleet token by a new one."""

    action = "rotate"

    def save(self) -> str:
        former = self.cleaned_data["token"]
        token, self.text = rotate_fleet_token(public_id=former, **self.author)
        return f"Fleet token {former} ended. {token.public_id} replaces it."


class EndForm(FleetTokenForm):
    """End a fleet token."""

    action = "end"

    def save(self) -> str:
        token = end_fleet_token(public_id=self.cleaned_data["token"], **self.author)
        return f"Fleet token {token.public_id} ended."


class EnrolmentForm(FleetForm):
    """A form of one node, by UUID."""

    node = forms.UUIDField(widget=forms.HiddenInput)


class ApproveForm(EnrolmentForm):
    """Approve a waiting node."""

    action = "approve"

    def save(self) -> str:
        row = approve_node(uuid=self.cleaned_data["node"], **self.author)
        return f"{row.hostname} approved."


class DeclineForm(EnrolmentForm):
    """Decline a waiting node."""

    action = "decline"

    def save(self) -> str:
        row = decline_node(uuid=self.cleaned_data["node"], **self.author)
        return f"{row.hostname} declined. Its token is revoked."


class AllowForm(EnrolmentForm):
    """Allow a known node to enrol again, once."""

    action = "allow"

    def save(self) -> str:
        row = allow_known_node(uuid=self.cleaned_data["node"], **self.author)
        return f"{row.hostname} can enrol again once within 24 hours."


class DismissForm(EnrolmentForm):
    """Remove a refused enrolment from the list."""

    action = "dismiss"

    def save(self) -> str:
        row = dismiss_refusal(uuid=self.cleaned_data["node"], **self.author)
        return f"Refused enrolment of {row.hostname} dismissed."


FLEET_FORMS: tuple[type[FleetForm], ...] = (
    CreateFleetTokenForm,
    RotateForm,
    EndForm,
    ApproveForm,
    DeclineForm,
    AllowForm,
    DismissForm,
)
