"""Calculation of a charge: lifecycle event, rate and share of use, and the figures of the
assets.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isqrt
from typing import Any

from django.urls import reverse

from apps.accounts.models import Lab
from apps.assets.amortisation import Charge
from apps.assets.choices import OPENING, Amortisation, ChargeKind, EventKind
from apps.assets.lifecycle import active_events
from apps.assets.models import AssetMeter, DeviceDay, EmbodiedCharge, LifecycleEvent, StoredVolume
from apps.assets.services.charges import as_charge, as_event
from apps.carbon.figures.embodied_rate import Rate, rate_at
from apps.core.units import US_PER_HOUR
from apps.dashboard.formatting import (
    figure_text,
    format_value,
    grouped,
    percent,
    significant,
    unit_for,
)
from apps.fleet.dated_facts import dated_intervals, value_at
from apps.fleet.models import ACTIVE

MAX_DAYS = 40
MS_PER_HOUR = 3_600_000
IMMEDIATE_KINDS = (ChargeKind.WRITTEN_OFF, ChargeKind.END_OF_LIFE)


@dataclass(frozen=True)
class UseLine:
    """A device-day, or a stored volume, of a share of use."""

    name: str
    from_us: int
    to_us: int
    measured: str
    parts: str


@dataclass(frozen=True)
class ChargeView:
    """The calculation of one charge, with integers as text. ``rate`` None: charged at once, not
    over time.
    """

    asset: str
    asset_href: str
    kind: str
    entry: str
    entry_us: int | None
    amortisation: str
    rate: Rate | None
    balance: str
    rate_hours: str
    from_us: int
    to_us: int
    hours: str
    whole: str
    share: str
    amount: str
    in_hours: str
    part: str
    use: list[UseLine]
    use_text: str


@dataclass(frozen=True)
class SourceView:
    """The figure of the embodied carbon of an asset."""

    asset: str
    asset_href: str
    event: LifecycleEvent
    total: str
    range: str
    parts: str


def _grams(ug: int) -> str:
    return figure_text("embodied_ug", ug)


def charge_view(lab: Lab, row: Mapping[str, Any], start: int, until: int) -> ChargeView:
    """Return the calculation of a charge in ``[start, until)``. A fixed number of queries."""
    asset_id, from_hour, to_hour = row["asset_id"], row["from_hour"], row["to_hour"]
    rows = {row.pk: row for row in LifecycleEvent.objects.filter(asset_id=asset_id)}
    events = active_events([as_event(row) for row in rows.values()])
    charges = [as_charge(row) for row in EmbodiedCharge.objects.filter(asset_id=asset_id)]
    is_immediate = row["kind"] in IMMEDIATE_KINDS
    rate = None if is_immediate else rate_at(events, charges, from_hour)
    entry = (
        rows[rate.event_id]
        if rate
        else _last(rows, [event.id for event in events], from_hour, is_immediate)
    )
    whole = sum(charge.amount_ug for charge in charges if _same_hours(charge, from_hour, to_hour))
    amortisation = next(
        (
            event.amortisation
            for event in reversed(events)
            if event.amortisation and event.hour <= from_hour
        ),
        "",
    )
    use, use_text = _use(lab, asset_id, max(from_hour, start), min(to_hour, until))
    return ChargeView(
        asset=row["asset"],
        asset_href=reverse("asset", args=[asset_id]),
        kind=str(ChargeKind(row["kind"]).label),
        entry=str(EventKind(entry.kind).label) if entry else "",
        entry_us=entry.hour * US_PER_HOUR if entry else None,
        amortisation=str(Amortisation(amortisation or Amortisation.LINEAR).label),
        rate=rate,
        balance=grouped(rate.balance_ug) if rate else "",
        rate_hours=grouped(rate.to_hour - rate.from_hour) if rate else "",
        from_us=from_hour * US_PER_HOUR,
        to_us=to_hour * US_PER_HOUR,
        hours=grouped(to_hour - from_hour),
        whole=grouped(rate.over(from_hour, to_hour) if rate else whole),
        share=percent(row["amount_ug"], rate.over(from_hour, to_hour) if rate else whole),
        amount=grouped(row["amount_ug"]),
        in_hours=grouped(min(to_hour, until) - max(from_hour, start)),
        part=grouped(row["part_ug"]),
        use=use,
        use_text=use_text,
    )


def _same_hours(charge: Charge, from_hour: int, to_hour: int) -> bool:
    return (charge.from_hour, charge.to_hour) == (
        from_hour,
        to_hour,
    ) and charge.kind not in IMMEDIATE_KINDS


def _last(
    rows: Mapping[int, LifecycleEvent], ids: Sequence[int], hour: int, is_immediate: bool
) -> LifecycleEvent | None:
    before = [rows[pk] for pk in ids if rows[pk].hour <= hour]
    if is_immediate:
        before = [row for row in before if row.kind == EventKind.DISPOSE]
    return before[-1] if before else None


def _use(lab: Lab, asset_id: int, from_hour: int, to_hour: int) -> tuple[list[UseLine], str]:
    """Return the device-days or volumes that determine the use of an asset, and a description."""
    names = dict(lab.projects.values_list("pk", "slug"))
    meters = AssetMeter.objects.filter(ACTIVE, asset_id=asset_id).select_related("device", "node")
    meter = value_at([(row.from_hour, row) for row in meters], from_hour)
    if meter is not None and (meter.device_id or meter.node_id):
        days = DeviceDay.objects.filter(
            lab=lab, from_hour__lt=to_hour, to_hour__gt=from_hour
        ).select_related("device")
        if meter.device is not None:
            days, source_text = days.filter(device=meter.device), f"device {meter.device}"
        else:
            days, source_text = (
                days.filter(node=meter.node, device__kind__in=("gpu", "cpu")),
                f"the devices of {meter.node}",
            )
        listed = list(days.order_by("from_hour", "device__key")[:MAX_DAYS])
        description = (
            f"Use is measured by {source_text}: device-hours per day, reserved if known, else used."
        )
        return [
            _day(day, names) for day in listed
        ], description if listed else f"{description} No measurements in these hours."
    return _stored(asset_id, from_hour, to_hour, names)


def _day(day: DeviceDay, names: Mapping[int, str]) -> UseLine:
    parts = ", ".join(f"{names.get(pk, 'unattributed')} {_hours(ms)}" for pk, ms in day.parts)
    idle = day.measured_ms - sum(ms for _, ms in day.parts)
    parts_text = f"{parts}{', ' if parts else ''}idle {_hours(idle)}" if idle > 0 else parts
    return UseLine(
        day.device.name or day.device.key,
        day.from_hour * US_PER_HOUR,
        day.to_hour * US_PER_HOUR,
        _hours(day.measured_ms),
        parts_text,
    )


def _hours(ms: int) -> str:
    return f"{significant(Decimal(ms) / MS_PER_HOUR)} h"


def _stored(
    asset_id: int, from_hour: int, to_hour: int, names: Mapping[int, str]
) -> tuple[list[UseLine], str]:
    volumes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in StoredVolume.objects.filter(ACTIVE, asset_id=asset_id):
        volumes[row.project_id or 0].append((row.from_hour, row.gigabytes))
    lines = []
    for project, history in volumes.items():
        first = min(hour for hour, _ in history)
        for start, end, size in dated_intervals(history):
            low, high = max(start, first, from_hour), to_hour if end is None else min(end, to_hour)
            if size and low < high:
                name = names.get(project, "unattributed")
                lines.append(
                    UseLine(name, low * US_PER_HOUR, high * US_PER_HOUR, f"{grouped(size)} GB", "")
                )
    if lines:
        return lines, "Use is the volume that projects store on it."
    return [], "It has no meter, so it is charged to its owner."


def sources_of(lab: Lab, asset_ids: Collection[int]) -> list[SourceView]:
    """Return the figures of assets. One query."""
    rows = LifecycleEvent.objects.filter(
        asset_id__in=asset_ids, asset__lab=lab, total_ug__isnull=False, reversed_by__isnull=True
    ).select_related("asset", "figure", "figure__model")
    return [_source(row) for row in rows.order_by("asset__name", "asset_id", "hour", "id")]


def _source(row: LifecycleEvent) -> SourceView:
    parts = [
        f"{name} {_grams(value)}"
        for name, value in (
            ("manufacture", row.manufacture_ug),
            ("transport", row.transport_ug),
            ("end of life", row.end_of_life_ug),
        )
        if value is not None
    ]
    if row.includes_end_of_life is not None and row.end_of_life_ug is None:
        parts.append(f"end of life {'included' if row.includes_end_of_life else 'not included'}")
    known = row.low_ug is not None and row.high_ug is not None
    return SourceView(
        row.asset.name,
        reverse("asset", args=[row.asset_id]),
        row,
        _grams(row.total_ug or 0),
        f"{_grams(row.low_ug or 0)} – {_grams(row.high_ug or 0)}" if known else "unknown",
        ", ".join(parts) or "parts unknown",
    )


def range_of(lab: Lab, by_asset: Mapping[int, int]) -> str:
    """Return the range of a sum over assets, '' for no known range. Errors of one catalogue
    figure add. Errors of different figures combine in quadrature. One query.
    """
    rows = LifecycleEvent.objects.filter(
        asset__lab=lab,
        kind__in=OPENING,
        reversed_by__isnull=True,
        total_ug__gt=0,
        low_ug__isnull=False,
        high_ug__isnull=False,
    )
    down: dict[tuple[str, int], int] = defaultdict(int)
    up: dict[tuple[str, int], int] = defaultdict(int)
    for asset_id, figure_id, total, low, high in rows.values_list(
        "asset_id", "figure_id", "total_ug", "low_ug", "high_ug"
    ):
        if not total or low is None or high is None:
            continue
        part = by_asset.get(asset_id, 0)
        source = ("figure", figure_id) if figure_id else ("asset", asset_id)
        down[source] += part * (total - low) // total
        up[source] += part * (high - total) // total
    whole = sum(by_asset.values())
    low_ug, high_ug = (
        isqrt(sum(value * value for value in errors.values())) for errors in (down, up)
    )
    if not low_ug and not high_ug:
        return ""
    unit = unit_for("embodied_ug", [whole + high_ug])
    return (
        " – ".join(format_value(value, unit) for value in (whole - low_ug, whole + high_ug))
        + f" {unit.name}"
    )
