"""PUE, emission factor and electricity price of a planned place, as they are now."""

from dataclasses import dataclass
from typing import Any

from apps.accounts.models import Lab
from apps.carbon.factors import factors_of_zone, hourly_series_of
from apps.carbon.figures.factor_spans import PeriodFactor, factor_for_hour
from apps.carbon.models import EmissionFactor, HourFactor, HourPrice
from apps.core.units import PPM, emission_ug
from apps.fleet.choices import PriceKind
from apps.fleet.dated_facts import started_value_at, value_at
from apps.fleet.models import ACTIVE, Site
from apps.fleet.selectors import zone_at
from apps.planner.formulas.ranges import EXACT, Range, Spread, around, combine, divide

PAST_HOURS = 28 * 24  # whose mean is the factor of a zone with factors by hour
COMING_HOURS = 7 * 24  # whose mean is the price of a site with prices by hour
NO_SITE, NO_ZONE, NO_FACTOR, NO_PRICE = (
    "The place has no site.",
    "The site has no grid zone.",
    "The grid zone has no emission factor on the lab's basis.",
    "The site has no electricity price.",
)


@dataclass(frozen=True)
class FactorNow:
    """The emission factor of a place. ``factor``: its edition; None: the mean of hours."""

    ug_per_kwh: int
    spread: Spread
    factor: EmissionFactor | None
    is_hourly: bool


@dataclass(frozen=True)
class PriceNow:
    """The electricity price of a place in millionths per kWh. ``is_mean``: of the coming hours."""

    ucurrency_per_kwh: int
    currency: str
    price_id: int | None
    is_mean: bool


@dataclass(frozen=True)
class SiteConditions:
    """PUE, factor and price. None is unknown, with the reason."""

    site: Site | None = None
    pue_ppm: int | None = None
    factor: FactorNow | None = None
    price: PriceNow | None = None
    factor_missing: str = NO_SITE
    price_missing: str = NO_SITE

    def emission(self, energy_mj: Range) -> Range | None:
        """Return the emissions in µg of a range of energy, None if the factor is unknown."""
        if self.pue_ppm is None or self.factor is None:
            return None
        likely = emission_ug(energy_mj.likely, self.pue_ppm, self.factor.ug_per_kwh)
        return around(likely, combine(energy_mj.spread, self.factor.spread))

    def cost(self, energy_mj: Range) -> Range | None:
        """Return the cost in millionths of the currency, None if the price is unknown or negative:
        a mean below 0 is no price of a month.
        """
        if self.pue_ppm is None or self.price is None or self.price.ucurrency_per_kwh < 0:
            return None
        likely = emission_ug(energy_mj.likely, self.pue_ppm, self.price.ucurrency_per_kwh)
        return around(likely, energy_mj.spread)

    def to_json(self) -> dict[str, Any]:
        """Return the conditions as an estimate stores them."""
        factor, price = self.factor, self.price
        edition = factor.factor if factor else None
        return {
            "site": self.site.name if self.site else None,
            "pue_ppm": self.pue_ppm,
            "factor": None
            if factor is None
            else {
                "ug_per_kwh": factor.ug_per_kwh,
                "name": edition.name if edition else "mean of 28 days by hour",
                "id": edition.pk if edition else None,
                "edition": edition.edition if edition else None,
                "basis": edition.basis if edition else None,
            },
            "price": None
            if price is None
            else {
                "ucurrency_per_kwh": price.ucurrency_per_kwh,
                "currency": price.currency,
                "id": price.price_id,
                "is_mean": price.is_mean,
            },
            "factor_missing": self.factor_missing,
            "price_missing": self.price_missing,
        }


def site_conditions(lab: Lab, site: Site | None, hour: int) -> SiteConditions:
    """Return PUE, factor and price of a site in a UTC hour. At most eight queries."""
    if site is None:
        return SiteConditions()
    pues = site.pues.filter(ACTIVE).values_list("from_hour", "pue_ppm")
    zone = zone_at(site, hour)
    factor = _factor(lab, zone, hour) if zone else None
    price = _price(site, hour)
    return SiteConditions(
        site,
        value_at(list(pues), hour),
        factor,
        price,
        "" if factor else NO_FACTOR if zone else NO_ZONE,
        "" if price else NO_PRICE,
    )


def _factor(lab: Lab, zone: str, hour: int) -> FactorNow | None:
    factors = {factor.pk: factor for factor in factors_of_zone(lab, zone)}
    periods = [PeriodFactor(factor.pk, factor.year, factor.month) for factor in factors.values()]
    period = factor_for_hour(periods, hour)
    series_id = hourly_series_of(lab, [zone]).get(zone)
    if series_id is not None:
        past = HourFactor.objects.filter(
            series_id=series_id,
            superseded_us__isnull=True,
            hour__gte=hour - PAST_HOURS,
            hour__lt=hour,
        )
        values = list(past.values_list("ug_per_kwh", flat=True))
        if values:
            return FactorNow(divide(sum(values), len(values)), EXACT, None, True)
    if period is None:
        return None
    factor = factors[period.factor_id]
    value = factor.ug_per_kwh
    assert value is not None, "only factors by hour have no value of their own"
    low = min(value, factor.low_ug_per_kwh or value)
    high = max(value, factor.high_ug_per_kwh or value)
    spread = Spread(max(1, divide(low * PPM, value)), divide(high * PPM, value))
    return FactorNow(value, spread, factor, False)


def _price(site: Site, hour: int) -> PriceNow | None:
    coming = HourPrice.objects.filter(site=site, hour__gte=hour, hour__lt=hour + COMING_HOURS)
    hours = list(coming.values_list("ucurrency_per_kwh", "price__currency"))
    currencies = {currency for _, currency in hours}
    if len(currencies) == 1:
        values = [value for value, _ in hours]
        return PriceNow(divide(sum(values), len(values)), currencies.pop(), None, True)
    rows = site.prices.filter(ACTIVE).exclude(kind=PriceKind.HOURLY)
    row = started_value_at([(price.from_hour, price) for price in rows], hour)
    if row is None or row.ucurrency_per_kwh is None:
        return None
    return PriceNow(row.ucurrency_per_kwh, row.currency, row.pk, False)
