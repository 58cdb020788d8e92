"""Forms of pages without a lab: setup and one-time sign-in."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from apps.accounts.choices import Basis, CodePurpose
from apps.accounts.models import User
from apps.accounts.services.labs import checked_time_zone, spend_code
from apps.core.clock import now_us
from apps.core.errors import InvalidInput, LabCarbonError
from apps.dashboard.factors.forms import BasisField
from apps.dashboard.forms import ServiceForm, TextField
from apps.dashboard.setup.services import SITE_KINDS, SetupResult, set_up, zone_code


class PublicForm(ServiceForm):
    """A form that needs no session. It is bound by a POST; a GET sets initial values."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.now = now_us()
        data = request.POST if request.method == "POST" else None
        initial = {name: request.GET[name] for name in ("code", "next") if name in request.GET}
        super().__init__(data, initial=initial, auto_id="%s", label_suffix="")

    def value_of(self, name: str) -> str:
        """Return the posted or initial text of a field."""
        return str(self[name].value() or "")


class UsernameField(TextField):
    """A user name for a new account. The service validates it."""

    def __init__(self, **options: Any) -> None:
        defaults = {
            "label": "User name",
            "max_length": 150,
            "widget": forms.TextInput({"autocomplete": "username", "placeholder": "ada"}),
            "error_messages": {"required": "Enter a user name, e.g. ada."},
        }
        super().__init__(**{**defaults, **options})


class PasswordField(TextField):
    """A password for a new account. Spaces are part of it, and pages never repeat it."""

    def __init__(self, **options: Any) -> None:
        widget = forms.PasswordInput({"autocomplete": "new-password"})
        super().__init__(**{"strip": False, "widget": widget, **options})


def _validated(check: Callable[[str], str], text: str) -> str:
    """Return the result of a service's check; raise its error as one of the field."""
    try:
        return check(text)
    except LabCarbonError as error:
        raise ValidationError(f"{error.message} {error.hint}".strip()) from error


class SetupForm(PublicForm):
    """Create the first lab, its first admin and its site."""

    code = TextField(
        label="Setup code",
        help_text="Part of the link that “make run” prints.",
        widget=forms.TextInput({"autocomplete": "off"}),
        error_messages={"required": "Enter the code from the link that “make run” prints."},
    )
    lab = TextField(
        label="Lab name",
        max_length=200,
        widget=forms.TextInput({"placeholder": "Cell Atlas Lab"}),
        error_messages={"required": "Enter a name for the lab, e.g. Cell Atlas Lab."},
    )
    username = UsernameField()
    password = PasswordField(
        label="Password (optional)",
        required=False,
        help_text="Without a password, sign in with the link that “make run” prints.",
    )
    zone = TextField(
        label="Electricity grid zone",
        required=False,
        widget=forms.TextInput(
            {"list": "zones", "autocomplete": "off", "placeholder": "Type a country"}
        ),
    )
    no_zone = forms.BooleanField(
        label="Choose later: show energy without carbon for now", required=False
    )
    basis = BasisField(
        label="Basis of factors",
        help_text="Lifecycle is preselected because it is more complete and every country has such "
        "a factor. An admin can change the basis later.",
    )
    site_kind = forms.ChoiceField(
        label="Type of site",
        choices=SITE_KINDS,
        error_messages={"invalid_choice": "Choose a type of site from the list."},
    )
    time_zone = TextField(
        label="Time zone",
        required=False,
        widget=forms.TextInput({"placeholder": "Europe/Berlin", "data-time-zone": True}),
    )
    result: SetupResult

    def __init__(self, request: HttpRequest, *, has_zones: bool) -> None:
        super().__init__(request)
        self.initial.setdefault("site_kind", "workstation")
        self.initial.setdefault("basis", Basis.LIFECYCLE.value)
        if not has_zones:
            self.fields[
                "zone"
            ].help_text = "No emission factors are loaded yet. Choose the zone later."

    def clean(self) -> dict[str, Any]:
        super().clean()
        if self.errors and self.cleaned_data.get("password"):  # pages never repeat a password
            self.add_error("password", "Enter the password again.")
        return self.cleaned_data

    def clean_zone(self) -> str:
        return "" if self.data.get("no_zone") else _validated(zone_code, self.cleaned_data["zone"])

    def clean_time_zone(self) -> str:
        return _validated(checked_time_zone, self.cleaned_data["time_zone"])

    def save(self) -> str:
        values = self.cleaned_data
        self.result = set_up(
            lab_name=values["lab"],
            username=values["username"],
            password=values["password"],
            zone=values["zone"],
            basis=values["basis"],
            site_kind=values["site_kind"],
            time_zone=values["time_zone"],
            now=self.now,
            code=values["code"],
        )
        return ""


class SignInForm(PublicForm):
    """Sign in with the code of a one-time link."""

    code = TextField(
        label="Code",
        widget=forms.TextInput({"autocomplete": "off"}),
        error_messages={"required": "Enter the code from the sign-in link."},
    )
    next = forms.Field(required=False, widget=forms.HiddenInput)
    user: User
    lab_id: int | None

    def save(self) -> str:
        used = spend_code(purpose=CodePurpose.SIGN_IN, code=self.cleaned_data["code"], now=self.now)
        if used.user is None or not used.user.is_active:
            raise InvalidInput(
                "The account of this link cannot sign in.",
                field="code",
                hint="Ask an admin of your lab.",
            )
        self.user, self.lab_id = used.user, used.lab_id
        return ""

    @property
    def next_url(self) -> str:
        """Return the address to open after signing in: one of this server, or the overview."""
        target = self.value_of("next")
        hosts, is_secure = {self.request.get_host()}, self.request.is_secure()
        is_safe = url_has_allowed_host_and_scheme(
            target, allowed_hosts=hosts, require_https=is_secure
        )
        return target if target and is_safe else reverse("overview")
