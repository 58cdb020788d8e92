"""Asset sources of a lab: add, change, enable, disable, test and remove. Tokens are encrypted and
never displayed.
"""

from dataclasses import dataclass, replace

from django.conf import settings
from django.db import transaction

from apps.accounts import audit
from apps.accounts.encryption import DecryptionError, decrypt, encrypt
from apps.accounts.models import Lab, User
from apps.assets.services.csv_import import checked_options
from apps.assets.spreadsheets.rows import Options
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import enqueue
from apps.core.text import is_unstorable
from apps.core.url_allowlist import Allowlist, parse_address
from apps.pollers.choices import Act, Policy, System
from apps.pollers.clients import READERS, Connection, PollError, RemoteRow
from apps.pollers.models import AssetSource

POLL = "pollers.poll"
_PURPOSE = "labcarbon asset source token"


@dataclass(frozen=True)
class SourceInput:
    """Values of a source. ``token``, ``app_token`` None: keep the stored one."""

    system: System
    name: str
    address: str
    token: str | None = None
    app_token: str | None = None
    policy: Policy = Policy.PROPOSE
    currency: str = ""
    bought_on: str = ""


@transaction.atomic
def add_source(*, lab: Lab, values: SourceInput, by: User | None, now: int) -> AssetSource:
    """Add a source and enqueue its first poll. Raises InvalidInput."""
    values = _checked(values)
    audit.hold(lab)
    same = AssetSource.objects.filter(
        lab=lab, system=values.system, address=values.address, removed_us=None
    ).first()
    if same is not None:
        raise InvalidInput(
            "This source already exists.", field="address", hint=f"Edit {same.name} instead."
        )
    if not values.token:
        raise InvalidInput("Enter a token.", field="token", hint="Create one that may only read.")
    source = AssetSource(
        lab=lab, system=values.system, address=values.address, created_by=by, created_us=now
    )
    _apply(source, values)
    _record(source, Act.ADDED, by, now)
    return source


@transaction.atomic
def change_source(
    *, source: AssetSource, values: SourceInput, by: User | None, now: int
) -> AssetSource:
    """Change a source. Its program and address stay, so that the token is sent to no other
    server. Raises InvalidInput.
    """
    values = _checked(replace(values, system=System(source.system), address=source.address))
    audit.hold(source.lab)
    source = AssetSource.objects.select_for_update().select_related("lab").get(pk=source.pk)
    _apply(source, values)
    _record(source, Act.CHANGED, by, now)
    return source


@transaction.atomic
def switch_source(*, source: AssetSource, enabled: bool, by: User | None, now: int) -> None:
    """Enable or disable the polling of a source."""
    audit.hold(source.lab)
    AssetSource.objects.filter(pk=source.pk).update(enabled=enabled, failures=0, due_us=0)
    source.enabled = enabled
    _record(source, Act.CHANGED, by, now)
    if enabled:
        enqueue(kind=POLL, key=str(source.pk))


@transaction.atomic
def remove_source(*, source: AssetSource, by: User | None, now: int) -> None:
    """Remove a source with its tokens and rows. Registered assets stay."""
    audit.hold(source.lab)
    AssetSource.objects.filter(pk=source.pk).update(
        removed_us=now, enabled=False, token="", app_token="", pending_import=None
    )
    source.rows.all().delete()
    _record(source, Act.REMOVED, by, now)


def resume_polling(*, source: AssetSource) -> None:
    """Let the next poll start, also after a loss: the rows may be back."""
    AssetSource.objects.filter(pk=source.pk).update(halted_us=None, due_us=0)


@transaction.atomic
def poll_again(*, source: AssetSource) -> None:
    """Enqueue a poll, also after a loss."""
    resume_polling(source=source)
    enqueue(kind=POLL, key=str(source.pk))


@transaction.atomic
def accept_loss(*, source: AssetSource, by: User | None, now: int) -> None:
    """Let the next poll lose as many rows as the stopped one. Raises Conflict."""
    audit.hold(source.lab)
    source = AssetSource.objects.select_for_update().select_related("lab").get(pk=source.pk)
    if source.halted_us is None:
        raise Conflict("No poll of this source is stopped.", hint="Reload the page.")
    lost = source.lost_rows
    AssetSource.objects.filter(pk=source.pk).update(halted_us=None, loss_accepted=lost, due_us=0)
    audit.record(
        lab=source.lab,
        by=by,
        action=Act.LOSS_ACCEPTED,
        subject=source.name,
        details={"rows": lost},
        now=now,
    )
    enqueue(kind=POLL, key=str(source.pk))


def _checked(values: SourceInput) -> SourceInput:
    name = values.name.strip()
    if not name or len(name) > 100 or is_unstorable(name):
        raise InvalidInput(
            "Enter a name of at most 100 characters.", field="name", hint="Example: NetBox."
        )
    address = str(parse_address(values.address))
    _check_address(address)
    for field in ("token", "app_token"):
        text = getattr(values, field) or ""
        if len(text) > 4000 or not text.isascii() or not text.isprintable() or " " in text:
            raise InvalidInput(
                "A token has ASCII characters without spaces.",
                field=field,
                hint="Copy the token again.",
            )
    if values.app_token and values.system != System.GLPI:
        raise InvalidInput("Only GLPI has an application token.", field="app_token")
    options = checked_options(Options(values.currency, values.bought_on))
    if not options.bought_on and values.system != System.SNIPE_IT:
        raise InvalidInput(
            f"{System(values.system).label} has no purchase dates.",
            field="bought_on",
            hint="Enter the date for all its rows. Correct it later for single assets.",
        )
    return replace(
        values,
        name=name,
        address=address,
        currency=options.currency,
        bought_on=options.bought_on,
    )


def _check_address(address: str) -> None:
    """Raise InvalidInput unless the server's administrator lists the address."""
    if address not in settings.ASSET_SOURCES:
        raise InvalidInput(
            f"{address} is not permitted.",
            field="address",
            hint=(
                "The administrator of this server lists permitted addresses in "
                "LABCARBON_ASSET_SOURCES."
            ),
        )


def _apply(source: AssetSource, values: SourceInput) -> None:
    source.name, source.policy = values.name, values.policy
    source.currency, source.bought_on = values.currency, values.bought_on
    if values.token:
        source.token = encrypt(_PURPOSE, values.token)
    if values.app_token:
        source.app_token = encrypt(_PURPOSE, values.app_token)
    source.due_us, source.failures = 0, 0
    source.save()
    enqueue(kind=POLL, key=str(source.pk))


def _record(source: AssetSource, act: Act, by: User | None, now: int) -> None:
    details = {
        "system": source.system,
        "address": source.address,
        "policy": source.policy,
        "on": source.enabled,
    }
    audit.record(lab=source.lab, by=by, action=act, subject=source.name, details=details, now=now)


def fetch_rows(source: AssetSource) -> list[RemoteRow]:
    """Return all rows of a source. Raises PollError. Not called inside a transaction."""
    try:
        _check_address(source.address)
        token = decrypt(_PURPOSE, source.token)
        app_token = decrypt(_PURPOSE, source.app_token) if source.app_token else ""
    except InvalidInput as error:
        raise PollError(f"{error.message} {error.hint}") from error
    except DecryptionError as error:
        raise PollError(
            "The token cannot be decrypted, because the token peppers of LabCarbon changed. Enter "
            "it again."
        ) from error
    address = parse_address(source.address)
    allowlist = Allowlist(frozenset({f"{address.host}:{address.port}"}))
    connection = Connection(address, allowlist, token, app_token)
    return READERS[System(source.system)](connection)
