"""Writes of nodes: placements, overhead, enrolment."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.urls import reverse

from apps.accounts import audit
from apps.accounts.choices import Act, CodePurpose
from apps.accounts.credentials import keyed_digest, normalised_code
from apps.accounts.models import Lab, OneTimeCode, User
from apps.accounts.services.labs import (
    issue_code,
    issue_node_token,
    revoke_node_tokens,
    spend_code,
)
from apps.core.errors import Conflict, InvalidInput, NotFound
from apps.core.jobs import enqueue
from apps.core.text import is_unstorable
from apps.fleet.choices import SiteKind
from apps.fleet.models import ACTIVE, EnrolmentPlace, Node, Placement, Site
from apps.fleet.selectors import sites_of
from apps.fleet.services.dated_facts import (
    enqueue_site_updates,
    record_audit,
    require_free_hour,
    require_latest,
    whole_hour,
    withdraw,
)
from apps.fleet.services.retirement import RETIRED, locked_machine, restore_hint

MAX_NAME = 100

# Facts that an enrolment by an older collector does not remove.
_LASTING_FACTS = frozenset({"cloud_instance_id"})


def _movable(node: Node, site: Site) -> Node:
    """Return the node, locked. Raises Conflict or NotFound for a wrong site."""
    if site.lab_id != node.lab_id:
        raise NotFound(
            "No such site in this lab.", field="site", hint="Choose one of the lab's sites."
        )
    audit.hold(node.lab)
    locked = Node.objects.select_for_update().get(pk=node.pk)
    declared = locked.placements.filter(ACTIVE, site__kind=SiteKind.DECLARED).exists()
    if declared or site.kind == SiteKind.DECLARED:
        raise Conflict(
            "Declared use cannot be moved: its import created its site.",
            field="site",
            hint=(
                "Import the activity again with another zone or PUE. Choose another site for "
                "a node."
            ),
        )
    return locked


@transaction.atomic
def move_node(*, node: Node, site: Site, from_us: int, by: User | None, now: int) -> Placement:
    """Record a move of a node to another site in the UTC hour of ``from_us``.

    The move is valid until the next recorded move. Earlier hours keep their zone and PUE.
    """
    facts = _movable(node, site).placements.filter(ACTIVE)
    hour = whole_hour(from_us)
    if hour == 0:
        raise InvalidInput(
            "A move needs a date.", field="from_day", hint="Enter a date, or choose “always”."
        )
    placement = Placement.objects.create(
        node=node,
        site=site,
        from_hour=require_free_hour(facts, hour, f"A move of {node.hostname}"),
        recorded_us=now,
        recorded_by=by,
    )
    enqueue_site_updates(node.lab)
    details = {"node": str(node.uuid), "site": site.name, "from_hour": hour}
    record_audit(node.lab, by, Act.NODE_MOVED, node.hostname, details, now)
    return placement


@transaction.atomic
def correct_place(*, node: Node, site: Site, by: User | None, now: int) -> Placement:
    """Correct the whole history of a node to ``site``: all recorded moves are withdrawn, past
    hours are recalculated.
    """
    withdraw(_movable(node, site).placements.filter(ACTIVE), by, now)
    placement = Placement.objects.create(
        node=node, site=site, from_hour=0, recorded_us=now, recorded_by=by
    )
    enqueue_site_updates(node.lab)
    details = {"node": str(node.uuid), "site": site.name, "always": True}
    record_audit(node.lab, by, Act.NODE_MOVED, node.hostname, details, now)
    return placement


@transaction.atomic
def undo_move(*, placement: Placement, by: User | None, now: int) -> None:
    """Withdraw the latest move of a node."""
    audit.hold(placement.site.lab)
    node = Node.objects.select_for_update().get(pk=placement.node_id)
    facts = node.placements.filter(ACTIVE).order_by("-from_hour")
    require_latest(facts, placement, "move")
    if facts.count() == 1:
        raise Conflict(
            f"{node.hostname} was never moved: this is its first site.",
            hint="To correct it, choose a site and “always”.",
        )
    withdraw(facts.filter(pk=placement.pk), by, now)
    enqueue_site_updates(node.lab)
    details = {
        "node": str(node.uuid),
        "site": placement.site.name,
        "from_hour": placement.from_hour,
    }
    record_audit(node.lab, by, Act.NODE_MOVE_UNDONE, node.hostname, details, now)


@transaction.atomic
def set_static_power(
    *, node: Node, static_power_mw: int | None, by: User | None = None, now: int | None = None
) -> None:
    """Set the power of a node outside its device meters. None: unknown."""
    if static_power_mw is not None and static_power_mw < 0:
        raise InvalidInput(
            "The power is below zero.", field="static_power", hint="Enter watts, e.g. 45."
        )
    details = {
        "power_mw": {"from": node.static_power_mw, "to": static_power_mw},
        "node": str(node.uuid),
    }
    node.static_power_mw = static_power_mw
    node.save(update_fields=["static_power_mw"])
    enqueue(kind="energy.resettle_node", key=str(node.pk))
    record_audit(node.lab, by, Act.NODE_STATIC_POWER, node.hostname, details, now)


@transaction.atomic
def rename_node(*, node: Node, name: str, by: User, now: int) -> Node:
    """Set the display name of a node. '': pages show the hostname that its collector reports."""
    display_name = name.strip()
    if len(display_name) > MAX_NAME or is_unstorable(display_name):
        raise InvalidInput(
            f"The name is longer than {MAX_NAME} characters or contains invalid ones.",
            field="name",
            hint="Enter a name, e.g. Microscope PC.",
        )
    audit.hold(node.lab)
    locked = Node.objects.select_for_update().get(pk=node.pk)
    if locked.display_name == display_name:
        return locked
    details = {
        "node": str(locked.uuid),
        "name": {"from": locked.display_name, "to": display_name},
    }
    locked.display_name = display_name
    locked.save(update_fields=["display_name"])
    record_audit(locked.lab, by, Act.NODE_RENAMED, locked.hostname, details, now)
    return locked


@transaction.atomic
def rotate_tokens(*, nodes: Sequence[Node], by: User, now: int) -> str:
    """End the tokens of nodes of one lab, and return a code that enrols each of them again."""
    for node in nodes:
        locked = locked_machine(node)
        if locked.retired_us is not None:
            raise Conflict(
                f"{locked.name} is retired.", field="item", hint="Use the node again first."
            )
        ended = revoke_node_tokens(lab=locked.lab, node_uuid=locked.uuid, now=now)
        details = {"node": str(locked.uuid), "tokens_ended": ended}
        record_audit(locked.lab, by, Act.NODE_TOKENS_ROTATED, locked.name, details, now)
    return issue_enrolment_code(lab=nodes[0].lab, site=None, by=by, now=now, uses=len(nodes))


@transaction.atomic
def register_node(
    *, lab: Lab, uuid: UUID, hostname: str, facts: dict[str, Any], site: Site, now: int
) -> Node:
    """Create a node at a site, or update the facts of an existing one. Raises Conflict for a
    node of another lab.
    """
    node = Node.objects.select_for_update().filter(uuid=uuid).first()
    if node is not None and node.lab_id != lab.pk:
        raise Conflict(
            "This machine is enrolled in another lab on this server.",
            field="node",
            hint="Set LABCARBON_NODE_ID to another UUID on the machine, or remove it there first.",
        )
    if node is not None and node.retired_us is not None:
        raise Conflict("This node is retired.", field="node", hint=restore_hint(node), code=RETIRED)
    if node is None:
        node = Node(lab=lab, uuid=uuid, enrolled_us=now)
    node.hostname = hostname
    node.facts = {name: node.facts[name] for name in _LASTING_FACTS & node.facts.keys()} | facts
    node.virtual = bool(facts.get("virtual"))
    node.save()
    if not node.placements.filter(ACTIVE).exists():
        # Windows from before the enrolment belong to this site too.
        Placement.objects.create(node=node, site=site, from_hour=0, recorded_us=now)
        enqueue_site_updates(lab)
    return node


@transaction.atomic
def issue_enrolment_code(*, lab: Lab, site: Site | None, by: User, now: int, uses: int = 1) -> str:
    """Return a new code that enrols ``uses`` machines at ``site``. None: at the first site of
    the lab.
    """
    code = issue_code(purpose=CodePurpose.ENROL, now=now, lab=lab, user=by, uses=uses)
    if site is not None:
        if site.lab_id != lab.pk:
            raise NotFound(
                "No such site in this lab.", field="site", hint="Choose one of the lab's sites."
            )
        digests = [
            keyed_digest(pepper, normalised_code(code))
            for pepper in settings.TOKEN_PEPPERS.values()
        ]
        row = OneTimeCode.objects.get(purpose=CodePurpose.ENROL, digest__in=digests)
        EnrolmentPlace.objects.create(code=row, site=site)
    return code


@transaction.atomic
def enrol_node(
    *, code: str, uuid: UUID, hostname: str, facts: dict[str, Any], now: int
) -> tuple[Node, str]:
    """Exchange an enrolment code for a node at the site of the code, and a token. The token is
    returned only once.

    A node that is enrolled again stays at its site.
    """
    spent = spend_code(purpose=CodePurpose.ENROL, code=code, now=now)
    assert spent.lab is not None
    place = EnrolmentPlace.objects.select_related("site").filter(code=spent).first()
    site = place.site if place else sites_of(spent.lab).order_by("id").first()
    if site is None:
        raise InvalidInput(
            "The lab has no site.", hint=f"Complete the setup at {reverse('setup')} first."
        )
    node = register_node(
        lab=spent.lab, uuid=uuid, hostname=hostname, facts=facts, site=site, now=now
    )
    token = issue_node_token(lab=spent.lab, node_uuid=uuid, now=now, by=spent.user)
    record_audit(
        spent.lab,
        spent.user,
        Act.NODE_ENROLLED,
        hostname,
        {"node": str(uuid), "site": site.name},
        now,
    )
    return node, token


def record_start_problem(*, node: Node, message: str, now: int) -> int:
    """Record why the collector of a node does not measure. Return since when: the same message
    again changes nothing.
    """
    Node.objects.filter(pk=node.pk, retired_us__isnull=True).exclude(start_problem=message).update(
        start_problem=message, start_problem_us=now
    )
    node.refresh_from_db(fields=["start_problem_us"])
    return now if node.start_problem_us is None else node.start_problem_us
