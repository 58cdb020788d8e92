"""Sites and nodes of declared use, one of each per grid, PUE and control of the electricity."""

from uuid import NAMESPACE_URL, uuid5

from apps.accounts.models import Lab
from apps.activity.declared_rows import DeclaredRow
from apps.carbon.services import declare_factor
from apps.fleet.choices import Control, SiteKind
from apps.fleet.models import Node, Site
from apps.fleet.services import create_site, register_node
from apps.fleet.zones import resolve_zone


def node_of_use(lab: Lab, row: DeclaredRow, now: int, control: Control = Control.OWN) -> Node:
    """Return the node of declared use at the site of its grid, PUE and control of the
    electricity. Missing ones are created.
    """
    site = _site(lab, row, now, control)
    uuid = uuid5(NAMESPACE_URL, f"labcarbon:declared-node:{lab.pk}:{site.pk}")
    existing = Node.objects.filter(lab=lab, uuid=uuid).first()
    return existing or register_node(
        lab=lab, uuid=uuid, hostname=site.name, facts={}, site=site, now=now
    )


def _site(lab: Lab, row: DeclaredRow, now: int, control: Control) -> Site:
    zone = resolve_zone(row.zone)
    suffix = "" if control == Control.OWN else f", {Control(control).label.lower()}"
    # Earlier versions named the site as the zone was written: their rows must be found again.
    for where in dict.fromkeys((row.zone, zone) if zone else (f"{row.ug_per_kwh} µg/kWh",)):
        name = f"Declared, {where}, PUE {row.pue_ppm / 1e6:g}{suffix}"
        existing = Site.objects.filter(lab=lab, name=name).first()
        if existing is not None:
            return existing
    if row.ug_per_kwh is not None:
        zone = f"declared:{lab.pk}:{row.ug_per_kwh}"
        declare_factor(
            lab=lab,
            zone=zone,
            name=f"stated as {row.ug_per_kwh / 1e6:g} g/kWh",
            ug_per_kwh=row.ug_per_kwh,
            source="stated with the declared activity",
            now=now,
        )
    site = create_site(lab=lab, name=name, kind=SiteKind.DECLARED, zone=zone, pue_ppm=row.pue_ppm)
    if control != Control.OWN:
        Site.objects.filter(pk=site.pk).update(control=control)
        site.control = control
    return site
