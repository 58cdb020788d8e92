"""An asset's book value over time, and charges by party and month.

Values are exact, and the same in chart, table and CSV.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from zoneinfo import ZoneInfo

from django.urls import reverse

from apps.accounts.models import Project
from apps.assets.amortisation import Charge, embodied_total_ug
from apps.assets.choices import ChargeKind
from apps.assets.lifecycle import Event
from apps.core.intervals import midnight_hour
from apps.dashboard.formatting import Unit
from apps.dashboard.periods import local

LAB, NOBODY = "~lab", "~nobody"
COLOURS = ("s1", "s2", "s3", "s4", "s5", "s6")


@dataclass(frozen=True)
class ChargedParty:
    """A party that is charged: a project, the lab itself, or unknown."""

    key: str
    name: str
    href: str
    colour: str


@dataclass(frozen=True)
class Month:
    """A month of the lab's zone, or the part of one since the purchase.

    ``balance_ug`` is the book value at its end.
    """

    from_hour: int
    to_hour: int
    parts: dict[tuple[str, str], int]  # (party's key, kind): µg
    balance_ug: int

    def charged_ug(self, key: str) -> int:
        return sum(
            part
            for (who, kind), part in self.parts.items()
            if who == key and kind != ChargeKind.WRITTEN_OFF
        )

    @property
    def written_off_ug(self) -> int:
        return sum(part for (_, kind), part in self.parts.items() if kind == ChargeKind.WRITTEN_OFF)


@dataclass(frozen=True)
class Life:
    """Months from the purchase to now, and book values at past and planned hours."""

    months: list[Month]
    past: list[tuple[int, int]]
    ahead: list[tuple[int, int]]
    charged_parties: list[ChargedParty]

    def value_at(self, hour: int) -> int:
        """Return the book value at the last point up to ``hour``."""
        index = bisect_right([point for point, _ in self.past], hour) - 1
        return self.past[max(0, index)][1] if self.past else 0


def charged_party_key(project: Project | None, kind: str) -> str:
    """Return the key of the charged party: a project's slug, LAB, or NOBODY (project unknown)."""
    return project.slug if project else NOBODY if kind == ChargeKind.USED else LAB


def charged_parties_of(amounts: dict[str, int], projects: Iterable[Project]) -> list[ChargedParty]:
    """Return the charged parties: projects by amount, then the lab, then unknown."""
    names = {project.slug: project.name for project in projects}
    order = sorted(
        (key for key in amounts if key not in (LAB, NOBODY)), key=lambda key: (-amounts[key], key)
    )
    listed = [
        ChargedParty(
            key,
            names.get(key, key),
            reverse("project", args=[key]),
            COLOURS[i] if i < len(COLOURS) else "s-more",
        )
        for i, key in enumerate(order)
    ]
    if LAB in amounts:
        listed.append(ChargedParty(LAB, "The lab", "", "s-idle"))
    if NOBODY in amounts:
        listed.append(
            ChargedParty(NOBODY, "Unattributed", reverse("unattributed"), "s-unattributed")
        )
    return listed


def life_of(
    *,
    events: Sequence[Event],
    charges: Sequence[tuple[Charge, str]],
    projects: Iterable[Project],
    zone: ZoneInfo,
    hour: int,
) -> Life:
    """Return a lifecycle up to ``hour``, and as planned after it.

    ``charges`` are (charge, party's key). ``events`` are active.
    """
    started = [event for event in events if event.hour < hour]
    if not started:
        return Life([], [], [], [])
    edges = _months(started[0].hour, hour, zone)
    marks = {event.hour + more for event in started for more in (0, 1)}
    points = sorted({point for point in (*edges, *marks) if point <= hour} | {hour})
    end = max((charge.to_hour for charge, _ in charges), default=hour)
    coming = sorted({hour, *_months(hour, end, zone)[::6], end}) if end > hour else []
    all_charges = [charge for charge, _ in charges]
    months = _filled(edges, charges, _values(events, all_charges, edges))
    amounts: dict[str, int] = defaultdict(int)
    for month in months:
        for (who, kind), part in month.parts.items():
            amounts[who] += part if kind != ChargeKind.WRITTEN_OFF else 0
    charged_amounts = {key: amount for key, amount in amounts.items() if amount}
    return Life(
        months,
        _values(events, all_charges, points),
        _values(events, all_charges, coming),
        charged_parties_of(charged_amounts, projects),
    )


def _months(first: int, end: int, zone: ZoneInfo) -> list[int]:
    """Return the edges of the months of ``zone`` in ``[first, end)``, including both ends."""
    edges, day = [first], local(first, zone).date()
    while edges[-1] < end:
        day = date(day.year + day.month // 12, day.month % 12 + 1, 1)
        edges.append(min(end, max(edges[-1] + 1, midnight_hour(day, zone))))
    return edges


def _cut(
    charges: Iterable[tuple[Charge, str]], edges: Sequence[int]
) -> Iterable[tuple[int, str, str, int]]:
    """Yield (piece of ``edges``, party, kind, µg) of charges."""
    for charge, who in charges:
        piece = max(0, bisect_right(edges, charge.from_hour) - 1)
        while piece < len(edges) - 1 and edges[piece] < charge.to_hour:
            part = charge.within(edges[piece], edges[piece + 1])
            if part:
                yield piece, who, charge.kind, part
            piece += 1


def _values(
    events: Sequence[Event], charges: Sequence[Charge], points: Sequence[int]
) -> list[tuple[int, int]]:
    """Return (hour, book value) at ascending ``points``."""
    piece_sums = [0] * len(points)
    edges = [0, *points]
    for piece, _, _, part in _cut(((charge, "") for charge in charges), edges):
        piece_sums[piece] += part
    values, charged_total = [], 0
    for point, part in zip(points, piece_sums, strict=True):
        charged_total += part
        values.append((point, embodied_total_ug(events, point) - charged_total))
    return values


def _filled(
    edges: list[int], charges: Sequence[tuple[Charge, str]], values: list[tuple[int, int]]
) -> list[Month]:
    parts: dict[int, dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for piece, who, kind, part in _cut(charges, edges):
        parts[piece][who, kind] += part
    return [
        Month(start, end, dict(parts[i]), values[i + 1][1])
        for i, (start, end) in enumerate(pairwise(edges))
    ]


def month_name(month: Month, zone: ZoneInfo) -> str:
    """Return 'Nov 2026'."""
    return f"{local(month.from_hour, zone):%b %Y}"


def in_unit(value: int, unit: Unit) -> float:
    """Return µg in ``unit``, for a chart."""
    return value / unit.divisor
