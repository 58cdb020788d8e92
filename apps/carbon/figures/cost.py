"""Costs of figures: the amount in the lab's currency, the share of the energy with a price, costs
in other currencies, and the sites without a price.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from apps.accounts.models import Lab
from apps.carbon.figures.energy import Figure, figures_by
from apps.carbon.figures.figure_query import ANY, COST, FigureQuery
from apps.carbon.models import AppliedFactor, HourPrice
from apps.core.units import END_HOUR, PPM
from apps.fleet.dated_facts import dated_intervals
from apps.fleet.models import ACTIVE, Placement, Site, SitePrice
from apps.fleet.selectors import price_histories


@dataclass(frozen=True)
class CurrencyCost:
    """The part of a figure with prices in one currency."""

    query: FigureQuery
    cost_ucurrency: int = 0
    energy_mj: int = 0

    @property
    def currency(self) -> str:
        return self.query.currency


@dataclass(frozen=True)
class Cost:
    """The cost of a figure. ``own`` is in the lab's currency, ``others`` in other ones; they are
    never added. ``without_price_mj`` is energy without any price: its cost is unknown, not 0.
    """

    own: CurrencyCost
    others: list[CurrencyCost]
    energy_mj: int
    without_price_mj: int
    sites_without_price: list[Site] = field(default_factory=list)

    @property
    def known_ppm(self) -> int | None:
        """Return the share of the energy whose cost is in ``own``. None: no energy."""
        return self.own.energy_mj * PPM // self.energy_mj if self.energy_mj else None


@dataclass(frozen=True)
class PricePart:
    """The part of a figure with one price (None: unknown) and PUE (None: site unknown)."""

    price: SitePrice | None
    pue_ppm: int | None
    figure: Figure


def price_parts(lab: Lab, query: FigureQuery) -> list[PricePart]:
    """Return the parts of a figure by price and PUE, largest energy first. Two queries."""
    parts = figures_by(lab, query.replace(metric=COST, currency=ANY), ["price", "pue"])
    prices = SitePrice.objects.select_related("site", "recorded_by").in_bulk(
        {price for price, _ in parts if price is not None}
    )
    listed = [
        PricePart(prices[price] if price is not None else None, pue_ppm, part)
        for (price, pue_ppm), part in parts.items()
        if part.entries
    ]
    return sorted(listed, key=lambda part: -part.figure.energy_mj)


def cost_of(lab: Lab, query: FigureQuery) -> Cost:
    """Return the cost of a figure query, whatever its metric. Two queries, and five or more if some
    energy has no price.
    """
    return cost_from(lab, query, price_parts(lab, query))


def cost_from(lab: Lab, query: FigureQuery, parts: list[PricePart]) -> Cost:
    """Return the cost of a figure from its parts. Five queries and more if some energy has no
    price.
    """
    own = query.currency or lab.currency
    sums: dict[str, Figure] = defaultdict(Figure)
    for part in parts:
        sums[part.price.currency if part.price else ""] += part.figure
    costs = {
        currency: CurrencyCost(
            query.replace(metric=COST, currency=currency), whole.cost_ucurrency, whole.energy_mj
        )
        for currency, whole in sums.items()
        if currency
    }
    unpriced = sums.get("", Figure())
    nothing = CurrencyCost(query.replace(metric=COST, currency=own))
    return Cost(
        own=costs.pop(own, nothing),
        others=[costs[currency] for currency in sorted(costs)],
        energy_mj=sum(whole.energy_mj for whole in sums.values()),
        without_price_mj=unpriced.energy_mj,
        sites_without_price=sites_without_price(lab, query) if unpriced.entries else [],
    )


def sites_without_price(lab: Lab, query: FigureQuery) -> list[Site]:
    """Return the sites of nodes with energy in the figure, in hours without a price of the site.
    Five queries, and one for each stay at a site with hourly prices before its first other price.
    """
    parts = figures_by(lab, query.replace(metric=COST, currency=ANY), ["node", "price"])
    nodes = {node for (node, price) in parts if price is None and node is not None}
    starts = {site_id: history[0][0] for site_id, history in price_histories(lab).items()}
    by_hour = set(
        AppliedFactor.objects.filter(node__lab=lab).values_list("hourly_site_id", flat=True)
    )
    histories: dict[int, list[tuple[int, int]]] = defaultdict(list)
    placements = Placement.objects.filter(ACTIVE, node__lab=lab, node__uuid__in=nodes)
    for node_id, hour, site_id in placements.values_list("node_id", "from_hour", "site_id"):
        histories[node_id].append((hour, site_id))
    found: set[int] = set()
    for history in histories.values():
        for start, end, site_id in dated_intervals(history):
            first = max(start, query.from_hour)
            until = min(
                END_HOUR if end is None else end, query.to_hour, starts.get(site_id, END_HOUR)
            )
            hours = until - first
            if site_id not in found and site_id in by_hour and hours > 0:
                priced = HourPrice.objects.filter(site=site_id, hour__gte=first, hour__lt=until)
                hours -= priced.count()
            if hours > 0:
                found.add(site_id)
    return list(Site.objects.filter(pk__in=found).order_by("name", "id"))
