"""Reads of fleet."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import FilteredRelation, Q, QuerySet, Value
from django.db.models.functions import Coalesce

from apps.accounts.models import Lab
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from apps.fleet.choices import PriceKind, SiteKind
from apps.fleet.dated_facts import SiteFacts, dated_intervals, value_at
from apps.fleet.models import ACTIVE, Device, Node, Placement, Site, SitePrice, SitePue, SiteZone
from apps.fleet.zones import DECLARED, find_zone, zones

T = TypeVar("T")

TRACKER = "tracker"  # in the facts of a node that represents the machines of a tracker's token
SILENT_AFTER_US = 15 * 60 * 1_000_000


def node_of(lab: Lab, uuid: UUID) -> Node | None:
    """Return the lab's node, or None."""
    try:
        return Node.objects.get(lab=lab, uuid=uuid)
    except Node.DoesNotExist:
        return None


def require_node(lab: Lab, uuid: UUID) -> None:
    """Raise InvalidInput, for the filter ``node``, unless the lab has this node."""
    if node_of(lab, uuid) is None:
        raise InvalidInput(
            "There is no such node in this lab.", field="node", hint="Use the UUID of its page."
        )


def device_of(lab: Lab, key: str) -> Device | None:
    """Return the lab's device with its last node, or None."""
    if is_unstorable(key):
        return None
    return Device.objects.select_related("node").filter(lab=lab, key=key).first()


def measured_nodes(lab: Lab) -> QuerySet[Node]:
    """Return the nodes with a collector: without those of declared use and of trackers."""
    watched = Node.objects.filter(lab=lab).exclude(placements__site__kind=SiteKind.DECLARED)
    return watched.exclude(facts__has_key=TRACKER).order_by("hostname", "id")


def nodes_in_use(lab: Lab) -> QuerySet[Node]:
    """Return the measured nodes that are not retired."""
    return measured_nodes(lab).filter(retired_us__isnull=True)


def silent_nodes(lab: Lab, now: int) -> QuerySet[Node]:
    """Return the nodes in use without an upload for 15 minutes."""
    return nodes_in_use(lab).filter(last_push_us__lt=now - SILENT_AFTER_US)


@dataclass(frozen=True)
class NodeStatus:
    """What the overview needs to know of a node. ``static_power_mw`` None: nobody entered it."""

    uuid: UUID
    hostname: str
    display_name: str
    enrolled_us: int
    last_push_us: int | None
    static_power_mw: int | None
    virtual: bool
    health: Any
    start_problem: str
    start_problem_us: int | None

    @property
    def name(self) -> str:
        """Return the name for pages and messages."""
        return self.display_name or self.hostname

    def is_silent(self, now: int) -> bool:
        """Return whether the node stopped uploading for 15 minutes."""
        return self.last_push_us is not None and self.last_push_us < now - SILENT_AFTER_US

    def is_waiting(self, now: int) -> bool:
        """Return whether 15 minutes passed without an upload, or without a first one."""
        return (self.last_push_us or self.enrolled_us) < now - SILENT_AFTER_US


def node_statuses(lab: Lab) -> list[NodeStatus]:
    """Return the status of each node in use, by host name. One query."""
    names = [field.name for field in fields(NodeStatus)]
    return [NodeStatus(*row) for row in nodes_in_use(lab).values_list(*names)]


def nodes_with_device_problems(lab: Lab) -> QuerySet[Node]:
    """Return the nodes in use whose collector reports a problem with a device."""
    return nodes_in_use(lab).filter(health__devices__0__isnull=False)


def sites_of(lab: Lab) -> QuerySet[Site]:
    """Return the sites for nodes. Sites of declared use, created by imports, are left out."""
    return Site.objects.filter(lab=lab).exclude(kind=SiteKind.DECLARED).order_by("name", "id")


