"""Prices of a cost with their site, date and energy, costs in other currencies, and sites without
a price.
"""

from dataclasses import dataclass

from django.urls import reverse

from apps.accounts.models import Lab
from apps.carbon.figures.cost import PricePart, cost_from, price_parts
from apps.carbon.figures.energy import Figure
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.clock import utc
from apps.core.units import MJ_PER_KWH, US_PER_HOUR
from apps.dashboard.figures import Quantity, amount_quantity
from apps.dashboard.formatting import figure_text, grouped, percent, pue
from apps.dashboard.nodes.site_pages import price_text
from apps.fleet.choices import PriceKind
from apps.fleet.models import Site, SitePrice
from apps.fleet.tariffs import range_text


@dataclass(frozen=True)
class PriceRow:
    """A part of a cost: a price of a site, a PUE, and exact integers as text. ``price`` None: no
    price is known. ``is_added``: the price is in the currency of the figure. ``mean``: of a price
    that changes by hour, per kWh of facility energy, '' for others.
    """

    price: SitePrice | None
    text: str
    pue: str
    energy: str
    facility: str
    cost: str
    is_added: bool
    from_us: int = 0
    mean: str = ""

    @property
    def site_href(self) -> str:
        return reverse("site-prices", args=[self.price.site_id]) if self.price else ""

    @property
    def is_by_file(self) -> bool:
        return self.price is not None and self.price.kind == PriceKind.HOURLY


@dataclass(frozen=True)
class CostView:
    """What a cost is the sum of. ``known``: the share of the energy with a price in its currency,
    in percent. ``others``: costs in other currencies, which are never added.
    """

    rows: list[PriceRow]
    sums: PriceRow
    prices: list[PriceRow]
    single: PriceRow | None
    known: str
    others: list[Quantity]
    without_price: str
    sites_without_price: list[Site]

    @property
    def citation(self) -> list[str]:
        """Return the prices with site and date, for a citation."""
        return [
            f"{row.price.site.name} {row.text} from {utc(row.from_us):%Y-%m-%d}"
            for row in self.prices
            if row.price and row.is_added
        ]


def cost_view(lab: Lab, query: FigureQuery, whole: Figure) -> CostView:
    """Return the parts of a cost. Two queries, and four more if some energy has no price."""
    parts = price_parts(lab, query)
    cost = cost_from(lab, query, parts)
    rows = [_row(part, query.currency) for part in parts]
    by_price = {row.price.pk: row for row in rows if row.price}
    sums = PriceRow(
        None,
        "Sum",
        "",
        grouped(whole.energy_mj),
        grouped(whole.facility_energy_mj),
        grouped(whole.cost_ucurrency) if cost.own.energy_mj else "unknown",
        True,
    )
    return CostView(
        rows=rows,
        sums=sums,
        prices=list(by_price.values()),
        single=rows[0] if len(rows) == 1 and rows[0].is_added else None,
        known=percent(cost.own.energy_mj, cost.energy_mj),
        others=[amount_quantity(other.query, other.cost_ucurrency) for other in cost.others],
        without_price=figure_text("energy_mj", cost.without_price_mj)
        if cost.without_price_mj or cost.sites_without_price
        else "",
        sites_without_price=cost.sites_without_price,
    )


def _row(part: PricePart, currency: str) -> PriceRow:
    figure, price = part.figure, part.price
    is_added = price is not None and price.currency == currency
    cost = grouped(figure.cost_ucurrency) if price else "unknown"
    return PriceRow(
        price=price,
        text=price_text(price) if price else "no price",
        pue=pue(part.pue_ppm) if part.pue_ppm is not None else "unknown",
        energy=grouped(figure.energy_mj),
        facility=grouped(figure.facility_energy_mj) if part.pue_ppm is not None else "unknown",
        cost=cost if is_added or price is None else f"{cost} {price.currency}",
        is_added=is_added,
        from_us=price.from_hour * US_PER_HOUR if price else 0,
        mean=_mean(price, figure) if price else "",
    )


def _mean(price: SitePrice, figure: Figure) -> str:
    """Return the mean price paid, weighted by energy, if the price changes by hour."""
    mj = figure.facility_energy_mj
    if price.kind == PriceKind.FLAT or mj <= 0:
        return ""
    ucurrency = (2 * figure.cost_ucurrency * MJ_PER_KWH + mj) // (2 * mj)
    return f"{range_text(ucurrency, ucurrency)} {price.currency}"
