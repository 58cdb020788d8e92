"""Reads of the lab's own nodes with GPUs: load of the last minutes, power, embodied carbon."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from uuid import UUID

from django.db.models import Q, QuerySet, Sum

from apps.accounts.models import Lab
from apps.assets.models import Asset, AssetMeter
from apps.energy.models import DeviceHour
from apps.energy.utilization import IDLE_PM
from apps.fleet.choices import DeviceKind
from apps.fleet.dated_facts import dated_intervals
from apps.fleet.models import ACTIVE, Device, Node
from apps.fleet.selectors import SILENT_AFTER_US, nodes_in_use
from apps.ingest.models import Consumer, EnergyWindow
from apps.planner.formulas.node_energy import measured_rest_power
from apps.planner.formulas.places import embodied_share
from apps.planner.formulas.ranges import Range
from apps.planner.places.place import Load

RECENT_US = 5 * 60_000_000  # before the last upload that counts as recent
REST_HOURS = 7 * 24  # whose mean is the power outside of the GPUs
_LONGEST_US = 10 * 60_000_000  # of a window that shows the present
_REST_KINDS = (DeviceKind.CPU, DeviceKind.DRAM, DeviceKind.HOST)
_UNUSED = ("idle", "overhead")


@dataclass(frozen=True)
class EmbodiedRate:
    """Embodied carbon of one asset over its life, of which a job uses ``share``."""

    total_ug: Range
    life_hours: int
    is_over: bool
    share: Fraction = Fraction(1)

    def of_time(self, time_us: Range) -> Range:
        """Return the share of service time. An asset after its life has no embodied carbon left."""
        if self.is_over:
            return Range(0, 0, 0)
        return embodied_share(self.total_ug, self.life_hours, self.share, time_us)


@dataclass(frozen=True)
class Rest:
    """Energy of a node outside of its GPUs in ``covered_us``."""

    energy_mj: int
    covered_us: int


@dataclass
class OwnNode:
    """A node in use with GPUs: the names of its GPUs by device id, and what is known of them."""

    pk: int
    uuid: UUID
    name: str
    is_silent: bool
    gpus: dict[int, str] = field(default_factory=dict)
    loads: dict[int, Load] = field(default_factory=dict)
    rest: Rest | None = None
    gpu_assets: dict[int, EmbodiedRate] = field(default_factory=dict)
    machine: EmbodiedRate | None = None


def own_nodes(lab: Lab, hour: int, now: int) -> tuple[list[OwnNode], int]:
    """Return the nodes in use with GPUs by name, and the number of those without. Six queries."""
    nodes = {
        pk: OwnNode(pk, uuid, display or host, last is None or last < now - SILENT_AFTER_US)
        for pk, uuid, host, display, last in nodes_in_use(lab).values_list(
            "pk", "uuid", "hostname", "display_name", "last_push_us"
        )
    }
    devices = Device.objects.filter(lab=lab, kind=DeviceKind.GPU, node__in=list(nodes))
    for pk, name, node_id in devices.values_list("pk", "name", "node_id").order_by("key"):
        nodes[node_id].gpus[pk] = name
    with_gpus = [node for node in nodes.values() if node.gpus]
    loads = _loads([pk for node in with_gpus for pk in node.gpus], now)
    rests = _rests(DeviceHour.objects.filter(lab=lab), hour)
    by_device, by_node = _embodied_rates(lab, with_gpus, hour)
    for node in with_gpus:
        for pk in node.gpus:
            node.loads[pk] = Load(silent=1) if node.is_silent else loads.get(pk, Load(silent=1))
        node.rest = rests.get(node.pk)
        node.gpu_assets = {pk: by_device[pk] for pk in node.gpus if pk in by_device}
        node.machine = by_node.get(node.pk)
    return with_gpus, len(nodes) - len(with_gpus)


def _loads(device_ids: Collection[int], now: int) -> dict[int, Load]:
    """Return the load of each GPU with recent windows: busy if it was used at all. Two queries."""
    windows = EnergyWindow.objects.filter(
        device__in=device_ids,
        start_us__gte=now - SILENT_AFTER_US - _LONGEST_US,
        end_us__gte=now - SILENT_AFTER_US,
    ).values_list("device_id", "end_us", "util_max_pm", "shares")
    latest: dict[int, int] = {}
    rows = list(windows)
    for device_id, end_us, _, _ in rows:
        latest[device_id] = max(end_us, latest.get(device_id, 0))
    recent = [
        (device_id, util, {int(key) for key, mj in json.loads(shares).items() if mj})
        for device_id, end_us, util, shares in rows
        if end_us > latest[device_id] - RECENT_US
    ]
    unused = set(
        Consumer.objects.filter(
            pk__in={pk for _, _, consumers in recent for pk in consumers}, kind__in=_UNUSED
        ).values_list("pk", flat=True)
    )
    busy = {
        device_id
        for device_id, util, consumers in recent
        if (util is not None and util > IDLE_PM) or consumers - unused
    }
    return {pk: Load(busy=1) if pk in busy else Load(free=1) for pk in latest}


def rest_of_node(node: Node, hour: int, used: int) -> Range | None:
    """Return the power of a node outside of its GPUs, of a job on ``used`` of them, None if it is
    not measured. Two queries.
    """
    rest = _rests(DeviceHour.objects.filter(lab=node.lab_id, node=node), hour).get(node.pk)
    if rest is None:
        return None
    gpus = Device.objects.filter(lab=node.lab_id, kind=DeviceKind.GPU, node=node).count()
    share = min(Fraction(1), Fraction(used, max(1, gpus)))
    return measured_rest_power(rest.energy_mj, rest.covered_us, share)


def _rests(hours: QuerySet[DeviceHour], hour: int) -> dict[int, Rest]:
    """Return the energy outside of the GPUs by node, of the last week. One query."""
    rows = (
        hours.filter(hour__gte=hour - REST_HOURS, hour__lt=hour)
        .values_list("node_id", "device_id")
        .annotate(
            energy=Sum("energy_mj"),
            covered=Sum("covered_us"),
            rest=Sum("energy_mj", filter=Q(device__kind__in=_REST_KINDS)),
        )
        .order_by()
    )
    energy: dict[int, int] = defaultdict(int)
    covered: dict[int, int] = defaultdict(int)
    for node_id, _, _, covered_us, rest_mj in rows:
        energy[node_id] += int(rest_mj or 0)
        covered[node_id] = max(covered[node_id], int(covered_us))
    return {
        node_id: Rest(energy_mj, covered[node_id])
        for node_id, energy_mj in energy.items()
        if energy_mj > 0 and covered[node_id]
    }


def _embodied_rates(
    lab: Lab, nodes: Iterable[OwnNode], hour: int
) -> tuple[Mapping[int, EmbodiedRate], Mapping[int, EmbodiedRate]]:
    """Return the embodied carbon of the assets by the device and by the node of their meter. One
    query.
    """
    listed = list(nodes)
    gpus = {pk for node in listed for pk in node.gpus}
    rows = AssetMeter.objects.filter(
        ACTIVE,
        Q(device__in=gpus) | Q(node__in=[node.pk for node in listed]),
        asset__lab=lab,
        asset__removed_us__isnull=True,
        asset__disposed_hour__isnull=True,
    ).select_related("asset")
    histories: dict[int, list[tuple[int, AssetMeter]]] = defaultdict(list)
    for row in rows:
        histories[row.asset_id].append((row.from_hour, row))
    by_device, by_node = dict[int, EmbodiedRate](), dict[int, EmbodiedRate]()
    for history in histories.values():
        row = next(
            row
            for start, end, row in dated_intervals(history)
            if start <= hour and (end is None or hour < end)
        )
        rate = _rate(row.asset, hour)
        if rate is not None and row.device_id is not None:
            by_device[row.device_id] = rate
        elif rate is not None and row.node_id is not None:
            by_node[row.node_id] = rate
    return by_device, by_node


def _rate(asset: Asset, hour: int) -> EmbodiedRate | None:
    start = asset.in_use_hour if asset.in_use_hour is not None else asset.bought_hour
    if asset.embodied_total_ug is None or start is None or asset.life_end_hour is None:
        return None
    total = asset.embodied_total_ug
    total_ug = Range(min(total, asset.embodied_low_ug), total, max(total, asset.embodied_high_ug))
    life_hours = asset.life_end_hour - start
    if life_hours <= 0:
        return None
    return EmbodiedRate(total_ug, life_hours, is_over=hour >= asset.life_end_hour)
