"""Changes of emissions that no person caused: new editions of factors, and zones that are read
otherwise. Each writes an audit entry with the emissions of each month before and after.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from zoneinfo import ZoneInfo

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import AuditEntry, Lab
from apps.carbon.factors import energy_hours_of
from apps.carbon.figures.energy import Figure, figure
from apps.carbon.figures.factor_spans import Span, changes
from apps.carbon.figures.figure_query import FigureQuery
from apps.carbon.models import EmissionFactor
from apps.core.intervals import midnight_hour
from apps.core.units import UG_PER_G
from apps.fleet.models import Placement, SiteZone
from apps.fleet.selectors import unlisted_zones

_MAX_EDITIONS = 50


@dataclass(frozen=True)
class Repricing:
    """Hours of nodes whose factor changes: pairs (id before, id after), None: no factor."""

    from_hour: int
    to_hour: int
    pairs: frozenset[tuple[int | None, int | None]]


@dataclass(frozen=True)
class Month:
    """A month of the lab's zone in whole UTC hours."""

    name: str
    from_hour: int
    to_hour: int


def find_repricing(
    lab: Lab, before: Mapping[int, Sequence[Span]], after: Mapping[int, Sequence[Span]]
) -> Repricing | None:
    """Return the hours with energy whose factor changes without an action of a person, or None."""
    changed = [
        (node_id, change)
        for node_id in before.keys() & after.keys()
        if before[node_id] != after[node_id] and _hours(before[node_id]) == _hours(after[node_id])
        for change in changes(before[node_id], after[node_id])
    ]
    if not changed:
        return None
    factors = EmissionFactor.objects.in_bulk(
        {
            side.factor_id
            for _, change in changed
            for side in (change.before, change.after)
            if side.factor_id is not None
        }
    )
    is_unlisted, decided_us = bool(unlisted_zones(lab)), _last_decision_us(lab)

    def is_new_edition(old_id: int | None, new_id: int | None) -> bool:
        old, new = (factors.get(side) if side is not None else None for side in (old_id, new_id))
        if old is not None and new is not None:
            is_loaded_since = (
                new.loaded_us > decided_us
            )  # a zone that had the factor of its country
            return old_id != new_id and (old.zone == new.zone or is_loaded_since or is_unlisted)
        if new is not None:  # the first factor of a zone
            return new.loaded_us > decided_us
        return old is not None and is_unlisted

    own = [
        (node_id, change)
        for node_id, change in changed
        if is_new_edition(change.before.factor_id, change.after.factor_id)
    ]
    hours = energy_hours_of({node_id for node_id, _ in own})
    if hours is None:
        return None
    from_hour = max(hours[0], min(change.from_hour for _, change in own))
    to_hour = min(hours[1], max(change.to_hour for _, change in own))
    if from_hour >= to_hour:
        return None
    pairs = frozenset((change.before.factor_id, change.after.factor_id) for _, change in own)
    return Repricing(from_hour, to_hour, pairs)


def _hours(spans: Sequence[Span]) -> tuple[int, int] | None:
    """Return the hours that adjacent spans cover."""
    return (spans[0].from_hour, spans[-1].to_hour) if spans else None


def _last_decision_us(lab: Lab) -> int:
    """Return when a person last chose a zone or placed a node, 0 if that is unknown."""
    zones = SiteZone.objects.filter(site__lab=lab, recorded_us__isnull=False)
    places = Placement.objects.filter(site__lab=lab, recorded_us__isnull=False)
    times = [
        rows.order_by("-recorded_us").values_list("recorded_us", flat=True).first()
        for rows in (zones, places)
    ]
    return max((moment for moment in times if moment is not None), default=0)


def months_of(lab: Lab, from_hour: int, to_hour: int) -> list[Month]:
    """Return the months of the lab's zone that overlap ``[from_hour, to_hour)``."""
    zone = ZoneInfo(lab.time_zone)
    first = datetime.fromtimestamp(from_hour * 3600, tz=zone).date().replace(day=1)
    result: list[Month] = []
    while (start := midnight_hour(first, zone)) < to_hour:
        after = date(first.year + first.month // 12, first.month % 12 + 1, 1)
        end = midnight_hour(after, zone)
        if end > from_hour:
            result.append(Month(f"{first:%Y-%m}", start, end))
        first = after
    return result


def month_figures(lab: Lab, months: Sequence[Month]) -> dict[str, Figure]:
    """Return the figure of the lab in each month, as pages show it."""
    return {
        month.name: figure(
            lab,
            FigureQuery(
                metric="emission_ug",
                from_hour=month.from_hour,
                to_hour=month.to_hour,
                basis=lab.basis,
            ),
        )
        for month in months
    }


def record_repricing(
    lab: Lab,
    repricing: Repricing,
    before: Mapping[str, Figure],
    after: Mapping[str, Figure],
    now: int,
) -> None:
    """Write the audit entry of a repricing, unless no figure changed."""
    details: dict[str, object] = {}
    for name, old in before.items():
        new = after[name]
        if old.emission_ug != new.emission_ug:
            details[f"{name}_ug"] = {"from": old.emission_ug, "to": new.emission_ug}
        if old.without_factor_mj != new.without_factor_mj:
            details[f"{name} without factor_mj"] = {
                "from": old.without_factor_mj,
                "to": new.without_factor_mj,
            }
    if not details:
        return
    factors = EmissionFactor.objects.in_bulk(
        {side for pair in repricing.pairs for side in pair if side is not None}
    )
    texts = sorted(
        (_text(factors, old_id), _text(factors, new_id)) for old_id, new_id in repricing.pairs
    )
    for number, (old_text, new_text) in enumerate(texts[:_MAX_EDITIONS], 1):
        details[f"factor {number}"] = {"from": old_text, "to": new_text}
    audit.record(
        lab=lab,
        by=None,
        action=Act.FACTORS_CHANGED,
        subject=f"{len(texts)} factors" if len(texts) > 1 else "1 factor",
        details=details,
        now=now,
    )


def _text(factors: Mapping[int, EmissionFactor], factor_id: int | None) -> str:
    factor = factors.get(factor_id) if factor_id is not None else None
    if factor is None:
        return ""
    value = "by hour" if factor.ug_per_kwh is None else f"{factor.ug_per_kwh / UG_PER_G:g} g/kWh"
    return f"{factor.zone} {factor.period}, edition {factor.edition}: {value}"


@dataclass(frozen=True)
class MonthChange:
    """A month whose emissions an edition changed, before and after."""

    month: Month
    before_ug: int
    after_ug: int


def recent_repricings(lab: Lab, *, since_us: int) -> list[tuple[int, list[MonthChange]]]:
    """Return (time, changed months) of the audit entries since a time, newest first. One query."""
    entries = AuditEntry.objects.filter(
        lab=lab, action=Act.FACTORS_CHANGED, at_us__gte=since_us
    ).order_by("-sequence")
    return [
        (
            entry.at_us,
            [
                MonthChange(_month(lab, name[:7]), change["from"], change["to"])
                for name, change in sorted(entry.details.items())
                if name.endswith("_ug")
            ],
        )
        for entry in entries
    ]


def _month(lab: Lab, name: str) -> Month:
    first = date.fromisoformat(f"{name}-01")
    hour = midnight_hour(first, ZoneInfo(lab.time_zone))
    return months_of(lab, hour, hour + 1)[-1]
