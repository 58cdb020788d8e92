"""Forms of the settings pages: tokens and the lab's settings."""

from typing import Any

from django import forms
from django.db import transaction

from apps.accounts.choices import SCOPES_OF_ROLE, PersonView, Profile, Scope, TokenKind
from apps.accounts.services.labs import change_lab
from apps.accounts.services.tokens import create_token
from apps.core.units import US_PER_HOUR
from apps.dashboard.decorators import ADMINS, ALL_ROLES
from apps.dashboard.forms import PageForm, TextField
from apps.fleet.choices import CURRENCIES
from apps.fleet.services import choose_currency

FIRST_PRICE = "first_price"  # choice of a currency
DAY_US = 24 * US_PER_HOUR
LIFETIMES = (("", "Never"), ("30", "In 30 days"), ("90", "In 90 days"), ("365", "In a year"))


class TokenForm(PageForm):
    """Create a token; ``text`` is its secret."""

    roles = ALL_ROLES
    kind = forms.ChoiceField(
        label="Owner",
        required=False,
        choices=[(TokenKind.USER.value, "Me"), (TokenKind.SERVICE.value, "A service")],
        help_text=(
            "Runs of a service have no person. A service token expires when you leave the lab."
        ),
        error_messages={
            "invalid_choice": (
                "This page creates no token of type “%(value)s”. Choose user or service."
            )
        },
    )
    name = TextField(
        label="Name",
        max_length=100,
        widget=forms.TextInput({"placeholder": "sweep server"}),
        error_messages={"required": "Enter a name, e.g. where the token is used: sweep server."},
    )
    scopes = forms.MultipleChoiceField(
        label="Permissions",
        choices=Scope.choices,
        widget=forms.CheckboxSelectMultiple,
        error_messages={
            "required": "Choose at least one permission.",
            "invalid_choice": "“%(value)s” is not a permission. Choose from the list.",
        },
    )
    days = forms.ChoiceField(
        label="Expires",
        required=False,
        choices=LIFETIMES,
        error_messages={
            "invalid_choice": "Choose an expiry from the list: never, 30, 90 or 365 days."
        },
    )
    text = ""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        offered = [
            (scope, f"{Scope(scope).label} ({scope})")
            for scope in SCOPES_OF_ROLE[self.visitor.role]
        ]
        self.fields["scopes"].widget.choices = offered

    def save(self) -> str:
        values = self.cleaned_data
        now = self.visitor.now
        _, self.text = create_token(
            lab=self.visitor.lab,
            kind=TokenKind(values["kind"] or TokenKind.USER),
            name=values["name"],
            scopes=values["scopes"],
            expires_us=now + int(values["days"]) * DAY_US if values["days"] else None,
            by=self.visitor.user,
            now=now,
        )
        return ""


class LabForm(PageForm):
    """Change the settings of the lab."""

    roles = ADMINS
    lab = TextField(
        label="Name", max_length=200, error_messages={"required": "Enter a name for the lab."}
    )
    time_zone = TextField(
        label="Time zone",
        required=False,
        widget=forms.TextInput({"list": "time-zones", "autocomplete": "off"}),
        help_text=(
            "Days begin at midnight in this zone. A change moves hours between days and "
            "changes no total."
        ),
    )
    person_view = forms.ChoiceField(
        label="Visibility of personal energy",
        choices=PersonView.choices,
        widget=forms.RadioSelect,
        help_text=(
            "Everyone always sees their own. Only the person themselves: not even PIs and admins "
            "see it. The People page shows this rule to all members."
        ),
        error_messages={
            "required": "Choose one of the list.",
            "invalid_choice": "“%(value)s” is not one of the list.",
        },
    )
    profile = forms.ChoiceField(
        label="Scope profile",
        required=False,
        choices=Profile.choices,
        widget=forms.RadioSelect,
        help_text="Assigns activities to scopes. Energy and totals do not change.",
    )
    currency = forms.ChoiceField(
        label="Currency of costs",
        required=False,
        help_text=(
            "Costs are summed in this currency. No amount is converted: each electricity price "
            "keeps its own currency. The cost of energy with a price in another currency is shown "
            "apart, and is not in the sums."
        ),
        error_messages={
            "invalid_choice": "“%(value)s” is not a currency (ISO 4217). Choose from the list."
        },
    )

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        lab = self.visitor.lab
        first = "" if lab.is_currency_chosen or not lab.currency else f": {lab.currency}"
        self.fields["currency"].choices = [  # type: ignore[attr-defined]
            (FIRST_PRICE, f"That of the first electricity price{first}"),
            *((code, code) for code in sorted(CURRENCIES)),
        ]
        slug = lab.slug
        self.fields[
            "lab"
        ].help_text = f"The short name in downloads and commands does not change: {slug}"

    @transaction.atomic
    def save(self) -> str:
        values = self.cleaned_data
        changed = change_lab(
            lab=self.visitor.lab,
            by=self.visitor.user,
            name=values["lab"],
            time_zone=values["time_zone"],
            person_view=values["person_view"],
            profile=values["profile"],
            now=self.visitor.now,
        )
        is_currency_changed = bool(values["currency"]) and choose_currency(
            lab=self.visitor.lab,
            currency="" if values["currency"] == FIRST_PRICE else values["currency"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return "Settings saved." if changed or is_currency_changed else "Settings unchanged."
