"""Propose discovered, unregistered hardware as assets with catalogue figures. Nothing is stored."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import Lab
from apps.assets.choices import AssetState
from apps.assets.models import Asset, AssetMeter, DismissedProposal
from apps.assets.services.validation import default_life_hours
from apps.assets.spreadsheets.catalog_match import Known, Matcher
from apps.catalog.choices import HardwareKind
from apps.fleet.choices import DeviceKind, SiteKind
from apps.fleet.models import ACTIVE, Device, Node, Placement, Site

_DISK = re.compile(r"(\d{1,4}) × ([^;()]{1,60}) \((SSD|HDD), (\d{1,9}) GB\)")
MACHINES = (HardwareKind.SERVER, HardwareKind.WORKSTATION, HardwareKind.LAPTOP)


@dataclass(frozen=True)
class DiscoveredDisk:
    """Discovered built-in disks of one model, with the catalogue figure of one disk."""

    number: int
    name: str
    capacity_gb: int
    known: Known


@dataclass(frozen=True)
class Proposal:
    """A device or a node that can be registered as an asset.

    ``like``: registered assets without a meter that may be the same hardware. ``same``: the
    registered asset with the same serial number or name. ``disks``: disks of a machine, for
    information only, since the figure of a machine includes its disks.
    """

    key: str
    kind: str
    name: str
    reported: str
    serial: str
    known: Known
    since_us: int
    life_hours: int
    node: Node
    site: Site | None
    device: Device | None = None
    dismissed: bool = False
    like: tuple[Asset, ...] = ()
    same: Asset | None = None
    disks: tuple[DiscoveredDisk, ...] = ()


def proposals(lab: Lab) -> list[Proposal]:
    """Return the proposals: each node, followed by its GPUs.

    The number of queries is fixed, except for model lookups by name.
    """
    metered_devices, metered_nodes = _metered(lab)
    dismissed = DismissedProposal.objects.filter(lab=lab)
    dismissed_keys = {(row.device_id, row.node_id) for row in dismissed}
    nodes = list(Node.objects.filter(lab=lab, virtual=False).order_by("hostname", "pk"))
    gpus: dict[int, list[Device]] = defaultdict(list)
    for device in Device.objects.filter(lab=lab, kind=DeviceKind.GPU).order_by("key"):
        if device.pk not in metered_devices:
            gpus[device.node_id].append(device)
    maker = _Maker(lab)
    proposals_: list[Proposal] = []
    for node in nodes:
        if node.pk not in metered_nodes:
            proposals_.append(maker.of_node(node, dismissed=(None, node.pk) in dismissed_keys))
        proposals_ += [
            maker.of_gpu(device, node, dismissed=(device.pk, None) in dismissed_keys)
            for device in gpus[node.pk]
        ]
    return proposals_


def registered_keys(lab: Lab, keys: Collection[str]) -> set[str]:
    """Return those of ``keys`` (of proposals) whose device or node is the meter of an asset."""
    devices, nodes = _metered(lab)
    registered = {f"device:{pk}" for pk in devices} | {f"node:{pk}" for pk in nodes}
    return registered & set(keys)


def _metered(lab: Lab) -> tuple[set[int | None], set[int | None]]:
    meters = list(
        AssetMeter.objects.filter(ACTIVE, asset__lab=lab).values_list("device_id", "node_id")
    )
    return {device for device, _ in meters}, {node for _, node in meters}


def _names(reported: str) -> tuple[str, ...]:
    """Return names to look up: the reported one, and the same without the manufacturer.

    Example: "Dell Inc. PowerEdge R740", "PowerEdge R740".
    """
    words = reported.split()
    return tuple(" ".join(words[i:]) for i in range(min(3, len(words))))


class _Maker:
    def __init__(self, lab: Lab) -> None:
        self._matcher = Matcher(lab)
        placed = (
            Placement.objects.filter(ACTIVE, node__lab=lab)
            .select_related("site")
            .order_by("from_hour")
        )
        self._sites: dict[int, Site] = {placement.node_id: placement.site for placement in placed}
        metered = AssetMeter.objects.filter(ACTIVE, asset__lab=lab).values("asset_id")
        free = Asset.objects.filter(lab=lab, kind__in=(HardwareKind.GPU, *MACHINES)).exclude(
            pk__in=metered
        )
        free = (
            free.exclude(state=AssetState.DISPOSED).select_related("parent").order_by("name", "pk")
        )
        self._free: list[Asset] = list(free)
        self._by_serial = {asset.serial: asset for asset in self._free if asset.serial}
        self._hosts = {asset.name.lower(): asset for asset in self._free if asset.kind in MACHINES}

    def of_node(self, node: Node, *, dismissed: bool) -> Proposal:
        """Return a node as a machine.

        Its kind is that of its model. Otherwise it is a workstation if its site is an office, else
        a server.
        """
        site = self._sites.get(node.pk)
        office = site is not None and site.kind == SiteKind.WORKSTATION
        facts: dict[str, Any] = node.facts
        reported = str(facts.get("product", ""))[:200]
        names = _names(reported)
        model_kind = self._matcher.kind(names)
        kind = HardwareKind.WORKSTATION if office else HardwareKind.SERVER
        kind = HardwareKind(model_kind) if model_kind in MACHINES else kind
        serial = str(facts.get("serial", ""))[:120]
        same = self._by_serial.get(serial) or self._hosts.get(node.hostname.lower())
        same = same or self._hosts.get(node.hostname.lower().partition(".")[0])
        return Proposal(
            f"node:{node.pk}",
            kind,
            node.hostname[:200],
            reported,
            serial,
            self._matcher.known(kind, names, "", None),
            node.enrolled_us,
            default_life_hours(kind),
            node,
            site,
            dismissed=dismissed,
            same=same,
            like=tuple(asset for asset in self._free if asset.kind in MACHINES)[:50],
            disks=tuple(self._disks(str(facts.get("disks", "")))),
        )

    def _disks(self, disk_list: str) -> Iterator[DiscoveredDisk]:
        """Yield disks as collectors report them (docs/collector.md): ``2 × MODEL (SSD, 2000 GB);
        1 × …``.
        """
        for number, name, category, capacity_gb in _DISK.findall(disk_list):
            known = self._matcher.known(
                HardwareKind.STORAGE, (name,), category.lower(), int(capacity_gb)
            )
            yield DiscoveredDisk(int(number), name, int(capacity_gb), known)

    def of_gpu(self, device: Device, node: Node, *, dismissed: bool) -> Proposal:
        uuid = device.key.partition(":")[2]
        serial = str(device.facts.get("serial", "") or uuid)[:120]
        known = self._matcher.known(
            HardwareKind.GPU, (device.name,) if device.name else (), "", None
        )
        name = f"{device.name or 'GPU'} in {node.hostname[:100]} ({uuid[-4:]})"
        model = known.model
        like = [
            asset
            for asset in self._free
            if asset.kind == HardwareKind.GPU and (not model or asset.model_id in (None, model.pk))
        ]
        same = self._by_serial.get(serial) or self._by_serial.get(uuid)
        return Proposal(
            f"device:{device.pk}",
            HardwareKind.GPU,
            name[:200],
            device.name,
            serial,
            known,
            node.enrolled_us,
            default_life_hours(HardwareKind.GPU),
            node,
            self._sites.get(node.pk),
            device,
            dismissed,
            tuple(like[:50]),
            same,
        )
