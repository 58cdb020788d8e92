"""Providers of a lab: add, change, enable, disable and remove. Tokens are encrypted and never
displayed.
"""

from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet

from apps.accounts import audit
from apps.accounts.encryption import DecryptionError, decrypt, encrypt
from apps.accounts.models import Lab, User
from apps.carbon.choices import ProviderAct
from apps.carbon.providers.connection import ProviderConnection
from apps.carbon.providers.models import GridProvider
from apps.carbon.providers.readings import ProviderError
from apps.carbon.providers.registry import PROVIDERS, Provider
from apps.core.errors import InvalidInput
from apps.core.jobs import enqueue
from apps.fleet.zones import resolve_zone

FETCH = "carbon.fetch_provider"
MAX_TOKEN = 4000
_PURPOSE = "labcarbon grid provider token"


@dataclass(frozen=True)
class ProviderInput:
    """Values of a provider. ``zone``: a code, a name or a cloud region."""

    kind: str
    zone: str
    token: str = ""


def providers_of(lab: Lab) -> QuerySet[GridProvider]:
    """Return the providers of a lab that are not removed, by zone."""
    return (
        GridProvider.objects.filter(lab=lab, removed_us=None)
        .select_related("lab", "created_by")
        .order_by("zone", "pk")
    )


@transaction.atomic
def add_provider(*, lab: Lab, values: ProviderInput, by: User | None, now: int) -> GridProvider:
    """Add a provider of a zone and enqueue its first requests. Raises InvalidInput."""
    provider = PROVIDERS.get(values.kind)
    if provider is None:
        raise InvalidInput(
            "Choose a provider.", field="kind", hint=f"Known: {', '.join(PROVIDERS)}."
        )
    zone = _checked_zone(provider, values.zone)
    lab = audit.hold(lab)
    _check_basis(provider, lab)
    token = _checked_token(provider, values.token)
    if provider.needs_token and not token:
        raise InvalidInput("Enter a token.", field="token", hint=f"Create one at {provider.label}.")
    same = providers_of(lab).filter(zone=zone).first()
    if same is not None:
        raise InvalidInput(
            f"{PROVIDERS[same.kind].label} is the provider of {zone}.",
            field="zone",
            hint="A zone has one provider, so that its hours have one source. Remove it first.",
        )
    added = GridProvider.objects.create(
        lab=lab,
        kind=values.kind,
        zone=zone,
        token=encrypt(_PURPOSE, token) if token else "",
        created_by=by,
        created_us=now,
    )
    _record(added, ProviderAct.ADDED, by, now)
    enqueue(kind=FETCH, key=str(added.pk))
    return added


@transaction.atomic
def change_token(*, provider: GridProvider, token: str, by: User | None, now: int) -> None:
    """Store another token and enqueue a request with it. Raises InvalidInput."""
    text = _checked_token(PROVIDERS[provider.kind], token)
    if not text:
        raise InvalidInput("Enter a token.", field="token")
    _change(provider, by, now, token=encrypt(_PURPOSE, text), failures=0, due_us=0)
    enqueue(kind=FETCH, key=str(provider.pk))


@transaction.atomic
def switch_provider(*, provider: GridProvider, enabled: bool, by: User | None, now: int) -> None:
    """Enable or disable the requests of a provider. Its hours stay."""
    _change(provider, by, now, enabled=enabled, failures=0, due_us=0)
    if enabled:
        enqueue(kind=FETCH, key=str(provider.pk))


@transaction.atomic
def remove_provider(*, provider: GridProvider, by: User | None, now: int) -> None:
    """Remove a provider with its token. Its hours stay."""
    audit.hold(provider.lab)
    GridProvider.objects.filter(pk=provider.pk, removed_us=None).update(
        removed_us=now, enabled=False, token=""
    )
    _record(provider, ProviderAct.REMOVED, by, now)


@transaction.atomic
def fetch_again(*, provider: GridProvider) -> None:
    """Enqueue a request now, also after failures."""
    GridProvider.objects.filter(pk=provider.pk).update(due_us=0)
    enqueue(kind=FETCH, key=str(provider.pk))


def connection_of(row: GridProvider) -> ProviderConnection:
    """Return the connection of a provider, with its token. Raises ProviderError."""
    provider = PROVIDERS.get(row.kind)
    if provider is None:
        raise ProviderError(f"This version has no provider {row.kind}. Remove it.")
    if row.lab.basis not in provider.bases:
        raise ProviderError(_basis_problem(provider, row.lab))
    try:
        token = decrypt(_PURPOSE, row.token) if row.token else ""
    except DecryptionError as error:
        raise ProviderError(
            "The token cannot be decrypted, because the token peppers of LabCarbon changed. Enter "
            "it again."
        ) from error
    return ProviderConnection(row.kind, provider, row.zone, row.lab.basis, token)


def _checked_zone(provider: Provider, text: str) -> str:
    zone = resolve_zone(text)
    if not zone:
        raise InvalidInput("Choose a grid zone.", field="zone", hint="Example: DE.")
    if provider.zones and zone not in provider.zones:
        raise InvalidInput(
            f"{provider.label} has no zone {zone}.",
            field="zone",
            hint=f"Its zones: {', '.join(provider.zones)}.",
        )
    return zone


def _check_basis(provider: Provider, lab: Lab) -> None:
    if lab.basis not in provider.bases:
        raise InvalidInput(_basis_problem(provider, lab), field="kind", hint="Choose another one.")


def _basis_problem(provider: Provider, lab: Lab) -> str:
    return (
        f"{provider.label} has {' and '.join(provider.bases)} factors, and this lab uses "
        f"{lab.basis} factors."
    )


def _checked_token(provider: Provider, token: str) -> str:
    text = token.strip()
    if text and not provider.needs_token:
        raise InvalidInput(f"{provider.label} needs no token.", field="token")
    if len(text) > MAX_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        raise InvalidInput(
            "A token has ASCII characters without spaces.",
            field="token",
            hint="Copy the token again.",
        )
    return text


def _change(provider: GridProvider, by: User | None, now: int, **values: object) -> None:
    audit.hold(provider.lab)
    GridProvider.objects.filter(pk=provider.pk, removed_us=None).update(**values)
    provider.refresh_from_db()
    _record(provider, ProviderAct.CHANGED, by, now)


def _record(provider: GridProvider, act: ProviderAct, by: User | None, now: int) -> None:
    audit.record(
        lab=provider.lab,
        by=by,
        action=act,
        subject=f"{provider.kind} {provider.zone}",
        details={"provider": provider.kind, "zone": provider.zone, "on": provider.enabled},
        now=now,
    )
