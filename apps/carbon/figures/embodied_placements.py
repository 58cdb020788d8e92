"""Assets of a node or a device over time: assets metered by it, and their parts."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from apps.accounts.models import Lab
from apps.assets.choices import OPENING, EventKind
from apps.assets.lifecycle import active_events
from apps.assets.models import AssetMeter, DeviceDay, LifecycleEvent
from apps.assets.services.charges import NO_METER, as_event
from apps.core.units import END_HOUR
from apps.fleet.dated_facts import dated_intervals
from apps.fleet.models import ACTIVE, Device


@dataclass(frozen=True)
class AssetStay:
    """Placement of an asset over ``[from_hour, to_hour)``."""

    asset_id: int
    from_hour: int
    to_hour: int

    def within(self, from_hour: int, to_hour: int) -> "AssetStay | None":
        """Return the part in ``[from_hour, to_hour)``, None if there is none."""
        start, end = max(self.from_hour, from_hour), min(self.to_hour, to_hour)
        return AssetStay(self.asset_id, start, end) if start < end else None


def asset_stays(lab: Lab, kind: str, key: str) -> list[AssetStay]:
    """Return the placements of assets metered by a node (``key``: UUID) or device, with parts.

    They are disjoint for each asset. The number of queries does not depend on the number of rows.
    """
    meters: dict[int, list[tuple[int, tuple[int | None, int | None]]]] = defaultdict(
        lambda: [NO_METER]
    )
    for row in AssetMeter.objects.filter(ACTIVE, asset__lab=lab):
        meters[row.asset_id].append((row.from_hour, (row.device_id, row.node_id)))
    if not meters:
        return []
    if kind == "device":
        devices = Device.objects.filter(lab=lab, key=key).values_list("pk", flat=True)
        at = {pk: [(0, END_HOUR)] for pk in devices}
        node_id = None
    else:
        node_id = lab.nodes.filter(uuid=key).values_list("pk", flat=True).first()
        at = _node_spans(lab, node_id) if node_id is not None else {}
    found: list[AssetStay] = []
    metered: dict[int, list[tuple[int, int]]] = {}
    for asset_id, history in meters.items():
        metered[asset_id] = []
        for start, end, (device_id, by_node) in dated_intervals(history):
            stop = END_HOUR if end is None else end
            if device_id or by_node:
                metered[asset_id].append((start, stop))
            spans = (
                [(0, END_HOUR)]
                if by_node is not None and by_node == node_id
                else at.get(device_id or 0, [])
            )
            stays = (AssetStay(asset_id, low, high).within(start, stop) for low, high in spans)
            found += [stay for stay in stays if stay is not None]
    return _join_stays([*found, *_parts(lab, found, metered)])


def _node_spans(lab: Lab, node_id: int) -> dict[int, list[tuple[int, int]]]:
    """Return the intervals of each device in a node.

    A device is in the node from its first measurement until it is measured in another node. An
    unmeasured device is in its current node.
    """
    seen = DeviceDay.objects.filter(lab=lab, node_id=node_id).values("device_id")
    days = DeviceDay.objects.filter(lab=lab, device_id__in=seen).order_by(
        "device_id", "from_hour", "node_id"
    )
    found: dict[int, list[tuple[int, int]]] = {}
    for device_id, device_rows in groupby(
        days.values_list("device_id", "from_hour", "node_id"), key=lambda row: row[0]
    ):
        history: list[tuple[int, int]] = []
        for hour, same in groupby(device_rows, key=lambda row: row[1]):
            nodes = [row[2] for row in same]
            last = history[-1][1] if history else None
            new = next(
                (node for node in nodes if node != last), nodes[0]
            )  # day of a move: new node
            if new != last:
                history.append((hour, new))
        found[device_id] = [
            (s, END_HOUR if e is None else e)
            for s, e, node in dated_intervals(history)
            if node == node_id
        ]
    unseen = Device.objects.filter(lab=lab, node_id=node_id).exclude(pk__in=found)
    return found | {pk: [(0, END_HOUR)] for pk in unseen.values_list("pk", flat=True)}


def _parts(
    lab: Lab, machines: Sequence[AssetStay], metered: dict[int, list[tuple[int, int]]]
) -> Iterable[AssetStay]:
    """Yield the intervals in which assets without their own meter were parts of these machines."""
    inside = LifecycleEvent.objects.filter(asset__lab=lab, parent__isnull=False).values("asset_id")
    built: dict[int, list[LifecycleEvent]] = defaultdict(list)
    for row in LifecycleEvent.objects.filter(asset_id__in=inside).order_by("asset_id", "id"):
        built[row.asset_id].append(row)
    within: dict[int, list[tuple[int, int, int]]] = {  # machine → (part, from, to)
        machine.asset_id: [] for machine in machines
    }
    for asset_id, events in built.items():
        for start, end, parent_id in _built_into(events):
            for low, high in _subtract_interval(start, end, metered.get(asset_id, [])):
                within.setdefault(parent_id, []).append((asset_id, low, high))
    reached, listed = set[AssetStay](), list(machines)
    while listed:  # parts of parts: no asset contains itself
        machine = listed.pop()
        for asset_id, low, high in within.get(machine.asset_id, ()):
            part = AssetStay(asset_id, low, high).within(machine.from_hour, machine.to_hour)
            if part is not None and part not in reached:
                reached.add(part)
                listed.append(part)
    return reached


def _built_into(rows: Sequence[LifecycleEvent]) -> list[tuple[int, int, int]]:
    """Return (from, to, machine) of an asset's placements in machines, by its active events."""
    by_id = {row.pk: row for row in rows}
    stays: list[tuple[int, int | None]] = []
    for event in active_events([as_event(row) for row in rows]):
        row = by_id[event.id]
        if row.kind in (*OPENING, EventKind.DEPLOY, EventKind.MOVE) and (
            row.parent_id or row.site_id or row.kind == EventKind.MOVE
        ):
            stays.append((row.hour, row.parent_id))
        elif row.kind == EventKind.DISPOSE:
            stays.append((row.hour, None))
    ends = [hour for hour, _ in stays[1:]] + [END_HOUR]
    return [
        (start, end, parent)
        for (start, parent), end in zip(stays, ends, strict=True)
        if parent and start < end
    ]


def _subtract_interval(
    start: int, end: int, taken: Sequence[tuple[int, int]]
) -> Iterable[tuple[int, int]]:
    """Yield the parts of ``[start, end)`` outside the disjoint intervals ``taken``."""
    for low, high in sorted(taken):
        if start < min(low, end):
            yield start, min(low, end)
        start = max(start, high)
    if start < end:
        yield start, end


def _join_stays(found: Iterable[AssetStay]) -> list[AssetStay]:
    """Return the placements with adjacent and overlapping ones of an asset merged."""
    result: list[AssetStay] = []
    for one in sorted(found, key=lambda s: (s.asset_id, s.from_hour, s.to_hour)):
        last = result[-1] if result else None
        if last is not None and last.asset_id == one.asset_id and one.from_hour <= last.to_hour:
            result[-1] = AssetStay(last.asset_id, last.from_hour, max(last.to_hour, one.to_hour))
        else:
            result.append(one)
    return result
