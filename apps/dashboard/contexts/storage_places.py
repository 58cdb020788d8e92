"""Where bytes lie: sites with their grid and PUE, what keeping costs there, and what is missing to know it."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.artifacts.storage_model import Cost, Lot, cost
from apps.carbon.figures.energy import applied_factors
from apps.carbon.models import EmissionFactor
from apps.dashboard.artifacts.storage_cost import emission_shown, energy_shown
from apps.dashboard.figures import WouldBe
from apps.dashboard.formatting import Unit, grams_per_kwh, pue, size
from apps.fleet.models import Site
from apps.fleet.selectors import placements_at

ADDRESS, NOWHERE = "At addresses", "On machines that stand at no site"


@dataclass(frozen=True)
class Place:
    """A site, or what lies at none. ``factor`` and ``pue`` are '' where nobody knows them; ``mend`` says what to do then,
    at ``mend_href``."""

    name: str
    href: str
    size: str
    pue: str
    factor: str
    source: str
    energy: WouldBe | None
    emission: WouldBe | None
    mend: str
    mend_href: str


def places_shown(lab: Lab, lots: Sequence[Lot], hour: int, energy: Unit, emission: Unit) -> list[Place]:
    """Return the places where lots lie in a UTC hour, the largest first, in the units of the page. Two queries."""
    stood = placements_at(lab, hour)
    applied = applied_factors(lab, lab.basis, hour)
    sites: dict[int | str, Site] = {}
    sums: dict[int | str, Cost] = {}
    factors: dict[int | str, EmissionFactor | None] = {}
    pues: dict[int | str, int | None] = {}
    for lot in lots:
        placement = stood.get(lot.node_id) if lot.node_id is not None else None
        key: int | str = placement.site_id if placement else ADDRESS if lot.node_id is None else NOWHERE
        if placement:
            sites[key] = placement.site
        held = applied.get(lot.node_id) if lot.node_id is not None else None
        factors[key] = factors.get(key) or (held.factor if held else None)
        pues[key] = lot.pue_ppm
        sums[key] = sums.get(key, Cost()) + cost(lot)
    ordered = sorted(sums, key=lambda key: (-sums[key].bytes, str(key)))
    return [_place(key, sites.get(key), sums[key], factors[key], pues[key], energy, emission) for key in ordered]


def _place(
    key: int | str, site: Site | None, it: Cost, factor: EmissionFactor | None, pue_ppm: int | None, energy: Unit,
    emission: Unit,
) -> Place:  # fmt: skip
    mend, mend_href = _mend(key, site, factor, pue_ppm)
    return Place(
        name=site.name if site else str(key),
        href=f"/sites/{site.pk}/" if site else "",
        size=size(it.bytes),
        pue=pue(pue_ppm) if pue_ppm is not None else "",
        factor=f"{grams_per_kwh(factor.ug_per_kwh)} g/kWh" if factor else "",
        source=f"{factor.zone_name} {factor.year}, edition {factor.edition}: {factor.source}" if factor else "",
        energy=energy_shown(it, energy),
        emission=emission_shown(it, emission),
        mend=mend,
        mend_href=mend_href,
    )


def _mend(key: int | str, site: Site | None, factor: EmissionFactor | None, pue_ppm: int | None) -> tuple[str, str]:
    if site is None:
        if key == ADDRESS:
            return "an address lies at no site: neither its grid nor its PUE is known", ""
        return "say where the machines stand", "/nodes/"
    if factor is None:
        return "no factor: choose its grid zone", f"/sites/{site.pk}/"
    return ("record its PUE", f"/sites/{site.pk}/") if pue_ppm is None else ("", "")
