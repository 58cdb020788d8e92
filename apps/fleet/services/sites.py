"""Writes of sites: making, renaming, deleting, and the dated facts about them."""

from typing import Any

from django.db import transaction
from django.db.models import ProtectedError

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, OneTimeCode, User
from apps.core.errors import Conflict, InvalidInput
from apps.core.units import PPM
from apps.fleet.choices import CURRENCIES, DEFAULT_PUE_PPM, Control, SiteKind
from apps.fleet.models import ACTIVE, Site, SitePrice, SitePue, SiteZone
from apps.fleet.services.dated_facts import (
    enqueue_site_updates,
    record_audit,
    require_free_hour,
    require_latest,
    whole_hour,
    withdraw,
)


def _locked(site: Site) -> Site:
    """Return the site, locked after its lab: acts queue there in one order."""
    audit.hold(site.lab)
    return Site.objects.select_for_update().get(pk=site.pk)


def _site_name(lab: Lab, text: str, *, besides: int | None = None) -> str:
    name = text.strip()
    if not name or len(name) > 200:
        raise InvalidInput("A site needs a name of at most 200 characters.", field="name", hint="For example Machine room.")
    if Site.objects.filter(lab=lab, name=name).exclude(pk=besides or 0).exists():
        raise Conflict(f"The lab has a site {name!r} already.", field="name", hint="Choose another name.")
    return name


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
    """Create a site; its zone ('' = nobody chose one) and its PUE hold from the beginning of time on."""
    if kind not in SiteKind.values:
        raise InvalidInput(
            f"{kind!r} is not a kind of site.", field="kind", hint=f"Use one of {', '.join(SiteKind.values)}."
        )
    audit.hold(lab)  # two at once with one name take turns
    site = Site.objects.create(lab=lab, name=_site_name(lab, name), kind=kind)
    fields: dict[str, Any] = {"site": site, "from_hour": 0, "recorded_us": now, "recorded_by": by}
    SitePue.objects.create(pue_ppm=pue_ppm or DEFAULT_PUE_PPM[SiteKind(kind)], **fields)
    if zone:
        SiteZone.objects.create(zone=zone, **fields)
    enqueue_site_updates(lab)
    record_audit(lab, by, Act.SITE_CREATED, site.name, {"kind": str(kind), "zone": zone}, now)
    return site


@transaction.atomic
def rename_site(*, site: Site, name: str, by: User, now: int) -> None:
    """Give a site another name; its history stays."""
    audit.hold(site.lab)
    before = Site.objects.get(pk=site.pk).name
    site.name = _site_name(site.lab, name, besides=site.pk)
    site.save(update_fields=["name"])
    record_audit(site.lab, by, Act.SITE_RENAMED, site.name, {"name": {"from": before, "to": site.name}}, now)


@transaction.atomic
def set_control(*, site: Site, control: str, by: User, now: int) -> None:
    """Say who controls the electricity of a site, for all of its time: no carbon changes, only the scope it is in."""
    if control not in Control.values:
        raise InvalidInput(
            f"{control[:40]!r} is not a choice of control.", field="control", hint=f"Use one of {', '.join(Control.values)}."
        )
    locked_site = _locked(site)
    if locked_site.control == control:
        return
    changes = {"control": {"from": locked_site.control, "to": control}}
    site.control = control
    Site.objects.filter(pk=site.pk).update(control=control)
    record_audit(site.lab, by, Act.SITE_CONTROL, site.name, changes, now)


@transaction.atomic
def delete_site(*, site: Site, by: User, now: int) -> None:
    """Delete a site that no node ever stood at; codes that would enrol a machine there end."""
    _locked(site)
    if site.placements.filter(ACTIVE).exists():
        raise Conflict(
            f"Nodes stand or stood at {site.name}: its zone and PUE are part of their figures.",
            hint="It can be renamed. Only a site that was never used can be deleted.",
        )
    OneTimeCode.objects.filter(place__site=site).delete()
    site.placements.all().delete()  # moves that were withdrawn: they never held
    try:
        site.delete()
    except ProtectedError as error:
        raise Conflict(f"Something recorded names {site.name}.", hint="It can be renamed instead.") from error
    record_audit(site.lab, by, Act.SITE_DELETED, site.name, {}, now)


