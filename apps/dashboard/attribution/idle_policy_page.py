"""Content of the page of idle energy: policies, and how idle energy was distributed."""

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
    label: str
    by: str
    current: bool


@dataclass(frozen=True)
class Spread:
    """The distribution of the idle energy of a period: (project, percent)."""

    from_hour: int
    to_hour: int
    parts: list[tuple[str, str]]


@dataclass(frozen=True)
class IdlePage:
    """The page of idle energy."""

    policies: list[PolicyRow]
    current_label: str
    spreads: list[Spread]


def idle_page(*, lab: Lab, hour: int) -> IdlePage:
    """Return policies, newest first, and the distribution of idle energy. Two queries."""
    rows = list(
        IdlePolicy.objects.filter(lab=lab).select_related("created_by").order_by("-from_hour")
    )
    current = next((row for row in rows if row.from_hour <= hour), None)
    labels = dict(IdleSpread.choices)
    return IdlePage(
        policies=[_row(row, current) for row in rows],
        current_label=labels[current.policy] if current else labels[IdleSpread.VISIBLE],
        spreads=_spreads(lab),
    )


def _row(row: IdlePolicy, current: IdlePolicy | None) -> PolicyRow:
    by = row.created_by.get_username() if row.created_by else "a former member"
    return PolicyRow(row, str(IdleSpread(row.policy).label), by, row == current)


def _spreads(lab: Lab) -> list[Spread]:
    groups: dict[tuple[int, int], list[tuple[str, str]]] = defaultdict(list)
    shares = IdleShare.objects.filter(lab=lab).select_related("project")
    for share in sorted(shares, key=lambda share: (-share.from_hour, share.low - share.high)):
        part = percent(share.high - share.low, share.total)
        groups[share.from_hour, share.to_hour].append((share.project.name, part))
    return [Spread(*span, parts) for span, parts in groups.items()]
