"""The form that creates a CodeCarbon token."""

from decimal import Decimal

from django import forms

from apps.core.units import PPM
from apps.dashboard.forms import DecimalField, ProjectField, TextField
from apps.dashboard.settings.forms import DAY_US, LIFETIMES
from apps.dashboard.trackers.forms import PlaceForm
from apps.trackers.codecarbon.services.tokens import create_codecarbon_token

PUE_RANGE = "Enter a PUE from 1 to 10."


class TokenForm(PlaceForm):
    """A new token. ``token_text`` is its text after ``save``."""

    name = TextField(
        label="Name",
        max_length=100,
        widget=forms.TextInput({"placeholder": "cluster notebooks"}),
        help_text="Runs get this name, because CodeCarbon sends none.",
        error_messages={"required": "Enter a name."},
    )
    project = ProjectField(
        label="Project", empty_label=None, error_messages={"required": "Select a project."}
    )
    client_pue = DecimalField(
        label="PUE set in CodeCarbon",
        required=False,
        min_value=1,
        max_value=10,
        initial="1.0",
        help_text=(
            "CodeCarbon multiplies its energy by this value. LabCarbon divides by it. Keep "
            "1.0 unless pue= is set."
        ),
        error_messages={"invalid": PUE_RANGE, "min_value": PUE_RANGE, "max_value": PUE_RANGE},
    )
    days = forms.ChoiceField(label="Expires after", required=False, choices=LIFETIMES)
    field_order = ("name", "project", "node", "site", "client_pue", "days")
    token_text = ""

    def save(self) -> str:
        data, visitor = self.cleaned_data, self.visitor
        _, self.token_text = create_codecarbon_token(
            lab=visitor.lab,
            name=data["name"],
            project=data["project"],
            node=data["node"],
            site=None if data["node"] else data["site"],
            client_pue_ppm=int((data["client_pue"] or Decimal(1)) * PPM),
            expires_us=visitor.now + int(data["days"]) * DAY_US if data["days"] else None,
            by=visitor.user,
            now=visitor.now,
        )
        return ""
