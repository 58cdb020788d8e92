"""Reads of grid factors, PUE, electricity prices and market-based rates of all places at once."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from django.db.models import Count, Sum

from apps.accounts.models import Lab
from apps.carbon.factors import factors_of_zones, hourly_series_of
from apps.carbon.figures.factor_spans import PeriodFactor, factor_for_hour
from apps.carbon.market.choices import RuleEdition
from apps.carbon.market.current_totals import current_totals
from apps.carbon.market.records import COVERED
from apps.carbon.market.stored_result import YearLine
from apps.carbon.models import EmissionFactor, HourFactor, HourPrice
from apps.core.units import MJ_PER_KWH, PPM, US_PER_S
from apps.fleet.choices import PriceKind
from apps.fleet.dated_facts import started_value_at
from apps.fleet.selectors import active_prices
from apps.planner.formulas.ranges import EXACT, Spread, divide

PAST_HOURS = 28 * 24  # whose mean is the factor of a zone with factors by hour
COMING_HOURS = 7 * 24  # whose mean is the price of a site with prices by hour
NO_TOTALS = "The market-based totals of this year are not up to date."
NO_INSTRUMENT = "The lab has no instrument in this grid zone."
MISSING_RATE = "A part of the energy of this grid zone has no market-based factor."


@dataclass(frozen=True)
class ZoneRate:
    """The location-based factor of a zone. ``name``: of its edition, or how it is derived."""

    ug_per_kwh: int
    spread: Spread
    name: str


@dataclass(frozen=True)
class Price:
    """An electricity price in millionths of ``currency`` per kWh."""

    ucurrency_per_kwh: int
    currency: str


def zone_rates(lab: Lab, zones: Iterable[str], hour: int) -> dict[str, ZoneRate]:
    """Return {zone: its factor}: the mean of the last 28 days by hour, else that of its month or
    year. Zones without one are left out. Three queries.
    """
    codes = sorted({zone for zone in zones if zone})
    series = hourly_series_of(lab, codes)
    past = HourFactor.objects.filter(
        series__in=set(series.values()),
        superseded_us__isnull=True,
        hour__gte=hour - PAST_HOURS,
        hour__lt=hour,
    )
    rows = past.values("series").annotate(total=Sum("ug_per_kwh"), number=Count("hour"))
    means = {row["series"]: divide(int(row["total"]), row["number"]) for row in rows.order_by()}
    rates = {}
    for zone, factors in factors_of_zones(lab, codes).items():
        mean = means.get(series.get(zone, -1))
        if mean is not None:
            rates[zone] = ZoneRate(mean, EXACT, "mean of 28 days by hour")
        elif rate := _rate_of_period(factors, hour):
            rates[zone] = rate
    return rates


def _rate_of_period(factors: list[EmissionFactor], hour: int) -> ZoneRate | None:
    by_id = {factor.pk: factor for factor in factors}
    periods = [PeriodFactor(factor.pk, factor.year, factor.month) for factor in factors]
    period = factor_for_hour(periods, hour)
    if period is None:
        return None
    factor = by_id[period.factor_id]
    value = factor.ug_per_kwh
    assert value is not None, "only factors by hour have no value of their own"
    low = min(value, factor.low_ug_per_kwh or value)
    high = max(value, factor.high_ug_per_kwh or value)
    spread = Spread(max(1, divide(low * PPM, value)), divide(high * PPM, value))
    return ZoneRate(value, spread, factor.name)


def electricity_prices(lab: Lab, hour: int) -> dict[int, Price]:
    """Return {site id: its price}: the mean of the coming week by hour, else the flat price. Sites
    without one, and with several currencies in that week, are left out. Two queries.
    """
    coming = (
        HourPrice.objects.filter(site__lab=lab, hour__gte=hour, hour__lt=hour + COMING_HOURS)
        .values("site", "price__currency")
        .annotate(total=Sum("ucurrency_per_kwh"), number=Count("hour"))
        .order_by("site", "price__currency")
    )
    by_hour: dict[int, list[Price]] = defaultdict(list)
    for row in coming:
        mean = divide(int(row["total"]), row["number"])
        by_hour[row["site"]].append(Price(mean, row["price__currency"]))
    histories: dict[int, list[tuple[int, Price | None]]] = defaultdict(list)
    rows = active_prices(lab).exclude(kind=PriceKind.HOURLY).order_by("from_hour")
    for site_id, from_hour, value, currency in rows.values_list(
        "site_id", "from_hour", "ucurrency_per_kwh", "currency"
    ):
        histories[site_id].append((from_hour, None if value is None else Price(value, currency)))
    prices = {
        site_id: price
        for site_id, history in histories.items()
        if (price := started_value_at(history, hour)) is not None
    }
    for site_id, means in by_hour.items():
        prices.pop(site_id, None)
        if len(means) == 1:
            prices[site_id] = means[0]
    return prices


@dataclass(frozen=True)
class MarketRates:
    """Market-based rates of this year by zone, in µg per kWh of facility energy, under the Scope 2
    Guidance of 2015. ``missing``: why there are none at all, '' for no such reason.
    """

    by_zone: dict[str, int]
    incomplete: frozenset[str]
    missing: str

    def reason(self, zone: str) -> str:
        """Return why a zone has no rate, '' if it has one."""
        if zone in self.by_zone:
            return ""
        if self.missing:
            return self.missing
        return MISSING_RATE if zone in self.incomplete else NO_INSTRUMENT


def market_rates(lab: Lab, now: int) -> MarketRates:
    """Return the mean rates of the zones in which an instrument covers energy. One query."""
    year = datetime.fromtimestamp(now // US_PER_S, tz=ZoneInfo(lab.time_zone)).year
    current = current_totals(lab, year, now)
    if current is None:
        return MarketRates({}, frozenset(), NO_TOTALS)
    lines: dict[str, list[YearLine]] = defaultdict(list)
    for line in current[1][RuleEdition.SCOPE2_2015].lines:
        lines[line.zone].append(line)
    rates, incomplete = dict[str, int](), set[str]()
    for zone, of_zone in lines.items():
        energy_mj = sum(line.energy_mj for line in of_zone)
        if energy_mj <= 0 or not any(line.rule in COVERED for line in of_zone):
            continue
        emissions = [line.emission_ug for line in of_zone if line.emission_ug is not None]
        if len(emissions) < len(of_zone):
            incomplete.add(zone)
        else:
            rates[zone] = divide(sum(emissions) * MJ_PER_KWH, energy_mj)
    return MarketRates(rates, frozenset(incomplete), "")
