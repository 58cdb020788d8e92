"""Content of the preview of a change of the lab's basis."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.accounts.choices import Basis
from apps.accounts.models import Lab
from apps.carbon.basis import SiteBasis
from apps.carbon.factor_levels import Level
from apps.carbon.providers.registry import PROVIDERS
from apps.carbon.providers.services import providers_of
from apps.dashboard.formatting import grams_per_kwh


@dataclass(frozen=True)
class SiteRow:
    """A site with its factor before and after, '' for none."""

    row: SiteBasis
    before: str
    after: str


@dataclass(frozen=True)
class BasisPage:
    """What a change means. ``unpriced``: names of sites that lose their factor. ``stopped``:
    providers without factors on the new basis.
    """

    basis: Basis
    rows: list[SiteRow]
    unpriced: list[str]
    stopped: list[str]


def basis_page(lab: Lab, basis: Basis, rows: Sequence[SiteBasis]) -> BasisPage:
    """Return the preview of a change of the basis. One query."""
    return BasisPage(
        basis=basis,
        rows=[SiteRow(row, _text(row.before), _text(row.after)) for row in rows],
        unpriced=[row.site.name for row in rows if row.zone and row.after is None],
        stopped=[
            f"{PROVIDERS[each.kind].label} {each.zone}"
            for each in providers_of(lab)
            if each.kind in PROVIDERS and basis not in PROVIDERS[each.kind].bases
        ],
    )


def _text(level: Level | None) -> str:
    if level is None:
        return ""
    return f"{grams_per_kwh(level.ug_per_kwh)} g/kWh, {level.factor.name}"
