"""Content of the page of costs: lines and totals by currency, and what is unknown."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.billing.models import BilledMonth
from apps.carbon.figures.figure_query import COST, FigureQuery
from apps.dashboard.costs.cost_items import (
    Costs,
    Item,
    Line,
    State,
    costs_of,
    month_name,
)
from apps.dashboard.figures import Projected, Quantity, amount_quantity, estimated
from apps.dashboard.periods import Period
from apps.fleet.models import Node, Site

LABELS = {
    Line.SERVERS: ("Servers and GPUs", "Share of the purchase price of servers, GPUs and CPUs"),
    Line.NETWORK: ("Network", "Share of the purchase price of network devices"),
    Line.OTHER: ("Other assets", "Share of the purchase price of all other kinds"),
    Line.IT: ("Electricity of IT equipment", "Energy as metered"),
    Line.COOLING: ("Cooling and distribution", "The rest of the electricity cost: PUE − 1"),
    Line.CLOUD: ("Cloud", "Billed compute, storage and transfer, with fees, taxes and credits"),
}
HARDWARE = (Line.SERVERS, Line.NETWORK, Line.OTHER)
NAMED_ASSETS = 5
CSV_HEADER = (
    "from_utc", "to_utc", "line", "item", "asset_id", "state", "currency", "price_ucurrency",
    "cost_ucurrency", "written_off_ucurrency",
)  # fmt: skip


@dataclass(frozen=True)
class LineRow:
    """A line in one currency. ``state``: known, unknown, left out, or none. ``value``: the exact
    sum of its known items. ``whole``: the electricity cost of which it is a part.
    """

    key: str
    label: str
    meaning: str
    state: str
    value: int
    amount: Projected | None
    assets: int = 0
    written_off: Projected | None = None
    whole: Quantity | None = None


@dataclass(frozen=True)
class CurrencyCosts:
    """The lines of one currency and their total, which is exact. ``state`` of the total."""

    currency: str
    rows: list[LineRow]
    state: str
    value: int
    total: Projected | None


@dataclass(frozen=True)
class BilledLink:
    """A billed month by name."""

    month: BilledMonth
    name: str


@dataclass(frozen=True)
class CostsPage:
    """Content of the page. ``assets``: the first assets without a price, of ``asset_count``."""

    period: Period
    is_empty: bool
    currencies: list[CurrencyCosts]
    assets: list[Item]
    asset_count: int
    energy: Projected | None
    sites: list[Site]
    nodes: list[Node]
    has_unbilled: bool
    cloud_energy: Projected | None
    elsewhere_energy: Projected | None
    left_out: list[BilledLink]
    has_months: bool

    @property
    def total(self) -> Projected | None:
        """Return the total in the lab's currency, None if no part of it is known."""
        return self.currencies[0].total

    @property
    def more_assets(self) -> int:
        return self.asset_count - len(self.assets)

    @property
    def is_incomplete(self) -> bool:
        return bool(self.asset_count or self.energy or self.has_unbilled or self.left_out)


def costs_page(lab: Lab, period: Period, now: int) -> CostsPage:
    """Return the content of the page."""
    costs = costs_of(lab, period, now)
    unpriced = costs.unpriced
    unknown = [
        item for item in costs.items if item.asset_id is not None and item.state == State.UNKNOWN
    ]
    return CostsPage(
        period=costs.period,
        is_empty=not (costs.items or unpriced.cloud_mj or unpriced.elsewhere_mj),
        currencies=_currencies(lab, costs),
        assets=unknown[:NAMED_ASSETS],
        asset_count=len(unknown),
        energy=_energy(unpriced.energy_mj),
        sites=unpriced.sites,
        nodes=unpriced.nodes,
        has_unbilled=costs.has_unbilled,
        cloud_energy=_energy(unpriced.cloud_mj),
        elsewhere_energy=_energy(unpriced.elsewhere_mj),
        left_out=[BilledLink(month, month_name(month)) for month in costs.left_out],
        has_months=bool(costs.months or costs.left_out),
    )


def _energy(energy_mj: int) -> Projected | None:
    return estimated(energy_mj) if energy_mj else None


def _currencies(lab: Lab, costs: Costs) -> list[CurrencyCosts]:
    """Return the costs in the lab's currency with all lines, then those in other currencies."""
    others = sorted({item.currency for item in costs.items} - {"", lab.currency})
    own = lab.currency or (others.pop(0) if others else "")
    return [
        _currency_costs(lab, costs, own, list(Line)),
        *(
            _currency_costs(
                lab,
                costs,
                currency,
                [
                    line
                    for line in Line
                    if any(each.line == line and each.currency == currency for each in costs.items)
                ],
            )
            for currency in others
        ),
    ]


def _currency_costs(lab: Lab, costs: Costs, currency: str, lines: list[Line]) -> CurrencyCosts:
    # An unknown price has no currency, so it makes the total of each currency a lower bound.
    items = [item for item in costs.items if item.currency in ("", currency)]
    query = FigureQuery(
        COST, costs.period.from_hour, costs.period.to_hour, basis=lab.basis, currency=currency
    )
    electricity = [each for each in _known(items) if each.line in (Line.IT, Line.COOLING)]
    whole = amount_quantity(query, _sum(electricity)) if electricity else None
    state, total = _amount(items, currency)
    return CurrencyCosts(
        currency,
        [_row(line, [each for each in items if each.line == line], currency, whole)
         for line in lines],
        state,
        _sum(_known(items)),
        total,
    )  # fmt: skip


def _row(line: Line, items: list[Item], currency: str, whole: Quantity | None) -> LineRow:
    label, meaning = LABELS[line]
    known = _known(items)
    state, amount = _amount(items, currency)
    written_off = sum(item.written_off_ucurrency for item in known)
    return LineRow(
        line,
        label,
        meaning,
        state,
        _sum(known),
        amount,
        assets=len(known) if line in HARDWARE else 0,
        written_off=estimated(written_off, COST, currency=currency) if written_off else None,
        whole=whole if line == Line.IT and known else None,
    )


def _known(items: Sequence[Item]) -> list[Item]:
    return [item for item in items if item.state == State.KNOWN]


def _sum(items: Sequence[Item]) -> int:
    return sum(item.cost_ucurrency for item in items)


def _amount(items: Sequence[Item], currency: str) -> tuple[str, Projected | None]:
    """Return the state and amount of items: at least their known part if another is not known."""
    known = _known(items)
    if known:
        at_least = len(known) < len(items)
        amount = estimated(_sum(known), COST, at_least=at_least, currency=currency)
        return ("at_least" if at_least else "known"), amount
    if not items:
        return "none", None
    states = {item.state for item in items}
    return (State.UNKNOWN if State.UNKNOWN in states else State.LEFT_OUT), None
