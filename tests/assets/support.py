"""Assets for tests, registered through the services of the product."""

from typing import Any

from apps.assets.models import Asset, EmbodiedCharge
from apps.assets.services import Draft, Embodied, Entry, Facts, register
from apps.assets.services.charges import events_of
from apps.core.units import UG_PER_KG, US_PER_HOUR
from apps.fleet.models import Device
from tests.builders import T0, SmallLab

KG = UG_PER_KG
YEAR = 8_760
H0 = T0 // US_PER_HOUR


def bought(
    lab: SmallLab,
    *,
    kg: int | None = 120,
    years: int = 4,
    at_us: int = T0,
    kind: str = "gpu",
    name: str = "A100 no. 1",
    now: int = T0 + 365 * 24 * US_PER_HOUR,
    deployed: bool = True,
    device: Device | None = None,
    opening: dict[str, Any] | None = None,
    **facts: Any,
) -> Asset:
    """Register an asset of ``kg`` (None: unknown), deployed at purchase."""
    embodied = (
        None
        if kg is None
        else Embodied(kg * KG, kg * KG * 7 // 10, kg * KG * 13 // 10, source="a test's figure")
    )
    entry = Entry("purchase", at_us, embodied=embodied, life_hours=years * YEAR, **(opening or {}))
    draft = Draft(
        Facts(name, kind, **facts), entry, deployed_us=at_us if deployed else None, device=device
    )
    return register(lab=lab.lab, draft=draft, by=lab.owner, now=now)


def borne(
    asset: Asset, from_hour: int = 0, to_hour: int = 3_000_000
) -> dict[tuple[str | None, str], int]:
    """Return the µg charged in ``[from_hour, to_hour)`` by (project's slug, kind)."""
    found: dict[tuple[str | None, str], int] = {}
    for row in EmbodiedCharge.objects.filter(asset=asset).select_related("project"):
        length = row.to_hour - row.from_hour
        low, high = (min(max(hour - row.from_hour, 0), length) for hour in (from_hour, to_hour))
        part = row.amount_ug * high // length - row.amount_ug * low // length
        key = (row.project.slug if row.project else None, row.kind)
        if part:
            found[key] = found.get(key, 0) + part
    return found


def brought(asset: Asset) -> int:
    """Return the embodied carbon of an asset's active events (µg)."""
    return sum(event.total_ug or 0 for event in events_of([asset.pk])[asset.pk])
