"""Page objects: tokens and the audit log."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from apps.accounts.audit import NamedEntry, names_of, with_names
from apps.accounts.choices import Act, TokenKind
from apps.accounts.models import AuditEntry, Lab, Token
from apps.accounts.selectors import tokens_of
from apps.activity.choices import Act as ActivityAct
from apps.artifacts.choices import AuditAction as ArtifactAct
from apps.budgets.choices import BudgetAct
from apps.carbon.choices import OwnFactorAct, ProviderAct
from apps.carbon.market.choices import InstrumentAct
from apps.core.clock import utc
from apps.core.units import PPM, US_PER_HOUR
from apps.dashboard.decorators import Visitor
from apps.dashboard.formatting import figure_text, grouped
from apps.fleet.models import Node
from apps.pollers.choices import Act as AssetSourceAct
from apps.preflight.choices import Act as DuplicateAct
from apps.reports.choices import StatementAct
from apps.runs.choices import Act as RunAct
from apps.trackers.choices import Act as TrackerAct

AUDIT_PAGE = 100
MAX_PARTS = 20  # of a value on the page
REVOKED_LISTED_US = 30 * 86_400_000_000
_LABELS = {
    value: str(label)
    for kind in (
        Act,
        ArtifactAct,
        DuplicateAct,
        RunAct,
        AssetSourceAct,
        ProviderAct,
        OwnFactorAct,
        ActivityAct,
        StatementAct,
        BudgetAct,
        InstrumentAct,
        TrackerAct,
    )
    for value, label in kind.choices
}


@dataclass(frozen=True)
class TokenRow:
    """A token without its secret."""

    token: Token
    owner: str
    node: str
    scopes: list[str]
    state: str
    state_label: str

    @property
    def is_active(self) -> bool:
        return self.state == "running"


@dataclass(frozen=True)
class TokensPage:
    """The visitor's own tokens, and for an admin those of services, nodes and others."""

    own: list[TokenRow]
    services: list[TokenRow]
    trackers: list[TokenRow]
    nodes: list[TokenRow]
    others: list[TokenRow]


def tokens_page(visitor: Visitor) -> TokensPage:
    """Return the tokens a visitor may see; revoked ones for 30 days. Always two queries."""
    since = visitor.now - REVOKED_LISTED_US
    tokens = tokens_of(visitor.lab, visitor.user, visitor.role).filter(
        Q(revoked_us=None) | Q(revoked_us__gt=since)
    )
    names = {node.uuid: node.name for node in Node.objects.filter(lab=visitor.lab)}
    rows = [_token_row(token, names, visitor.now) for token in tokens]
    own = [
        row
        for row in rows
        if row.token.kind == TokenKind.USER and row.token.user_id == visitor.user.pk
    ]
    return TokensPage(
        own=own,
        services=[row for row in rows if row.token.kind == TokenKind.SERVICE],
        trackers=[row for row in rows if row.token.kind == TokenKind.TRACKER],
        nodes=[row for row in rows if row.token.kind == TokenKind.NODE],
        others=[
            row
            for row in rows
            if row.token.kind == TokenKind.USER and row.token.user_id != visitor.user.pk
        ],
    )


def _token_row(token: Token, names: dict[Any, str], now: int) -> TokenRow:
    owner = token.user or token.created_by
    state, label = "running", "active"
    if token.revoked_us is not None:
        state, label = "failed", "revoked"
    elif token.expires_us is not None and token.expires_us <= now:
        state, label = "failed", "expired"
    node = names.get(token.node_uuid, str(token.node_uuid)) if token.node_uuid else ""
    return TokenRow(
        token, owner.get_username() if owner else "", node, token.scopes.split(), state, label
    )


@dataclass(frozen=True)
class AuditRow:
    """An entry of the log with readable labels."""

    entry: AuditEntry
    named: NamedEntry
    action: str
    details: list[tuple[str, str]]


@dataclass(frozen=True)
class AuditPage:
    """A part of the log, newest first. ``older``: number of the entry before which the next page
    starts, 0 at the end.
    """

    rows: list[AuditRow]
    actions: list[tuple[str, str]]
    action: str
    older: int
    newest: int
    digest: str


def action_label(action: str) -> str:
    """Return the label of an action, or the action itself if it no longer exists."""
    return _LABELS.get(action, action)


def audit_page(*, lab: Lab, action: str, before: int) -> AuditPage:
    """Return up to a hundred entries before number ``before`` (0: the newest), of one action or
    all.
    """
    log = AuditEntry.objects.filter(lab=lab)
    kinds = sorted(log.order_by().values_list("action", flat=True).distinct())
    entries = log.filter(action=action) if action else log
    rows = list(
        (entries.filter(sequence__lt=before) if before else entries).order_by("-sequence")[
            : AUDIT_PAGE + 1
        ]
    )
    page_rows, names = rows[:AUDIT_PAGE], names_of(lab)
    return AuditPage(
        rows=[
            AuditRow(entry, named, action_label(entry.action), _details(named.details))
            for entry, named in ((entry, with_names(entry, names)) for entry in page_rows)
        ],
        actions=[(kind, action_label(kind)) for kind in kinds],
        action=action,
        older=page_rows[-1].sequence if len(rows) > AUDIT_PAGE else 0,
        newest=lab.audit_sequence,
        digest=lab.audit_digest,
    )


def _details(details: dict[str, Any]) -> list[tuple[str, str]]:
    """Return details as pairs of text. Empty strings are left out; null is shown as “none”,
    unlike 0.
    """
    pairs = []
    for name, value in sorted(details.items()):
        if isinstance(value, dict) and set(value) == {"from", "to"}:
            (label, old), (_, new) = _pair(name, value["from"]), _pair(name, value["to"])
            pairs.append((label, f"{old or 'none'} → {new or 'none'}"))
        elif value != "":
            pairs.append(_pair(name, value))
    return pairs


def _pair(name: str, value: Any) -> tuple[str, str]:
    label, _, unit = name.rpartition("_")
    if not label or unit not in _FORMATTERS or not isinstance(value, int | None):
        return name.replace("_", " "), "none" if value is None else _shorten(value)
    return label.upper() if unit == "ppm" else label, "none" if value is None else _FORMATTERS[
        unit
    ](value)


def _shorten(value: Any) -> str:
    """Return a value as text: of a long list or mapping the first parts and the number of all. The
    CSV has them all.
    """
    if not isinstance(value, list | dict) or len(value) <= MAX_PARTS:
        return str(value)
    parts = [f"{key}: {part}" for key, part in value.items()] if isinstance(value, dict) else value
    return f"{', '.join(map(str, parts[:MAX_PARTS]))}, … {grouped(len(value))} in all, see the CSV"


def _utc(time_us: int) -> str:
    return f"{utc(time_us):%Y-%m-%d %H:%M} UTC"


_FORMATTERS: dict[str, Callable[[int], str]] = {
    "us": _utc,
    "hour": lambda hour: _utc(hour * US_PER_HOUR) if hour else "the beginning",
    "ppm": lambda ppm: f"{ppm / PPM:.3f}",
    "ug": lambda ug: figure_text("emission_ug", ug),
    "mj": lambda mj: figure_text("energy_mj", mj),
    "mw": lambda mw: f"{mw / 1000:g} W",
}