def site_of(lab: Lab, pk: int) -> Site | None:
    """Return the lab's site, or None."""
    return sites_of(lab).filter(pk=pk).first() if pk < 2**63 else None


def site_fact(site: Site, kind: str, pk: int) -> SiteZone | SitePue | SitePrice | None:
    """Return the active zone, PUE or price (``kind``) of a site, or None."""
    facts: dict[str, QuerySet[SiteZone] | QuerySet[SitePue] | QuerySet[SitePrice]] = {
        "zone": site.zones.all(),
        "pue": site.pues.all(),
        "price": site.prices.exclude(kind=PriceKind.HOURLY),
    }
    return facts[kind].filter(ACTIVE, pk=pk).first()


def zone_at(site: Site, hour: int) -> str:
    """Return the grid zone of a site in a UTC hour, '' for none."""
    return value_at(list(site.zones.filter(ACTIVE).values_list("from_hour", "zone")), hour) or ""


def zones_at(lab: Lab, hour: int) -> dict[int, str]:
    """Return {site id: grid zone in a UTC hour} of the sites with a zone. One query."""
    rows = SiteZone.objects.filter(ACTIVE, site__lab=lab).values_list(
        "site_id", "from_hour", "zone"
    )
    return {
        site_id: zone
        for site_id, history in _grouped(rows).items()
        if (zone := value_at(history, hour))
    }


def zones_ever(lab: Lab) -> set[str]:
    """Return all current and former grid zones of the lab's sites."""
    return set(SiteZone.objects.filter(ACTIVE, site__lab=lab).values_list("zone", flat=True))


@dataclass(frozen=True)
class Stay:
    """A node at a site over ``[from_hour, to_hour)``. ``to_hour`` None: until the next move."""

    placement: Placement
    from_hour: int
    to_hour: int | None


def stays_of(node: Node) -> list[Stay]:
    """Return the past, current and planned sites of a node, oldest first. Disjoint, without
    gaps, from hour 0 on.
    """
    placements = (
        node.placements.filter(ACTIVE).select_related("site", "recorded_by").order_by("from_hour")
    )
    return [
        Stay(placement, start, end)
        for start, end, placement in dated_intervals([(row.from_hour, row) for row in placements])
    ]


def stays_at(site: Site) -> list[Stay]:
    """Return the past, current and planned nodes of a site, by start. Two queries."""
    nodes = Placement.objects.filter(ACTIVE, site=site).values("node_id")
    histories: dict[int, list[tuple[int, Placement]]] = defaultdict(list)
    for row in Placement.objects.filter(ACTIVE, node__in=nodes).select_related("node"):
        histories[row.node_id].append((row.from_hour, row))
    stays = [
        Stay(row, start, end)
        for history in histories.values()
        for start, end, row in dated_intervals(history)
    ]
    site_stays = [stay for stay in stays if stay.placement.site_id == site.pk]
    return sorted(
        site_stays,
        key=lambda stay: (stay.from_hour, stay.placement.node.hostname, stay.placement.node_id),
    )


def placement_of(node: Node, hour: int) -> Placement | None:
    """Return the placement of a node in a UTC hour, None for a node without placements."""
    placements = node.placements.filter(ACTIVE).select_related("site")
    return value_at([(row.from_hour, row) for row in placements], hour)


def placements_at(lab: Lab, hour: int) -> dict[int, Placement]:
    """Return {node id: placement in a UTC hour}. One query."""
    histories: dict[int, list[tuple[int, Placement]]] = defaultdict(list)
    for row in Placement.objects.filter(ACTIVE, node__lab=lab).select_related("site"):
        histories[row.node_id].append((row.from_hour, row))
    return {
        node_id: placement
        for node_id, history in histories.items()
        if (placement := value_at(history, hour))
    }


