"""Tokens and the audit log: what their pages show."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from apps.accounts.choices import SCOPES_OF_ROLE, Act, Scope, TokenKind
from apps.accounts.models import AuditEntry, Lab, Token
from apps.accounts.selectors import tokens_of
from apps.artifacts.choices import AuditAction as ArtifactAct
from apps.core.clock import utc
from apps.core.units import PPM, US_PER_HOUR
from apps.dashboard.decorators import Visitor
from apps.fleet.models import Node
from apps.preflight.choices import Act as RepeatAct
from apps.trackers.choices import Act as TrackerAct

AUDIT_PAGE = 100
ENDED_LISTED_US = 30 * 86_400_000_000
_ACTS = {value: str(words) for kind in (Act, ArtifactAct, RepeatAct, TrackerAct) for value, words in kind.choices}


@dataclass(frozen=True)
class TokenRow:
    """A token as shown: never its secret."""

    token: Token
    whose: str
    where: str
    scopes: list[str]
    state: str
    words: str

    @property
    def open(self) -> bool:
        return self.state == "running"


@dataclass(frozen=True)
class TokensPage:
    """One's own tokens, and for an admin those of services, nodes and others."""

    own: list[TokenRow]
    services: list[TokenRow]
    trackers: list[TokenRow]
    nodes: list[TokenRow]
    others: list[TokenRow]
    scopes: list[tuple[str, str]]


def tokens_page(visitor: Visitor) -> TokensPage:
    """Return the tokens a visitor may see; ended ones for 30 days. Two queries whatever their number."""
    since = visitor.now - ENDED_LISTED_US
    tokens = tokens_of(visitor.lab, visitor.user, visitor.role).filter(Q(revoked_us=None) | Q(revoked_us__gt=since))
    names = dict(Node.objects.filter(lab=visitor.lab).values_list("uuid", "hostname"))
    rows = [_token_row(token, names, visitor.now) for token in tokens]
    own = [row for row in rows if row.token.kind == TokenKind.USER and row.token.user_id == visitor.user.pk]
    return TokensPage(
        own=own,
        services=[row for row in rows if row.token.kind == TokenKind.SERVICE],
        trackers=[row for row in rows if row.token.kind == TokenKind.TRACKER],
        nodes=[row for row in rows if row.token.kind == TokenKind.NODE],
        others=[row for row in rows if row.token.kind == TokenKind.USER and row.token.user_id != visitor.user.pk],
        scopes=[(scope, Scope(scope).label) for scope in SCOPES_OF_ROLE[visitor.role]],
    )


def _token_row(token: Token, names: dict[Any, str], now: int) -> TokenRow:
    owner = token.user or token.made_by
    state, words = "running", "in use"
    if token.revoked_us is not None:
        state, words = "failed", "ended"
    elif token.expires_us is not None and token.expires_us <= now:
        state, words = "failed", "expired"
    where = names.get(token.node_uuid, str(token.node_uuid)) if token.node_uuid else ""
    return TokenRow(token, owner.get_username() if owner else "", where, token.scopes.split(), state, words)


@dataclass(frozen=True)
class AuditRow:
    """An act in words."""

    entry: AuditEntry
    action: str
    details: list[tuple[str, str]]


@dataclass(frozen=True)
class AuditPage:
    """A stretch of the log, newest first. ``older`` is the number to go on from, 0 at its end."""

    rows: list[AuditRow]
    actions: list[tuple[str, str]]
    action: str
    older: int
    newest: int
    digest: str


def act_words(action: str) -> str:
    """Return an act in words; one that is none any more as it is written."""
    return _ACTS.get(action, action)


def audit_page(*, lab: Lab, action: str, before: int) -> AuditPage:
    """Return up to a hundred acts before number ``before`` (0: the newest), of one kind or all."""
    log = AuditEntry.objects.filter(lab=lab)
    kinds = sorted(log.order_by().values_list("action", flat=True).distinct())
    entries = log.filter(action=action) if action else log
    rows = list((entries.filter(sequence__lt=before) if before else entries).order_by("-sequence")[: AUDIT_PAGE + 1])
    page_rows = rows[:AUDIT_PAGE]
    return AuditPage(
        rows=[AuditRow(entry, act_words(entry.action), _details(entry.details)) for entry in page_rows],
        actions=[(kind, act_words(kind)) for kind in kinds],
        action=action,
        older=page_rows[-1].sequence if len(rows) > AUDIT_PAGE else 0,
        newest=lab.audit_sequence,
        digest=lab.audit_digest,
    )


def _details(details: dict[str, Any]) -> list[tuple[str, str]]:
    """Return details as pairs in words; '' says nothing, null and 0 are told apart."""
    pairs = []
    for name, value in sorted(details.items()):
        if isinstance(value, dict) and set(value) == {"from", "to"}:
            (words, old), (_, new) = _pair(name, value["from"]), _pair(name, value["to"])
            pairs.append((words, f"{old or 'none'} → {new or 'none'}"))
        elif value != "":
            pairs.append(_pair(name, value))
    return pairs


def _pair(name: str, value: Any) -> tuple[str, str]:
    words, _, unit = name.rpartition("_")
    if not words or unit not in _IN_WORDS or not isinstance(value, int | None):
        return name.replace("_", " "), "none" if value is None else str(value)
    return words.upper() if unit == "ppm" else words, "none" if value is None else _IN_WORDS[unit](value)


def _utc(time_us: int) -> str:
    return f"{utc(time_us):%Y-%m-%d %H:%M} UTC"


_IN_WORDS: dict[str, Callable[[int], str]] = {
    "us": _utc,
    "hour": lambda hour: _utc(hour * US_PER_HOUR) if hour else "the beginning",
    "ppm": lambda ppm: f"{ppm / PPM:.3f}",
    "mw": lambda mw: f"{mw / 1000:g} W",
}
