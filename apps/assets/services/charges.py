"""Derive the charges of assets from events, use, and the lab's idle policy.

The only writer of charges.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from django.db import transaction

from apps.accounts.models import Lab
from apps.assets import amortisation
from apps.assets.amortisation import Charge, Metered, Spread, Use
from apps.assets.choices import Amortisation
from apps.assets.device_usage import MS_PER_HOUR
from apps.assets.lifecycle import Event, active_events
from apps.assets.models import (
    Asset,
    AssetMeter,
    DeviceDay,
    EmbodiedCharge,
    LifecycleEvent,
    StoredVolume,
)
from apps.assets.services.settled_totals import settle
from apps.assets.signals import charged
from apps.core.clock import now_us
from apps.core.units import END_HOUR, hour_of
from apps.energy.models import IdleShare
from apps.fleet.dated_facts import dated_intervals
from apps.fleet.models import ACTIVE, Device

CHUNK = 100  # assets a transaction
NO_METER = (0, (None, None))  # before its first meter, an asset has none


def as_event(row: LifecycleEvent) -> tuple[Event, int | None]:
    """Return an event as input of the calculation, and the id of the event that it reverses."""
    return (
        Event(
            id=row.pk,
            hour=row.hour,
            kind=row.kind,
            total_ug=row.total_ug,
            end_of_life_ug=row.end_of_life_ug,
            includes_end_of_life=row.includes_end_of_life,
            life_hours=row.life_hours,
            life_end_hour=row.life_end_hour,
            amortisation=row.amortisation,
            project_id=row.project_id,
            low_ug=row.low_ug,
            high_ug=row.high_ug,
            figure_id=row.figure_id,
        ),
        row.reverses_id,
    )


def events_of(asset_ids: Sequence[int]) -> dict[int, list[Event]]:
    """Return the active events of assets, in order. One query."""
    events_by_asset: dict[int, list[tuple[Event, int | None]]] = {
        asset_id: [] for asset_id in asset_ids
    }
    for row in LifecycleEvent.objects.filter(asset_id__in=asset_ids):
        events_by_asset[row.asset_id].append(as_event(row))
    return {asset_id: active_events(events) for asset_id, events in events_by_asset.items()}


@transaction.atomic
def recharge(*, lab: Lab, asset_ids: Sequence[int], since: int = 0) -> int:
    """Derive the charges of assets and write the differences. Return the number of changed assets.

    The number of queries is fixed. ``since``: nothing changed before this hour, so only rows that
    end later are read and written.
    """
    locked_assets = list(
        Asset.objects.select_for_update(no_key=True)
        .filter(lab=lab, pk__in=asset_ids)
        .order_by("pk")
    )
    ids = [asset.pk for asset in locked_assets]
    events, spreads = events_of(ids), _spreads(lab)
    if any(
        event.amortisation == Amortisation.SCI
        for asset_events in events.values()
        for event in asset_events
    ):
        since = 0  # the amount for unused time is still to be charged
    stored_charges: dict[int, dict[Charge, int]] = {asset_id: {} for asset_id in ids}
    for row in EmbodiedCharge.objects.filter(asset_id__in=ids, to_hour__gt=since):
        stored_charges[row.asset_id][as_charge(row)] = row.pk
    begins = {  # no row crosses these hours
        asset_id: min((since, *(charge.from_hour for charge in rows)))
        for asset_id, rows in stored_charges.items()
    }
    uses, metered = uses_of(lab, ids, min(begins.values(), default=0))
    stale_ids: list[int] = []
    new: list[EmbodiedCharge] = []
    turned: dict[int, tuple[set[Charge], set[Charge]]] = {}
    changed: set[tuple[int, int]] = set()
    differing = 0
    for asset_id in ids:
        new_charges = amortisation.charges(
            events[asset_id],
            uses.get(asset_id, []),
            spreads,
            metered=metered.get(asset_id, ()),
            since=begins[asset_id],
        )
        old, now = stored_charges[asset_id], set(new_charges)
        turned[asset_id] = old.keys() - now, now - old.keys()
        differing += old.keys() != now
        stale_ids += [pk for charge, pk in old.items() if charge not in now]
        new += [_row(lab, asset_id, charge) for charge in new_charges if charge not in old]
        changed |= {(charge.from_hour, charge.to_hour) for charge in old.keys() ^ now}
    for start in range(0, len(stale_ids), 5_000):
        EmbodiedCharge.objects.filter(pk__in=stale_ids[start : start + 5_000]).delete()
    EmbodiedCharge.objects.bulk_create(new, batch_size=500)
    settle(locked_assets, turned)
    if changed:
        charged.send(
            sender=EmbodiedCharge,
            lab=lab,
            from_hour=min(changed)[0],
            to_hour=max(end for _, end in changed),
        )
    return differing


def as_charge(row: EmbodiedCharge) -> Charge:
    """Return a stored charge as a result of the calculation."""
    return Charge(row.from_hour, row.to_hour, row.amount_ug, row.project_id, row.kind)


def _row(lab: Lab, asset_id: int, charge: Charge) -> EmbodiedCharge:
    return EmbodiedCharge(
        lab=lab,
        asset_id=asset_id,
        from_hour=charge.from_hour,
        to_hour=charge.to_hour,
        project_id=charge.project_id,
        kind=charge.kind,
        amount_ug=charge.amount_ug,
    )


def recharge_lab(*, lab: Lab) -> int:
    """Derive all charges of a lab again, in chunks. Return the number of changed assets."""
    ids = list(Asset.objects.filter(lab=lab).order_by("pk").values_list("pk", flat=True))
    return sum(
        recharge(lab=lab, asset_ids=ids[start : start + CHUNK])
        for start in range(0, len(ids), CHUNK)
    )


def assets_metered_by(lab: Lab, device_ids: Iterable[int]) -> list[int]:
    """Return the assets metered by one of these devices, or by a node that measured one of them."""
    requested_ids = set(device_ids)
    nodes = (
        DeviceDay.objects.filter(lab=lab, device_id__in=requested_ids)
        .values_list("node_id", flat=True)
        .distinct()
    )
    homes = Device.objects.filter(pk__in=requested_ids).values_list("node_id", flat=True)
    meters = AssetMeter.objects.filter(ACTIVE, asset__lab=lab)
    by_device = meters.filter(device_id__in=requested_ids).values_list("asset_id", flat=True)
    by_node = meters.filter(node_id__in={*nodes, *homes}).values_list("asset_id", flat=True)
    return sorted({*by_device, *by_node})


def uses_of(
    lab: Lab, asset_ids: Sequence[int], since: int = 0
) -> tuple[dict[int, list[Use]], dict[int, list[Metered]]]:
    """Return the use of assets in days that end after ``since``, and when they have a meter."""
    metered, measured = _metered(lab, asset_ids, since)
    return _stored(asset_ids, metered, measured), metered


def _spreads(lab: Lab) -> list[Spread]:
    shares = IdleShare.objects.filter(lab=lab).order_by("from_hour", "low")
    return [
        Spread(
            from_hour,
            to_hour,
            tuple((each.project_id, each.low, each.high) for each in part),
            part[0].total,
        )
        for (from_hour, to_hour), rows in groupby(
            shares, key=lambda share: (share.from_hour, share.to_hour)
        )
        if (part := list(rows))
    ]


def _metered(
    lab: Lab, asset_ids: Sequence[int], since: int
) -> tuple[dict[int, list[Metered]], dict[int, list[Use]]]:
    """Return when assets have a meter, and their measured use in days that end after ``since``."""
    uses: dict[int, list[Use]] = {}
    spans: dict[int, list[Metered]] = defaultdict(list)
    meters: dict[int, list[tuple[int, tuple[int | None, int | None]]]] = defaultdict(
        lambda: [NO_METER]
    )
    for row in AssetMeter.objects.filter(ACTIVE, asset_id__in=asset_ids):
        meters[row.asset_id].append((row.from_hour, (row.device_id, row.node_id)))
    places = [place for history in meters.values() for _, place in history]
    devices, nodes = (
        {device for device, _ in places if device},
        {node for _, node in places if node},
    )
    by_device, by_node = _days_of(lab, devices, nodes, since)
    for asset_id, history in meters.items():
        days: list[Use] = []
        for start, end, (device_id, node_id) in dated_intervals(history):
            meter_uses = (
                by_device.get(device_id, [])
                if device_id
                else by_node.get(node_id, [])
                if node_id
                else []
            )
            stop = END_HOUR if end is None else end
            days += _clipped(meter_uses, start, stop)
            if device_id or node_id:
                spans[asset_id].append(Metered(start, stop))
        uses[asset_id] = days
    return spans, uses


def _clipped(uses: Iterable[Use], start: int, end: int) -> list[Use]:
    return [
        Use(max(use.from_hour, start), min(use.to_hour, end), use.capacity, use.measured, use.parts)
        for use in uses
        if use.from_hour < end and use.to_hour > start
    ]


def _days_of(
    lab: Lab, devices: set[int], nodes: set[int], since: int
) -> tuple[dict[int, list[Use]], dict[int, list[Use]]]:
    """Return the days of use by device and by node.

    The use of a node is that of its GPUs, or of its processors if it has no GPU.
    """
    of_device: dict[int, dict[tuple[int, int], list[DeviceDay]]] = defaultdict(
        lambda: defaultdict(list)
    )
    of_node: dict[int, dict[tuple[int, int], list[DeviceDay]]] = defaultdict(
        lambda: defaultdict(list)
    )
    rows = (
        DeviceDay.objects.filter(lab=lab, to_hour__gt=since)
        .select_related("device")
        .order_by("from_hour", "pk")
    )
    for row in rows.filter(device_id__in=devices) if devices else ():
        of_device[row.device_id][row.from_hour, row.to_hour].append(row)
    for row in rows.filter(node_id__in=nodes, device__kind__in=("gpu", "cpu")) if nodes else ():
        of_node[row.node_id][row.from_hour, row.to_hour].append(row)
    by_device = {
        key: [_use(span, device_days, 1) for span, device_days in days.items()]
        for key, days in of_device.items()
    }
    by_node = {
        key: [_use_of_node(span, device_days) for span, device_days in days.items()]
        for key, days in of_node.items()
    }
    return by_device, by_node


def _use_of_node(span: tuple[int, int], device_days: list[DeviceDay]) -> Use:
    gpus = [row for row in device_days if row.device.kind == "gpu"]
    counted_days = gpus or device_days
    return _use(span, counted_days, len({row.device_id for row in counted_days}))


def _use(span: tuple[int, int], device_days: list[DeviceDay], devices: int) -> Use:
    """Sum device-days.

    The current day counts up to the current hour, since later hours are not idle.
    """
    parts: dict[int, int] = defaultdict(int)
    for row in device_days:
        for project_id, used_ms in row.parts:
            parts[project_id] += used_ms
    capacity = max(1, min(span[1], hour_of(now_us()) + 1) - span[0]) * MS_PER_HOUR * devices
    return Use(
        *span, capacity, sum(row.measured_ms for row in device_days), tuple(sorted(parts.items()))
    )


def _stored(
    asset_ids: Sequence[int],
    metered: Mapping[int, Sequence[Metered]],
    measured: Mapping[int, Sequence[Use]],
) -> dict[int, list[Use]]:
    """Return the use of assets: measured use, and where they have no meter, by stored volume.

    Stored volume is divided at each change.
    """
    volumes: dict[int, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for row in StoredVolume.objects.filter(ACTIVE, asset_id__in=asset_ids):
        volumes[row.asset_id][row.project_id or amortisation.NOBODY_KNOWN].append(
            (row.from_hour, row.gigabytes)
        )
    uses = {asset_id: list(measured.get(asset_id, ())) for asset_id in asset_ids}
    for asset_id, asset_volumes in volumes.items():
        for start, end in _gaps(metered.get(asset_id, ())):
            uses[asset_id] += _clipped(_volumes(asset_volumes), start, end)
    return uses


def _gaps(metered: Sequence[Metered]) -> Iterable[tuple[int, int]]:
    """Yield the intervals without a meter. ``metered`` are disjoint, in order."""
    start = 0
    for span in metered:
        if start < span.from_hour:
            yield start, span.from_hour
        start = span.to_hour
    if start < END_HOUR:
        yield start, END_HOUR


def _volumes(project_spans: dict[int, list[tuple[int, int]]]) -> list[Use]:
    cuts = sorted({hour for history in project_spans.values() for hour, _ in history})
    uses = []
    for start, end in zip(cuts, [*cuts[1:], END_HOUR], strict=True):
        held = {
            project: max((hour, size) for hour, size in history if hour <= start)[1]
            for project, history in project_spans.items()
            if any(hour <= start for hour, _ in history)
        }
        whole = sum(held.values())
        if whole:
            uses.append(Use(start, end, whole, whole, tuple(sorted(held.items()))))
    return uses
