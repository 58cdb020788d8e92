"""Idle energy: which policy holds when, and how each month's was spread."""

from collections import defaultdict
from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.dashboard.formatting import percent
from apps.energy.choices import IdleSpread
from apps.energy.models import IdlePolicy, IdleShare


@dataclass(frozen=True)
class PolicyRow:
    """A policy as shown."""

    row: IdlePolicy
    words: str
    by: str
    holds: bool


@dataclass(frozen=True)
class Spread:
    """How the idle energy of a span was spread: (project, percent)."""

    from_hour: int
    to_hour: int
    parts: list[tuple[str, str]]


@dataclass(frozen=True)
class IdlePage:
    """The page of idle energy."""

    policies: list[PolicyRow]
    now: str
    choices: list[tuple[str, str]]
    spreads: list[Spread]


def idle_page(*, lab: Lab, hour: int) -> IdlePage:
    """Return policies, newest first, and how idle energy was spread. Two queries."""
    rows = list(IdlePolicy.objects.filter(lab=lab).select_related("made_by").order_by("-from_hour"))
    value_at = next((row for row in rows if row.from_hour <= hour), None)
    words = dict(IdleSpread.choices)
    return IdlePage(
        policies=[_row(row, value_at) for row in rows],
        now=words[value_at.policy] if value_at else words[IdleSpread.VISIBLE],
        choices=[(str(value), str(label)) for value, label in IdleSpread.choices],
        spreads=_spreads(lab),
    )


def _row(row: IdlePolicy, value_at: IdlePolicy | None) -> PolicyRow:
    by = row.made_by.get_username() if row.made_by else "somebody who left"
    return PolicyRow(row, str(IdleSpread(row.policy).label), by, row == value_at)


def _spreads(lab: Lab) -> list[Spread]:
    groups: dict[tuple[int, int], list[tuple[str, str]]] = defaultdict(list)
    shares = IdleShare.objects.filter(lab=lab).select_related("project")
    for share in sorted(shares, key=lambda share: (-share.from_hour, share.low - share.high)):
        part = percent(share.high - share.low, share.total)
        groups[share.from_hour, share.to_hour].append((share.project.name, part))
    return [Spread(*span, parts) for span, parts in groups.items()]
