"""Reads of fleet tokens and of the nodes that came with them."""

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q, QuerySet

from apps.accounts.choices import Role
from apps.accounts.models import Lab
from apps.core.units import US_PER_HOUR
from apps.fleet.choices import EnrolmentState
from apps.fleet.models import Device, FleetEnrolment, FleetToken, Node, RefusedEnrolment

MANAGER_ROLES = (Role.PI, Role.ADMIN)
RECENT_US = 24 * US_PER_HOUR
MOST_RECENT = 200


def fleet_token_of(lab: Lab, public_id: str) -> FleetToken | None:
    """Return the lab's fleet token, or None."""
    tokens = FleetToken.objects.select_related("lab", "site", "project", "created_by")
    return tokens.filter(lab=lab, public_id=public_id).first()


def active_fleet_tokens(lab: Lab, now: int) -> QuerySet[FleetToken]:
    """Return the tokens that can enrol nodes, newest first."""
    return (
        FleetToken.objects.filter(
            lab=lab, revoked_us__isnull=True, expires_us__gt=now, uses_left__gt=0
        )
        .select_related("site", "project", "created_by")
        .order_by("-created_us", "-pk")
    )


def waiting_enrolments(lab: Lab) -> QuerySet[FleetEnrolment]:
    """Return the nodes that wait for the approval of a manager, oldest first."""
    return (
        FleetEnrolment.objects.filter(lab=lab, state=EnrolmentState.WAITING)
        .select_related("fleet_token__site")
        .order_by("created_us", "pk")
    )


def refused_enrolments(lab: Lab, now: int) -> QuerySet[RefusedEnrolment]:
    """Return the known UUIDs that were presented and that nobody has decided about, newest
    first.
    """
    undecided = Q(allowed_until_us__isnull=True) | Q(allowed_until_us__lte=now)
    return RefusedEnrolment.objects.filter(undecided, lab=lab).order_by("-last_us", "-pk")


def allowed_enrolments(lab: Lab, now: int) -> QuerySet[RefusedEnrolment]:
    """Return the known UUIDs that may be enrolled again now."""
    return RefusedEnrolment.objects.filter(lab=lab, allowed_until_us__gt=now).order_by("hostname")


@dataclass(frozen=True)
class NewNode:
    """A node that a fleet token enrolled in the last 24 hours. ``node`` None: not approved yet."""

    hostname: str
    uuid: UUID
    enrolled_us: int
    node: Node | None
    devices: tuple[str, ...]

    @property
    def state(self) -> str:
        """Return "approval", "reading" (the first one is awaited) or "ready"."""
        if self.node is None:
            return "approval"
        return "reading" if self.node.last_push_us is None else "ready"


def new_nodes(lab: Lab, now: int) -> list[NewNode]:
    """Return the nodes of fleet tokens of the last 24 hours, newest first. Three queries."""
    rows = list(
        FleetEnrolment.objects.filter(lab=lab, created_us__gt=now - RECENT_US)
        .exclude(state=EnrolmentState.DECLINED)
        .order_by("-created_us", "-pk")[:MOST_RECENT]
    )
    nodes = {
        node.uuid: node
        for node in Node.objects.filter(lab=lab, uuid__in=[row.node_uuid for row in rows])
    }
    names: dict[int, list[str]] = {}
    for node_id, name, key in (
        Device.objects.filter(node__in=[node.pk for node in nodes.values()])
        .order_by("kind", "key")
        .values_list("node_id", "name", "key")
    ):
        names.setdefault(node_id, []).append(name or key)
    enrolled = []
    for row in rows:
        is_waiting = row.state == EnrolmentState.WAITING
        node = None if is_waiting else nodes.get(row.node_uuid)
        if node is None and not is_waiting:
            continue  # removed since
        devices = tuple(names.get(node.pk, ())) if node else ()
        enrolled.append(NewNode(row.hostname, row.node_uuid, row.created_us, node, devices))
    return enrolled
