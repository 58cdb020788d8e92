"""The register as CSV. :mod:`apps.assets.spreadsheets.preview` reads the same assets from it.

The file contains facts, purchase or lease, embodied carbon in parts, start of use, and end of
life with its kind, mass and entered emissions. It does not contain past moves, loans and
transfers: owner and site are the current ones.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal

from django.db.models import QuerySet

from apps.assets.choices import OPENING, EventKind
from apps.assets.lifecycle import active_events
from apps.assets.models import Asset, LifecycleEvent
from apps.assets.services.charges import as_event
from apps.assets.services.register_changes import has_default_emissions
from apps.assets.spreadsheets.cells import MILLION
from apps.assets.spreadsheets.formats import OWN
from apps.assets.spreadsheets.rows import UNKNOWN
from apps.core.units import HOURS_PER_YEAR, UG_PER_KG

CHUNK = 500
_G_PER_KG = 1000
_YES_NO = {True: "yes", False: "no", None: ""}


def rows(assets: QuerySet[Asset]) -> Iterator[list[str]]:
    """Yield assets as rows of the columns OWN, in batches. Times are UTC."""
    assets = assets.select_related("model", "owner", "site", "parent").order_by("pk")
    last = 0
    while True:
        part = list(assets.filter(pk__gt=last)[:CHUNK])
        if not part:
            return
        last = part[-1].pk
        events_by_asset = _events_by_asset([asset.pk for asset in part])
        for asset in part:
            asset_cells = _asset_cells(asset, events_by_asset[asset.pk])
            yield [asset_cells.get(name, "") for name in OWN]


def _events_by_asset(ids: Iterable[int]) -> dict[int, list[LifecycleEvent]]:
    asset_events: dict[int, dict[int, LifecycleEvent]] = {pk: {} for pk in ids}
    for row in LifecycleEvent.objects.filter(asset_id__in=list(asset_events)):
        asset_events[row.asset_id][row.pk] = row
    return {
        asset_id: [
            events[event.id] for event in active_events([as_event(row) for row in events.values()])
        ]
        for asset_id, events in asset_events.items()
    }


def _asset_cells(asset: Asset, life: list[LifecycleEvent]) -> dict[str, str]:
    asset_cells = {
        "name": asset.name,
        "kind": asset.kind,
        "model": asset.model.name if asset.model else "",
        "serial": asset.serial,
        "tag": asset.tag,
        "supplier": asset.supplier,
        "currency": asset.currency,
        "location": asset.location,
        "note": asset.note,
        "order_number": asset.order_number,
        "contact": asset.contact,
        "owner": asset.owner.slug if asset.owner else "",
        "site": asset.site.name if asset.site else "",
        "parent": (asset.parent.tag or asset.parent.name) if asset.parent else "",
        "warranty_until": asset.warranty_until.isoformat() if asset.warranty_until else "",
        "price": _plain(asset.price_ucurrency, MILLION),
    }
    for event in life:
        asset_cells |= _of_event(event)
    return asset_cells


def _of_event(event: LifecycleEvent) -> dict[str, str]:
    if event.kind in OPENING:
        is_leased = event.kind == EventKind.LEASE
        return {
            "bought_on": _utc(event.hour),
            "life_years": _years(event.life_hours),
            "amortisation": event.amortisation,
            "second_hand": "yes" if event.kind == EventKind.SECOND_HAND else "",
            **({"leased": "yes", "lessor": event.counterpart} if is_leased else {}),
            **_embodied(event),
        }
    if event.kind == EventKind.DISPOSE:
        return {
            "disposed_on": _utc(event.hour),
            "end_of_life": event.end_of_life,
            "mass_kg": _plain(event.mass_g, _G_PER_KG),
            "recipient": event.counterpart,
            **_end_of_life_emissions(event),
        }
    names = {EventKind.DEPLOY: "in_use_since", EventKind.RETIRE: "retired_on"}
    name = names.get(EventKind(event.kind))
    return {name: _utc(event.hour)} if name else {}


def _embodied(event: LifecycleEvent) -> dict[str, str]:
    if event.total_ug is None:
        return {"embodied_kg": UNKNOWN}
    parts = ("low", "high", "manufacture", "transport", "end_of_life")
    return {
        "embodied_kg": _plain(event.total_ug, UG_PER_KG),
        "embodied_source": event.source,
        "embodied_includes_end_of_life": _YES_NO[event.includes_end_of_life],
        **{
            f"embodied_{part}_kg": _plain(getattr(event, f"{part}_ug"), UG_PER_KG) for part in parts
        },
    }


def _end_of_life_emissions(disposal: LifecycleEvent) -> dict[str, str]:
    """Return emissions that somebody entered. The default follows from the other columns."""
    if has_default_emissions(disposal):
        return {}
    return {
        "end_of_life_kg": _plain(disposal.total_ug, UG_PER_KG),
        "end_of_life_source": disposal.source,
    }


def _plain(value: int | None, per: int) -> str:
    """Return an amount in small units as an exact decimal of the large unit."""
    if value is None:
        return ""
    text = f"{Decimal(value) / per:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _years(hours: int | None) -> str:
    return f"{round(Decimal(hours) / HOURS_PER_YEAR, 6).normalize():f}" if hours else ""


def _utc(hour: int) -> str:
    return datetime.fromtimestamp(hour * 3600, tz=UTC).strftime("%Y-%m-%dT%H:%MZ")
