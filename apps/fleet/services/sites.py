"""Writes of sites: create, rename, delete, and their dated facts."""

from typing import Any

from django.db import transaction
from django.db.models import ProtectedError, QuerySet

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, OneTimeCode, User
from apps.core.errors import Conflict, InvalidInput
from apps.core.units import PPM
from apps.fleet.choices import DEFAULT_PUE_PPM, Control, PriceKind, SiteKind
from apps.fleet.models import ACTIVE, Site, SitePrice, SitePue, SiteZone
from apps.fleet.services.currency import replace_unused_currency
from apps.fleet.services.dated_facts import (
    enqueue_site_updates,
    record_audit,
    require_free_hour,
    require_latest,
    whole_hour,
    withdraw,
)
from apps.fleet.zones import DECLARED, resolve_zone


def locked(site: Site) -> Site:
    """Return the site, locked after its lab, so that all writers use one order."""
    audit.hold(site.lab)
    return Site.objects.select_for_update().get(pk=site.pk)


def _site_name(lab: Lab, text: str, *, besides: int | None = None) -> str:
    name = text.strip()
    if not name or len(name) > 200:
        raise InvalidInput(
            "The name is empty or longer than 200 characters.",
            field="name",
            hint="Enter a name, e.g. Machine room.",
        )
    if Site.objects.filter(lab=lab, name=name).exclude(pk=besides or 0).exists():
        raise Conflict(
            f"The lab already has a site {name!r}.", field="name", hint="Choose another name."
        )
    return name


def _entered(zone: str, text: str) -> dict[str, str]:
    """Return what a person entered for a zone, if it is not its code."""
    return {} if text == zone else {"entered": text[:200]}


@transaction.atomic
def create_site(
    *,
    lab: Lab,
    name: str,
    kind: SiteKind,
    zone: str,
    pue_ppm: int | None = None,
    by: User | None = None,
    now: int | None = None,
) -> Site:
    """Create a site. Its zone (a zone, a cloud region, '' for none) and its PUE are valid for its
    whole history.
    """
    if kind not in SiteKind.values:
        raise InvalidInput(
            f"Unknown kind of site {kind!r}.",
            field="kind",
            hint=f"Use one of {', '.join(SiteKind.values)}.",
        )
    entered = zone
    if kind != SiteKind.DECLARED or not zone.startswith(DECLARED):
        zone = resolve_zone(zone)
    audit.hold(lab)  # serialises writers that use the same name
    site = Site.objects.create(lab=lab, name=_site_name(lab, name), kind=kind)
    fields: dict[str, Any] = {"site": site, "from_hour": 0, "recorded_us": now, "recorded_by": by}
    SitePue.objects.create(pue_ppm=pue_ppm or DEFAULT_PUE_PPM[SiteKind(kind)], **fields)
    if zone:
        SiteZone.objects.create(zone=zone, **fields)
    enqueue_site_updates(lab)
    details = {"kind": str(kind), "zone": zone, **_entered(zone, entered)}
    record_audit(lab, by, Act.SITE_CREATED, site.name, details, now)
    return site


@transaction.atomic
def rename_site(*, site: Site, name: str, by: User, now: int) -> None:
    """Rename a site. Its history stays."""
    audit.hold(site.lab)
    before = Site.objects.get(pk=site.pk).name
    site.name = _site_name(site.lab, name, besides=site.pk)
    site.save(update_fields=["name"])
    record_audit(
        site.lab, by, Act.SITE_RENAMED, site.name, {"name": {"from": before, "to": site.name}}, now
    )


@transaction.atomic
def set_control(*, site: Site, control: str, by: User, now: int) -> None:
    """Record who controls the electricity of a site, for its whole history. Only the scope of
    emissions changes.
    """
    if control not in Control.values:
        raise InvalidInput(
            f"Unknown electricity control {control[:40]!r}.",
            field="control",
            hint=f"Use one of {', '.join(Control.values)}.",
        )
    locked_site = locked(site)
    if locked_site.control == control:
        return
    changes = {"control": {"from": locked_site.control, "to": control}}
    site.control = control
    Site.objects.filter(pk=site.pk).update(control=control)
    record_audit(site.lab, by, Act.SITE_CONTROL, site.name, changes, now)


@transaction.atomic
def delete_site(*, site: Site, by: User, now: int) -> None:
    """Delete a site without current or former nodes. Its enrolment codes are deleted too."""
    locked(site)
    if site.placements.filter(ACTIVE).exists():
        raise Conflict(
            (
                f"{site.name} cannot be deleted: the figures of its current and former nodes use "
                "its zone and PUE."
            ),
            hint="You can rename the site.",
        )
    OneTimeCode.objects.filter(place__site=site).delete()
    site.placements.all().delete()  # withdrawn moves
    try:
        site.delete()
    except ProtectedError as error:
        raise Conflict(
            f"{site.name} cannot be deleted: other records refer to it.",
            hint="You can rename the site.",
        ) from error
    record_audit(site.lab, by, Act.SITE_DELETED, site.name, {}, now)


