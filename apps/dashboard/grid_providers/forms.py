"""Forms of grid providers."""

from typing import Any, ClassVar

from django import forms

from apps.carbon.providers.models import GridProvider
from apps.carbon.providers.services import (
    MAX_TOKEN,
    ProviderInput,
    add_provider,
    change_token,
    fetch_again,
    remove_provider,
    switch_provider,
)
from apps.dashboard.decorators import MANAGERS
from apps.dashboard.forms import PageForm, TextField
from apps.dashboard.grid_providers.pages import usable_providers
from apps.fleet.zones import zones


def _token_field(*, required: bool, help_text: str) -> forms.CharField:
    return forms.CharField(
        label="Token",
        required=required,
        max_length=MAX_TOKEN,
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
        help_text=help_text,
        error_messages={"required": "Enter a token."},
    )


class AddProviderForm(PageForm):
    """A new provider of a zone. ``provider`` is the provider after ``save``."""

    roles = MANAGERS
    kind = forms.ChoiceField(
        label="Provider",
        error_messages={"invalid_choice": "Choose a provider of the list."},
    )
    zone = TextField(
        label="Grid zone",
        max_length=80,
        widget=forms.TextInput({"list": "provider-zones", "autocomplete": "off"}),
        help_text="A code or a name, such as DE or Germany.",
        error_messages={"required": "Enter a grid zone."},
    )
    token = _token_field(
        required=False,
        help_text="Electricity Maps only. Stored encrypted and never displayed.",
    )
    provider: GridProvider

    def __init__(self, *args: Any, **context: Any) -> None:
        super().__init__(*args, **context)
        kind = self.fields["kind"]
        assert isinstance(kind, forms.ChoiceField)
        kind.choices = usable_providers(self.visitor.lab)

    @staticmethod
    def zone_labels() -> list[str]:
        """Return all grid zones for the list of suggestions."""
        return [zone.label for zone in zones().values()]

    def save(self) -> str:
        data, visitor = self.cleaned_data, self.visitor
        self.provider = add_provider(
            lab=visitor.lab,
            values=ProviderInput(data["kind"], data["zone"], data["token"]),
            by=visitor.user,
            now=visitor.now,
        )
        return "The provider was added. Its first request starts now."


class ProviderActionForm(PageForm):
    """Base of the forms of one provider."""

    roles = MANAGERS
    provider: GridProvider


class TokenForm(ProviderActionForm):
    action = "token"
    token = _token_field(required=True, help_text="It replaces the stored one.")

    def save(self) -> str:
        change_token(
            provider=self.provider,
            token=self.cleaned_data["token"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return "The token was saved. A request with it starts now."


class FetchForm(ProviderActionForm):
    action = "fetch"

    def save(self) -> str:
        fetch_again(provider=self.provider)
        return "A request starts now. Reload this page to see the result."


class SwitchForm(ProviderActionForm):
    """Base of the forms that enable or disable a provider."""

    enabled: ClassVar[bool]
    message_text: ClassVar[str]

    def save(self) -> str:
        visitor = self.visitor
        switch_provider(
            provider=self.provider, enabled=self.enabled, by=visitor.user, now=visitor.now
        )
        return self.message_text


class EnableForm(SwitchForm):
    action, enabled, message_text = "on", True, "The provider was enabled."


class DisableForm(SwitchForm):
    action, enabled, message_text = "off", False, "The provider was disabled. Its hours stay."


class RemoveForm(ProviderActionForm):
    action = "remove"

    def save(self) -> str:
        remove_provider(provider=self.provider, by=self.visitor.user, now=self.visitor.now)
        return "The provider was removed. Its hours stay."


PROVIDER_FORMS: tuple[type[PageForm], ...] = (
    TokenForm, FetchForm, EnableForm, DisableForm, RemoveForm,
)  # fmt: skip
