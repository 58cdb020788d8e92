"""Contents of the pages of grid providers."""

from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.carbon.providers.models import GridProvider
from apps.carbon.providers.registry import PROVIDERS, Provider
from apps.carbon.providers.services import providers_of


@dataclass(frozen=True)
class ProviderRow:
    """A provider in the list. ``state``: CSS class of the badge."""

    row: GridProvider
    label: str
    state: str
    state_label: str
    needs_token: bool
    is_web: bool

    @property
    def is_untried(self) -> bool:
        """Whether the real service has never returned a usable response."""
        return self.is_web and self.row.succeeded_us is None


def provider_rows(lab: Lab) -> list[ProviderRow]:
    """Return the providers of a lab. One query."""
    return [provider_row(row) for row in providers_of(lab)]


def provider_row(row: GridProvider) -> ProviderRow:
    """Return a provider with its state."""
    provider = PROVIDERS.get(row.kind)
    state, label = "running", "requested every hour"
    if not row.enabled:
        state, label = "killed", "disabled"
    elif row.problem:
        state, label = "failed", "not usable"
    elif row.succeeded_us is None:
        state, label = "running", "not requested yet"
    return ProviderRow(
        row,
        provider.label if provider else row.kind,
        state,
        label,
        needs_token=provider is not None and provider.needs_token,
        is_web=provider is not None and provider.web is not None,
    )


def usable_providers(lab: Lab) -> list[tuple[str, str]]:
    """Return the providers with factors on the lab's basis, with labels."""
    return [
        (name, _choice_label(provider))
        for name, provider in PROVIDERS.items()
        if lab.basis in provider.bases
    ]


def unusable_labels(lab: Lab) -> list[str]:
    """Return the labels of providers without factors on the lab's basis."""
    return [provider.label for provider in PROVIDERS.values() if lab.basis not in provider.bases]


def _choice_label(provider: Provider) -> str:
    zones = f" ({', '.join(provider.zones)})" if provider.zones else ""
    return f"{provider.label}{zones}"
