"""Unmeasured inputs of the replacement analysis: grid and PUE of the site, and catalogue values."""

from dataclasses import dataclass
from datetime import UTC, datetime

from django.urls import reverse

from apps.accounts.models import Lab
from apps.assets.models import Asset
from apps.carbon.factors import factors_of_zone
from apps.carbon.figures.energy import applied_factor
from apps.carbon.figures.factor_spans import PeriodFactor, factor_for_year
from apps.carbon.models import EmissionFactor
from apps.catalog.choices import FigureUnit
from apps.catalog.models import EmbodiedFigure, HardwareModel
from apps.catalog.selectors import best_figure, category_default
from apps.core.units import UG_PER_G
from apps.fleet.dated_facts import value_at
from apps.fleet.models import ACTIVE, Node, Site
from apps.fleet.selectors import placement_of, zone_at
from apps.replacement.payback import Known


@dataclass(frozen=True)
class Input:
    """One input with its range and its source.

    ``origin``: yours, measured, catalogue, lab or assumed.
    """

    field: str
    needed: Known
    origin: str
    source: str
    licence: str = ""
    pack: str = ""
    href: str = ""  # the page that shows it


def site_of_asset(asset: Asset, node: Node | None, hour: int) -> Site | None:
    """Return the site of an asset by its meter's node, else the register, else its machine."""
    if node is not None:
        placement = placement_of(node, hour)
        return placement.site if placement else None
    return asset.site or (asset.parent.site if asset.parent else None)


def grid(lab: Lab, asset: Asset, node: Node | None, hour: int) -> Input | None:
    """Return the current factor of the asset's site with its edition.

    None: no zone, or no factor.
    """
    factor = _factor(lab, asset, node, hour)
    if factor is None:
        return None
    ug = factor.ug_per_kwh
    assert ug is not None, "only hours have factors without a value of their own"
    low, high = factor.low_ug_per_kwh, factor.high_ug_per_kwh
    known = Known(
        ug, min(ug, low) if low is not None else ug, max(ug, high) if high is not None else ug
    )
    source = f"{factor.name}, {ug / UG_PER_G:.0f} g/kWh, edition {factor.edition}: {factor.source}"
    return Input("ci_ug_per_kwh", known, "lab", source, factor.licence)


def _factor(lab: Lab, asset: Asset, node: Node | None, hour: int) -> EmissionFactor | None:
    applied = applied_factor(node, lab.basis, hour) if node else None
    if applied is not None:
        return applied.factor
    site = site_of_asset(asset, node, hour)
    zone = zone_at(site, hour) if site else ""
    if not zone:
        return None
    factors = {factor.pk: factor for factor in factors_of_zone(lab, zone)}
    year = datetime.fromtimestamp(hour * 3600, tz=UTC).year
    year_factor = factor_for_year(
        [PeriodFactor(factor.pk, factor.year, factor.month) for factor in factors.values()], year
    )
    return factors[year_factor.factor_id] if year_factor else None


def pue_of(lab: Lab, asset: Asset, node: Node | None, hour: int) -> Input | None:
    """Return the current PUE of the asset's site. None: site unknown."""
    site = site_of_asset(asset, node, hour)
    if site is None:
        return None
    pue_ppm = value_at(list(site.pues.filter(ACTIVE).values_list("from_hour", "pue_ppm")), hour)
    return (
        None
        if pue_ppm is None
        else Input(
            "pue_ppm",
            Known.exact(pue_ppm),
            "lab",
            f"PUE of {site.name}",
            href=reverse("site", args=[site.pk]),
        )
    )


def embodied_input(lab: Lab, new: HardwareModel) -> Input | None:
    """Return the embodied carbon of a new asset by its model, else by its kind, else None."""
    figure = best_figure(new, lab)
    if figure is None or figure.unit != FigureUnit.ITEM:
        figure = category_default(new.kind, new.category) or category_default(new.kind)
        if figure is None or figure.unit != FigureUnit.ITEM:
            return None
        return _embodied_input(
            figure, f"no figure of this model: the default of its kind, {figure.model.name}, "
        )
    return _embodied_input(figure, "")


def _embodied_input(figure: EmbodiedFigure, before: str) -> Input:
    known = Known(max(1, figure.total_ug), max(1, figure.low_ug), max(1, figure.high_ug))
    year = (
        f", {figure.source_year}"
        if figure.source_year and str(figure.source_year) not in figure.source
        else ""
    )
    source = f"{before}{figure.get_method_display().lower()}: {figure.source}{year}"
    href = f"{reverse('catalog-model', args=[figure.model_id])}#figure-{figure.pk}"
    return Input("te_ug", known, "catalogue", source, figure.licence, figure.pack, href)


def new_power(old: HardwareModel | None, new: HardwareModel, old_mw: Input | None) -> Input | None:
    """Return the mean power of a new card in use: rated power × load of the old card.

    None: not rated.
    """
    if not new.tdp_mw:
        return None
    tdp = new.tdp_mw
    if old is None or not old.tdp_mw or old_mw is None or old_mw.origin == "catalogue":
        known = Known(tdp, tdp * 6 // 10, tdp)
        source = f"rated power, at least 60 % of it ({new.source})"
        return Input(
            "new_mw",
            known,
            "catalogue",
            source,
            new.licence,
            href=reverse("catalog-model", args=[new.pk]),
        )
    value = min(tdp, tdp * old_mw.needed.value // old.tdp_mw)
    known = Known(value, value * 6 // 10, max(value, min(tdp, value * 14 // 10)))
    source = (
        f"rated power × the old one's load, {value * 100 // tdp} %, ±40 % and at most rated "
        f"({new.source})"
    )
    return Input(
        "new_mw",
        known,
        "catalogue",
        source,
        new.licence,
        href=reverse("catalog-model", args=[new.pk]),
    )