@transaction.atomic
def set_zone(*, site: Site, zone: str, from_us: int, by: User | None, now: int) -> SiteZone:
    """Record that a site is on another grid zone from a whole UTC hour on (known zones are the carbon app's to check).

    The first zone of a site holds from the beginning of time, whatever ``from_us`` says.
    """
    facts = _locked(site).zones.filter(ACTIVE)
    hour = require_free_hour(facts, whole_hour(from_us), f"A grid zone of {site.name}") if facts.exists() else 0
    site_zone = SiteZone.objects.create(site=site, from_hour=hour, zone=zone, recorded_us=now, recorded_by=by)
    enqueue_site_updates(site.lab)
    record_audit(site.lab, by, Act.SITE_ZONE, site.name, {"zone": zone, "from_hour": hour}, now)
    return site_zone


@transaction.atomic
def correct_zone(*, site: Site, zone: str, by: User | None, now: int) -> None:
    """Record that a site was always on ``zone``; '' = nobody knows, its energy has no carbon. Prices its past again."""
    withdraw(_locked(site).zones.filter(ACTIVE), by, now)
    if zone:
        SiteZone.objects.create(site=site, from_hour=0, zone=zone, recorded_us=now, recorded_by=by)
    enqueue_site_updates(site.lab)
    record_audit(site.lab, by, Act.SITE_ZONE, site.name, {"zone": zone, "always": True}, now)


def _possible_pue(pue_ppm: int) -> int:
    if pue_ppm < PPM:
        raise InvalidInput("A PUE is never below 1.", field="pue", hint="Write for example 1.4.")
    return pue_ppm


@transaction.atomic
def set_pue(
    *, site: Site, pue_ppm: int, from_us: int, note: str = "", by: User | None = None, now: int | None = None
) -> SitePue:
    """Record a site's PUE from the whole UTC hour that holds ``from_us`` on."""
    facts = _locked(site).pues.filter(ACTIVE)
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
    """Record that a site's PUE was always this. Prices its past again."""
    _possible_pue(pue_ppm)
    withdraw(_locked(site).pues.filter(ACTIVE), by, now)
    SitePue.objects.create(site=site, from_hour=0, pue_ppm=pue_ppm, note=note, recorded_us=now, recorded_by=by)
    enqueue_site_updates(site.lab)
    record_audit(site.lab, by, Act.SITE_PUE, site.name, {"pue_ppm": pue_ppm, "always": True, "note": note}, now)


@transaction.atomic
def set_price(*, site: Site, ucurrency_per_kwh: int, currency: str, from_us: int, by: User | None, now: int) -> SitePrice:
    """Record what electricity costs at a site (millionths of ``currency`` per kWh) from a whole UTC hour on."""
    if currency not in CURRENCIES:
        raise InvalidInput(
            f"{currency[:20]!r} is not a currency.", field="currency", hint="Write its three letters, such as EUR."
        )
    if ucurrency_per_kwh < 0:
        raise InvalidInput("A price is never below zero.", field="price", hint="Write for example 0.31.")
    facts = _locked(site).prices.filter(ACTIVE)
    site_price = SitePrice.objects.create(
        site=site,
        from_hour=require_free_hour(facts, whole_hour(from_us), f"A price of {site.name}"),
        ucurrency_per_kwh=ucurrency_per_kwh,
        currency=currency,
        recorded_us=now,
        recorded_by=by,
    )
    details = {"ucurrency_per_kwh": ucurrency_per_kwh, "currency": currency, "from_hour": site_price.from_hour}
    record_audit(site.lab, by, Act.SITE_PRICE, site.name, details, now)
    return site_price


@transaction.atomic
def withdraw_site_fact(*, fact: SiteZone | SitePue | SitePrice, by: User | None, now: int) -> None:
    """Withdraw the latest zone, PUE or price of a site: what held before holds again."""
    site = _locked(fact.site)
    facts = type(fact).objects.filter(ACTIVE, site=site).order_by("-from_hour")
    require_latest(facts, fact, "entry")
    if facts.count() == 1 and not isinstance(fact, SitePrice):
        raise Conflict(
            "The first entry of a history cannot be withdrawn, as nothing would hold.",
            hint="Correct it instead: say what was always so.",
        )
    withdraw(facts.filter(pk=fact.pk), by, now)
    enqueue_site_updates(site.lab)
    record_audit(site.lab, by, Act.SITE_WITHDRAWN, site.name, {"entry": str(fact), "from_hour": fact.from_hour}, now)
