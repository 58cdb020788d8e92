"""Reads of fleet."""

from uuid import UUID

from django.db.models import QuerySet

from apps.accounts.models import Lab
from apps.fleet.choices import SiteKind
from apps.fleet.models import Node, Placement, Site

SILENT_AFTER_US = 15 * 60 * 1_000_000


def node_of(lab: Lab, uuid: UUID) -> Node | None:
    """Return the lab's node, or None."""
    return Node.objects.filter(lab=lab, uuid=uuid).first()


def measured_nodes(lab: Lab) -> QuerySet[Node]:
    """Return the nodes that a collector watches (declared use has a node of its own kind of site)."""
    return Node.objects.filter(lab=lab).exclude(placements__site__kind=SiteKind.DECLARED).order_by("hostname", "id")


def silent_nodes(lab: Lab, now: int) -> QuerySet[Node]:
    """Return the nodes from which nothing came for 15 minutes."""
    return measured_nodes(lab).filter(last_push_us__lt=now - SILENT_AFTER_US)


def placement_of(node: Node, hour: int) -> Placement | None:
    """Return where a node stood in a UTC hour, or None."""
    return (
        Placement.objects.select_related("site")
        .filter(node=node, from_hour__lte=hour)
        .exclude(to_hour__lte=hour)
        .order_by("-from_hour")
        .first()
    )


def sites_without_zone(lab: Lab) -> QuerySet[Site]:
    """Return the sites whose grid zone nobody chose: their energy has no carbon."""
    return Site.objects.filter(lab=lab, zone="")