@transaction.atomic
def set_zone(*, site: Site, zone: str, from_us: int, by: User | None, now: int) -> SiteZone:
    """Record the grid zone of a site from a UTC hour on. A cloud region is recorded as its zone.

    The first zone of a site is valid for its whole history, independent of ``from_us``.
    """
    zone, entered = resolve_zone(zone), zone
    facts = locked(site).zones.filter(ACTIVE)
    hour = (
        require_free_hour(facts, whole_hour(from_us), f"A grid zone of {site.name}")
        if facts.exists()
        else 0
    )
    site_zone = SiteZone.objects.create(
        site=site, from_hour=hour, zone=zone, recorded_us=now, recorded_by=by
    )
    enqueue_site_updates(site.lab)
    details = {"zone": zone, "from_hour": hour, **_entered(zone, entered)}
    record_audit(site.lab, by, Act.SITE_ZONE, site.name, details, now)
    return site_zone


@transaction.atomic
def correct_zone(*, site: Site, zone: str, by: User | None, now: int) -> None:
    """Correct the zone of a site for its whole history, '' for none. Past hours are
    recalculated.
    """
    zone, entered = resolve_zone(zone), zone
    withdraw(locked(site).zones.filter(ACTIVE), by, now)
    if zone:
        SiteZone.objects.create(site=site, from_hour=0, zone=zone, recorded_us=now, recorded_by=by)
    enqueue_site_updates(site.lab)
    details = {"zone": zone, "always": True, **_entered(zone, entered)}
    record_audit(site.lab, by, Act.SITE_ZONE, site.name, details, now)


def _possible_pue(pue_ppm: int) -> int:
    if pue_ppm < PPM:
        raise InvalidInput(
            "The PUE is below 1.", field="pue", hint="Enter a number from 1, e.g. 1.4."
        )
    return pue_ppm


@transaction.atomic
def set_pue(
    *,
    site: Site,
    pue_ppm: int,
    from_us: int,
    note: str = "",
    by: User | None = None,
    now: int | None = None,
) -> SitePue:
    """Record the PUE of a site from the UTC hour of ``from_us`` on."""
    facts = locked(site).pues.filter(ACTIVE)
    site_pue = SitePue.objects.create(
        site=site,
        from_hour=require_free_hour(facts, whole_hour(from_us), f"A PUE of {site.name}"),
        pue_ppm=_possible_pue(pue_ppm),
        note=note,
        recorded_us=now,
        recorded_by=by,
    )
    enqueue_site_updates(site.lab)
    details = {"pue_ppm": pue_ppm, "from_hour": site_pue.from_hour, "note": note}
    record_audit(site.lab, by, Act.SITE_PUE, site.name, details, now)
    return site_pue


@transaction.atomic
def correct_pue(*, site: Site, pue_ppm: int, note: str = "", by: User | None, now: int) -> None:
    """Correct the PUE of a site for its whole history. Past hours are recalculated."""
    _possible_pue(pue_ppm)
    withdraw(locked(site).pues.filter(ACTIVE), by, now)
    SitePue.objects.create(
        site=site, from_hour=0, pue_ppm=pue_ppm, note=note, recorded_us=now, recorded_by=by
    )
    enqueue_site_updates(site.lab)
    record_audit(
        site.lab,
        by,
        Act.SITE_PUE,
        site.name,
        {"pue_ppm": pue_ppm, "always": True, "note": note},
        now,
    )


@transaction.atomic
def withdraw_site_fact(*, fact: SiteZone | SitePue | SitePrice, by: User | None, now: int) -> None:
    """Withdraw the latest zone, PUE or price of a site. The previous one is valid again."""
    site = locked(fact.site)
    facts: QuerySet[Any] = type(fact).objects.filter(ACTIVE, site=site).order_by("-from_hour")
    if isinstance(fact, SitePrice):
        facts = facts.exclude(kind=PriceKind.HOURLY)
    require_latest(facts, fact, "entry")
    if facts.count() == 1 and not isinstance(fact, SitePrice):
        raise Conflict(
            "The first entry of a history cannot be withdrawn.",
            hint="Correct the whole history instead: choose “always”.",
        )
    withdraw(facts.filter(pk=fact.pk), by, now)
    if isinstance(fact, SitePrice):
        replace_unused_currency(site.lab)
    enqueue_site_updates(site.lab)
    record_audit(
        site.lab,
        by,
        Act.SITE_WITHDRAWN,
        site.name,
        {"entry": str(fact), "from_hour": fact.from_hour},
        now,
    )
