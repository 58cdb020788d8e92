"""Writes of fleet: sites, enrolment of nodes, what their collectors say about them."""

from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts import audit
from apps.accounts.choices import Act, CodePurpose
from apps.accounts.models import Lab, User
from apps.accounts.services import issue_node_token, spend_code
from apps.core.clock import now_us
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import request_job
from apps.core.units import PPM, hour_of
from apps.fleet.choices import DEFAULT_PUE_PPM, SiteKind
from apps.fleet.models import Node, Placement, Site, SitePue


def places_changed(lab: Lab) -> None:
    """Ask for the applied factors of a lab to be derived again (a placement, PUE, zone or factor changed)."""
    request_job(kind="carbon.apply_factors", key=str(lab.pk))


@transaction.atomic
def create_site(*, lab: Lab, name: str, kind: SiteKind, zone: str, pue_ppm: int | None = None) -> Site:
    """Create a site whose PUE holds from the beginning of time on."""
    if kind not in SiteKind.values:
        raise InvalidInput(
            f"{kind!r} is not a kind of site.", field="kind", hint=f"Use one of {', '.join(SiteKind.values)}."
        )
    site = Site.objects.create(lab=lab, name=name, kind=kind, zone=zone)
    SitePue.objects.create(site=site, from_hour=0, pue_ppm=pue_ppm or DEFAULT_PUE_PPM[SiteKind(kind)])
    places_changed(lab)
    return site


@transaction.atomic
def choose_zone(*, site: Site, zone: str, by: User | None = None, now: int | None = None) -> None:
    """Set the grid zone of a site (known zones are the carbon app's to check)."""
    details = {"zone": {"from": site.zone, "to": zone}}
    site.zone = zone
    site.save(update_fields=["zone"])
    places_changed(site.lab)
    _recorded(site.lab, by, Act.SITE_ZONE, site.name, details, now)


def _recorded(lab: Lab, by: User | None, action: Act, subject: str, details: dict[str, Any], now: int | None) -> None:
    """Add an act to the audit log. ``now`` None: a caller that knows no time, such as a command, acts now."""
    audit.record(lab=lab, by=by, action=action, subject=subject, details=details, now=now_us() if now is None else now)


@transaction.atomic
def set_pue(
    *, site: Site, pue_ppm: int, from_us: int, note: str = "", by: User | None = None, now: int | None = None
) -> SitePue:
    """Record a site's PUE from the whole UTC hour that holds ``from_us`` on."""
    if pue_ppm < PPM:
        raise InvalidInput("A PUE is never below 1.", field="pue", hint="Write for example 1.4.")
    pue, _ = SitePue.objects.update_or_create(
        site=site, from_hour=hour_of(from_us), defaults={"pue_ppm": pue_ppm, "note": note}
    )
    places_changed(site.lab)
    details = {"pue_ppm": pue_ppm, "from_hour": pue.from_hour, "note": note}
    _recorded(site.lab, by, Act.SITE_PUE, site.name, details, now)
    return pue


@transaction.atomic
def set_static_power(*, node: Node, static_power_mw: int | None, by: User | None = None, now: int | None = None) -> None:
    """Set the power of everything in a node but its metered devices; None = nobody knows."""
    if static_power_mw is not None and static_power_mw < 0:
        raise InvalidInput("Power is never below zero.", field="static_power", hint="Write watts, for example 45.")
    details = {"power_mw": {"from": node.static_power_mw, "to": static_power_mw}, "node": str(node.uuid)}
    node.static_power_mw = static_power_mw
    node.save(update_fields=["static_power_mw"])
    request_job(kind="energy.resettle_node", key=str(node.pk))
    _recorded(node.lab, by, Act.NODE_STATIC_POWER, node.hostname, details, now)


@transaction.atomic
def register_node(*, lab: Lab, uuid: UUID, hostname: str, facts: dict[str, Any], site: Site, now: int) -> Node:
    """Create a node (or renew its facts) and place it; a node of another lab is a conflict."""
    node = Node.objects.select_for_update().filter(uuid=uuid).first()
    if node is not None and node.lab_id != lab.pk:
        raise Conflict(
            "This machine is enrolled in another lab on this server.",
            field="node",
            hint="Set LABCARBON_NODE_ID to another UUID on the machine, or remove it there first.",
        )
    if node is None:
        node = Node(lab=lab, uuid=uuid, enrolled_us=now)
    node.hostname = hostname
    node.facts = facts
    node.virtual = bool(facts.get("virtual"))
    node.save()
    if not node.placements.filter(to_hour__isnull=True).exists():
        # Windows measured before the enrolment belong to this place as well.
        Placement.objects.create(node=node, site=site, from_hour=0)
        places_changed(lab)
    return node


@transaction.atomic
def enrol_node(*, code: str, uuid: UUID, hostname: str, facts: dict[str, Any], now: int) -> tuple[Node, str]:
    """Trade an enrolment code for a node and its token (shown this once)."""
    spent = spend_code(purpose=CodePurpose.ENROL, code=code, now=now)
    assert spent.lab is not None
    site = Site.objects.filter(lab=spent.lab).exclude(kind=SiteKind.DECLARED).order_by("id").first()
    if site is None:
        raise InvalidInput("The lab has no site yet.", hint="Finish /setup/ first.")
    node = register_node(lab=spent.lab, uuid=uuid, hostname=hostname, facts=facts, site=site, now=now)
    token = issue_node_token(lab=spent.lab, node_uuid=uuid, now=now, by=spent.user)
    _recorded(spent.lab, spent.user, Act.NODE_ENROLLED, hostname, {"node": str(uuid), "site": site.name}, now)
    return node, token