def site_facts_of(lab: Lab) -> SiteFacts:
    """Return the active site facts of a lab. Three queries."""
    placements = Placement.objects.filter(ACTIVE, node__lab=lab).values_list(
        "node_id", "from_hour", "site_id"
    )
    zones = SiteZone.objects.filter(ACTIVE, site__lab=lab).values_list(
        "site_id", "from_hour", "zone"
    )
    pues = SitePue.objects.filter(ACTIVE, site__lab=lab).values_list(
        "site_id", "from_hour", "pue_ppm"
    )
    return SiteFacts(_grouped(placements), _grouped(zones), _grouped(pues))


def active_prices(lab: Lab) -> QuerySet[SitePrice]:
    """Return the prices of the lab's sites that are not withdrawn."""
    return SitePrice.objects.filter(ACTIVE, site__lab=lab)


def price_histories(lab: Lab) -> dict[int, list[tuple[int, int | None]]]:
    """Return {site id: (from hour, id of the flat price, None for a tariff)}, oldest first. One
    query.
    """
    rows = active_prices(lab).exclude(kind=PriceKind.HOURLY)
    return _grouped(
        (site_id, from_hour, pk if kind == PriceKind.FLAT else None)
        for site_id, from_hour, pk, kind in rows.values_list("site_id", "from_hour", "pk", "kind")
    )


def labs_with_hour_prices() -> set[int]:
    """Return the ids of the labs with a tariff or hourly prices."""
    rows = SitePrice.objects.filter(ACTIVE).exclude(kind=PriceKind.FLAT)
    return set(rows.values_list("site__lab_id", flat=True))


def hourly_prices_at(site: Site) -> QuerySet[SitePrice]:
    """Return the files of hourly prices of a site, latest first, also withdrawn ones."""
    rows = site.prices.filter(kind=PriceKind.HOURLY).order_by("-pk")
    return rows.select_related("recorded_by", "withdrawn_by")


def _grouped(rows: Iterable[tuple[int, int, T]]) -> dict[int, list[tuple[int, T]]]:
    histories: dict[int, list[tuple[int, T]]] = defaultdict(list)
    for owner_id, from_hour, value in sorted(rows, key=lambda row: row[:2]):
        histories[owner_id].append((from_hour, value))
    return dict(histories)


@dataclass(frozen=True)
class UnlistedZone:
    """A zone of a site that an earlier version accepted and that is no grid zone. ``zone`` '': the
    site has none.

    ``grid_zone``: the zone of the cloud region that it is, '' for an unknown zone, whose energy has
    no emissions.
    """

    site: Site
    zone: str
    grid_zone: str


def unlisted_zones(lab: Lab | None = None) -> list[UnlistedZone]:
    """Return the current and former zones of sites that are no grid zones. None: of all labs. One
    query.
    """
    facts = SiteZone.objects.filter(ACTIVE).exclude(zone__startswith=DECLARED)
    if lab is not None:
        facts = facts.filter(site__lab=lab)
    facts = facts.exclude(zone__in=zones()).select_related("site__lab").order_by("site", "zone")
    listed = {(fact.site_id, fact.zone): fact for fact in facts}
    return [UnlistedZone(fact.site, fact.zone, find_zone(fact.zone)) for fact in listed.values()]


def zone_problems(lab: Lab) -> list[UnlistedZone]:
    """Return the sites without a zone (``zone`` ''; those of declared use need none), and the
    zones that are no grid zones, by name of the site. One query.
    """
    active = FilteredRelation("zones", condition=Q(zones__withdrawn_us__isnull=True))
    rows = (
        Site.objects.filter(lab=lab)
        .annotate(active_zone=active)
        .annotate(zone=Coalesce("active_zone__zone", Value("")))
        .exclude(zone__startswith=DECLARED)
        .exclude(zone__in=zones())
        .exclude(kind=SiteKind.DECLARED, zone="")
        .order_by("name", "pk", "zone")
    )
    listed = {(site.pk, site.zone): site for site in rows}
    return [UnlistedZone(site, zone, find_zone(zone)) for (_, zone), site in listed.items()]
