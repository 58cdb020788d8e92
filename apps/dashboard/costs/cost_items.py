"""The costs of a lab in a period, item by item: shares of purchase prices, electricity, billed
months of clouds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from apps.accounts.models import Lab
from apps.assets.price_shares import AssetShare, price_shares
from apps.billing.choices import Charge
from apps.billing.models import BilledMonth
from apps.billing.selectors import month_sums, months_of
from apps.carbon.figures.electricity_cost import Unpriced, electricity_of
from apps.carbon.figures.figure_query import COST, FigureQuery
from apps.catalog.choices import HardwareKind
from apps.core.intervals import midnight_hour, next_unit
from apps.dashboard.periods import Period


class Line(StrEnum):
    """A line of the page."""

    SERVERS = "servers"
    NETWORK = "network"
    OTHER = "other_assets"
    IT = "it_electricity"
    COOLING = "cooling_electricity"
    CLOUD = "cloud"


class State(StrEnum):
    """Whether a cost is known. Left out: of a billed month that is only partly in the period."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    LEFT_OUT = "left_out"


_SERVERS = (HardwareKind.GPU, HardwareKind.CPU, HardwareKind.SERVER)


@dataclass(frozen=True)
class Item:
    """One cost. ``currency`` '': that of an unknown price. ``price_ucurrency``: of an asset."""

    line: Line
    name: str
    currency: str
    cost_ucurrency: int = 0
    state: State = State.KNOWN
    asset_id: int | None = None
    price_ucurrency: int | None = None
    written_off_ucurrency: int = 0


@dataclass(frozen=True)
class Costs:
    """The costs of a period. ``months``: billed months in it, by whether they are left out.
    ``has_unbilled``: energy at a cloud provider, and no billed month in the period.
    """

    period: Period
    items: list[Item]
    unpriced: Unpriced
    months: list[BilledMonth]
    left_out: list[BilledMonth]

    @property
    def has_unbilled(self) -> bool:
        return bool(self.unpriced.cloud_mj) and not self.months and not self.left_out


def costs_of(lab: Lab, period: Period, now: int) -> Costs:
    """Return the costs of the part of a period until ``now`` (µs). The number of queries does not
    depend on the number of items.
    """
    period = period.measured_part(now)
    query = FigureQuery(COST, period.from_hour, period.to_hour, basis=lab.basis)
    electricity = electricity_of(lab, query)
    months, left_out = _months(lab, period)
    items = [_asset_item(each) for each in price_shares(lab, period.from_hour, period.to_hour)]
    for currency, cost in sorted(electricity.costs.items()):
        items.append(Item(Line.IT, "Electricity of IT equipment", currency, cost.it_ucurrency))
        items.append(
            Item(Line.COOLING, "Cooling and distribution", currency, cost.cooling_ucurrency)
        )
    if electricity.unpriced.energy_mj:
        items += [
            Item(line, "Energy without a price", "", state=State.UNKNOWN)
            for line in (Line.IT, Line.COOLING)
        ]
    items += _billed_items(months, State.KNOWN)
    items += _billed_items(left_out, State.LEFT_OUT)
    costs = Costs(period, items, electricity.unpriced, months, left_out)
    if costs.has_unbilled:
        items.append(Item(Line.CLOUD, "Cloud use without a bill", "", state=State.UNKNOWN))
    return costs


def line_of(kind: str) -> Line:
    """Return the line of assets of a kind."""
    if kind in _SERVERS:
        return Line.SERVERS
    return Line.NETWORK if kind == HardwareKind.NETWORK else Line.OTHER


def month_name(month: BilledMonth) -> str:
    """Return provider, account and month as text."""
    return " ".join(filter(None, (month.get_provider_display(), month.account, month.month)))


def _asset_item(each: AssetShare) -> Item:
    asset, share = each.asset, each.share
    is_known = share.cost_ucurrency is not None
    return Item(
        line_of(asset.kind),
        asset.name,
        asset.currency,
        share.cost_ucurrency or 0,
        State.KNOWN if is_known else State.UNKNOWN,
        asset.pk,
        asset.price_ucurrency,
        share.written_off_ucurrency,
    )


def _months(lab: Lab, period: Period) -> tuple[list[BilledMonth], list[BilledMonth]]:
    """Return the billed months in a period, and those that are only partly in it. One query."""
    names = (f"{period.first_day:%Y-%m}", f"{period.last_day:%Y-%m}")
    whole: list[BilledMonth] = []
    partly: list[BilledMonth] = []
    for month in months_of(lab).filter(month__range=names).order_by("month", "provider", "account"):
        first = date.fromisoformat(f"{month.month}-01")
        start, end = (midnight_hour(day, period.zone) for day in (first, next_unit("month", first)))
        is_whole = period.from_hour <= start and end <= period.to_hour
        (whole if is_whole else partly).append(month)
    return whole, partly


def _billed_items(months: list[BilledMonth], state: State) -> Iterator[Item]:
    """Yield the costs of billed months by kind of charge. One query. Costs without a currency are
    unknown.
    """
    sums = month_sums(months)
    for month in months:
        for charge, cost in sorted(sums[month.pk].costs_ucurrency.items()):
            name = f"{month_name(month)}: {Charge(charge).label.lower()}"
            if month.currency:
                yield Item(Line.CLOUD, name, month.currency, cost, state)
            elif cost:
                yield Item(Line.CLOUD, name, "", state=State.UNKNOWN)
