"""Electricity costs of a lab by currency: of IT equipment, and of cooling and distribution."""

from collections import defaultdict
from dataclasses import dataclass, field

from apps.accounts.models import Lab
from apps.carbon.figures.cost import price_parts, sites_without_price
from apps.carbon.figures.energy import figures_by
from apps.carbon.figures.figure_query import ANY, COST, FigureQuery
from apps.core.units import END_HOUR, PPM, it_part
from apps.fleet.choices import Control, SiteKind
from apps.fleet.dated_facts import dated_intervals
from apps.fleet.models import ACTIVE, Node, Placement, Site

OWN, CLOUD, ELSEWHERE = "own", "cloud", "elsewhere"


@dataclass(frozen=True)
class ElectricityCost:
    """The cost in one currency. The parts sum exactly to ``cost_ucurrency``."""

    cost_ucurrency: int = 0
    it_ucurrency: int = 0

    @property
    def cooling_ucurrency(self) -> int:
        return self.cost_ucurrency - self.it_ucurrency


@dataclass(frozen=True)
class Unpriced:
    """Energy without a price. ``sites``: of its nodes. ``nodes``: those that are at no site.
    ``cloud_mj``: at cloud providers, ``elsewhere_mj``: at other declared sites; neither is paid by
    the kilowatt-hour. ``energy_mj``: all other energy, whose cost is unknown.
    """

    energy_mj: int = 0
    cloud_mj: int = 0
    elsewhere_mj: int = 0
    sites: list[Site] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)


@dataclass(frozen=True)
class Electricity:
    """The electricity costs of a period by currency, and the energy without a price."""

    costs: dict[str, ElectricityCost]
    unpriced: Unpriced


def electricity_of(lab: Lab, query: FigureQuery) -> Electricity:
    """Return the electricity costs of a period. Two queries, and seven more if some energy has no
    price.

    The cost of each price and PUE is divided by that PUE: the part of IT equipment is rounded half
    up, and cooling and distribution is the rest.
    """
    costs: dict[str, ElectricityCost] = {}
    has_unpriced = False
    for part in price_parts(lab, query):
        if part.price is None:
            has_unpriced = True
            continue
        cost = part.figure.cost_ucurrency
        so_far = costs.get(part.price.currency, ElectricityCost())
        costs[part.price.currency] = ElectricityCost(
            so_far.cost_ucurrency + cost,
            so_far.it_ucurrency + it_part(cost, part.pue_ppm or PPM),
        )
    return Electricity(costs, _unpriced(lab, query) if has_unpriced else Unpriced())


def _unpriced(lab: Lab, query: FigureQuery) -> Unpriced:
    parts = figures_by(lab, query.replace(metric=COST, currency=ANY), ["node", "price"])
    energy = {node: part.energy_mj for (node, price), part in parts.items() if price is None}
    nodes = list(Node.objects.filter(lab=lab, uuid__in=energy).order_by("hostname", "pk"))
    sites_by_node = _sites_by_node(query, nodes)
    before_prices = set(sites_without_price(lab, query))
    sums: dict[str, int] = defaultdict(int)
    sites: set[Site] = set()
    for node in nodes:
        place = _place(sites_by_node[node.pk])
        sums[place] += energy[str(node.uuid)]
        if place == OWN:
            own = {site for site in sites_by_node[node.pk] if _place({site}) == OWN}
            sites |= own & before_prices or own  # else an hour of a price by hour is missing
    return Unpriced(
        energy_mj=sums[OWN],
        cloud_mj=sums[CLOUD],
        elsewhere_mj=sums[ELSEWHERE],
        sites=sorted(sites, key=lambda site: (site.name, site.pk)),
        nodes=[node for node in nodes if not sites_by_node[node.pk]],
    )


def _sites_by_node(query: FigureQuery, nodes: list[Node]) -> dict[int, set[Site]]:
    """Return the sites of nodes in the period by node id. One query."""
    histories: dict[int, list[tuple[int, Site]]] = {node.pk: [] for node in nodes}
    for each in Placement.objects.filter(ACTIVE, node__in=nodes).select_related("site"):
        histories[each.node_id].append((each.from_hour, each.site))
    return {
        node_id: {
            site
            for start, end, site in (dated_intervals(history) if history else ())
            if start < query.to_hour and (END_HOUR if end is None else end) > query.from_hour
        }
        for node_id, history in histories.items()
    }


def _place(sites: set[Site]) -> str:
    """Return where energy counts. A node that was at sites of two kinds, or at none, is own."""
    if sites and all(site.control == Control.CLOUD for site in sites):
        return CLOUD
    if sites and all(site.kind == SiteKind.DECLARED for site in sites):
        return ELSEWHERE
    return OWN
