"""Explanation of an energy, emission or cost figure: equation, ledger, windows of an hour,
readings, factors and prices.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from apps.accounts.models import Lab
from apps.carbon.coverage import device_times
from apps.carbon.figures.energy import earlier_edition, entries, normal
from apps.carbon.figures.factor_spans import year_start_hour
from apps.carbon.figures.figure_query import COST, FigureQuery, iso_hour
from apps.carbon.figures.visibility import Visibility
from apps.carbon.meter_errors import FACTOR_ERROR_PPM
from apps.carbon.models import EmissionFactor
from apps.core.errors import InvalidInput
from apps.core.units import PPM, US_PER_HOUR
from apps.dashboard.explain.citation import citation, known_share
from apps.dashboard.explain.cost import CostView, cost_view
from apps.dashboard.explain.device_hour import HourView, hour_view
from apps.dashboard.explain.pricing import Priced, Pricing, factor_text, pricing_of
from apps.dashboard.explain.subjects import filter_text, subject_of
from apps.dashboard.figures import (
    Quantity,
    Units,
    column_units,
    exact_quantity,
    percent_quantity,
    quantity,
)
from apps.dashboard.formatting import factor_value, grams_per_kwh, grouped, pue
from apps.dashboard.periods import Period, hour_of_text
from apps.fleet.selectors import zones_ever
from apps.fleet.zones import zone_chain
from apps.ingest.choices import EnergyQuality, PlacementQuality, ShareQuality

PAGE_ROWS = 50
VERBS = {
    "energy_mj": "used by",
    "facility_energy_mj": "facility energy of",
    "emission_ug": "electricity of",
    COST: "electricity cost of",
}


@dataclass(frozen=True)
class Entry:
    """A ledger entry as shown."""

    hour: int
    hour_us: int
    device: str
    device_name: str
    hostname: str
    consumer: str
    run: str | None
    run_name: str | None
    quality: str
    marks: str
    energy: str
    pue: str
    factor: str
    price: str
    value: str
    drill: str
    selected: bool


@dataclass(frozen=True)
class FactorView:
    """An emission factor as shown."""

    factor: EmissionFactor
    grams: str
    range: str
    year_note: str
    zone_note: str
    earlier: str


@dataclass(frozen=True)
class PartView:
    """A part of the sum: factor and PUE as text, and exact integers as text."""

    factor: str
    pue: str
    energy: str
    facility: str
    emission: str


@dataclass(frozen=True)
class ExplainPage:
    """Content of the page."""

    query: FigureQuery
    period: Period
    headline: Quantity
    subject: str
    subject_href: str
    verb: str
    filters: str
    exact: Quantity
    range_text: str
    energy: Quantity
    facility: Quantity
    emission: Quantity
    cost: CostView | None
    qualities: list[tuple[str, Quantity]]
    single: Priced | None
    pue: str
    factor: FactorView | None
    parts: list[PartView]
    sums: PartView
    entries: list[Entry]
    count: int
    page: int
    pages: int
    hour: HourView | None
    factors: list[FactorView]
    coverage: str
    coverage_of: str
    citation: str
    units: Units


def page_number(params: Mapping[str, str]) -> int:
    text = params.get("page", "1")
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= 10**7:
        raise InvalidInput(
            f"{text[:20]!r} is not a page number.", field="page", hint="Enter a number from 1."
        )
    return int(text)


def _entry(
    row: dict[str, Any],
    query: FigureQuery,
    selected: tuple[str, int] | None,
    visibility: Visibility,
) -> Entry:
    quality = EnergyQuality(row["energy_quality"]).name.lower()
    marks = [quality]
    if row["share_quality"] == ShareQuality.SPLIT:
        marks.append("split")
    if row["placement_quality"] == PlacementQuality.IMPUTED:
        marks.append("estimated time")
    drill = urlencode({"hour": iso_hour(row["hour"]), "device": row["device"]})
    return Entry(
        hour=row["hour"],
        hour_us=row["hour"] * US_PER_HOUR,
        device=row["device"],
        device_name=row["device_name"] or row["device"],
        hostname=row["hostname"],
        consumer=visibility.consumer(row["consumer"]),
        run=normal(row["run"], "run"),
        run_name=row["run_name"],
        quality=quality,
        marks=", ".join(marks),
        energy=grouped(row["energy_mj"]),
        pue=pue(row["pue_ppm"]) if row["pue_ppm"] is not None else "unknown",
        factor=grouped(row["factor_ug_per_kwh"])
        if row["factor_ug_per_kwh"] is not None
        else "none",
        price=f"{grouped(row['price_ucurrency_per_kwh'])} {row['currency']}"
        if row["price_id"] is not None
        else "none",
        value=_value_text(row, query),
        drill=f"?{query.to_query_string()}&{drill}#windows",
        selected=selected == (row["device"], row["hour"]),
    )


def _value_text(row: dict[str, Any], query: FigureQuery) -> str:
    """Return the value of an entry. A cost in another currency is not in the figure."""
    value = row[query.metric]
    if value is None:
        return "unknown"
    is_added = query.metric != COST or row["currency"] == query.currency
    return grouped(value) if is_added else f"{grouped(value)} {row['currency']}"


def factor_view(
    factor: EmissionFactor, query: FigureQuery, zones: set[str], mean_ug_per_kwh: int
) -> FactorView:
    """Return a factor as shown, with notes on its range, year, zone and previous edition. The value
    of a factor by hour is its mean over the energy of the figure.
    """
    low, high = factor.low_ug_per_kwh, factor.high_ug_per_kwh
    wide = (
        f"{grams_per_kwh(low)}–{grams_per_kwh(high)} g/kWh"
        if low is not None and high is not None
        else f"±{FACTOR_ERROR_PPM * 100 // PPM} % unless stated"
    )
    first, last = (_year_of(query.from_hour), _year_of(query.to_hour - 1))
    year_note = ""
    if factor.period and factor.ug_per_kwh is not None and not first <= factor.year <= last:
        years_text = str(first) if first == last else f"{first}–{last}"
        state = "published yet" if factor.year < first else "available"
        year_note = f"No factor for {years_text} is {state}. The factor of {factor.year} is used."
    below = sorted(
        zone for zone in zones if zone != factor.zone and factor.zone in zone_chain(zone)
    )
    zone_note = (
        f"{', '.join(below)} has no factor of its own. That of {factor.zone} is used."
        if below
        else ""
    )
    old = earlier_edition(factor) if factor.edition > 1 else None
    earlier = f"Edition {old.edition}: {factor_value(old.ug_per_kwh)}." if old else ""
    grams = grams_per_kwh(factor.ug_per_kwh or mean_ug_per_kwh)
    return FactorView(factor, grams, wide, year_note, zone_note, earlier)


def _year_of(hour: int) -> int:
    year = 1970 + hour // 8766
    while year_start_hour(year + 1) <= hour:
        year += 1
    while year_start_hour(year) > hour:
        year -= 1
    return year


def _part_view(part: Priced) -> PartView:
    figure = part.figure
    unpriced = part.factor is None
    return PartView(
        factor=factor_text(part.factor) if part.factor else "no factor",
        pue=pue(part.pue_ppm) if part.pue_ppm is not None else "unknown",
        energy=grouped(figure.energy_mj),
        facility=grouped(figure.facility_energy_mj) if part.pue_ppm is not None else "unknown",
        emission="unknown" if unpriced else grouped(figure.emission_ug),
    )


def _selected_hour(
    params: Mapping[str, str], rows: list[dict[str, Any]], query: FigureQuery
) -> tuple[str, int] | None:
    """Return the device and hour to explain: those in the query, else the newest row with
    windows.
    """
    if params.get("hour") or params.get("device"):
        if not (params.get("hour") and params.get("device")):
            raise InvalidInput(
                "An hour of the ledger needs both hour and device.",
                field="hour",
                hint="&hour=…&device=…",
            )
        return params["device"], hour_of_text(params["hour"], "hour")
    windowed = [row for row in rows if not row["device"].startswith("host:")]
    first = (windowed or rows)[:1]
    return (first[0]["device"], first[0]["hour"]) if first else None


def explain_page(
    *,
    lab: Lab,
    query: FigureQuery,
    period: Period,
    params: Mapping[str, str],
    now: int,
    version: str,
    visibility: Visibility,
) -> ExplainPage:
    """Return the explanation of ``query``. The number of queries does not depend on the number
    of rows.
    """
    subject, href, node = subject_of(lab, query)
    pricing = pricing_of(lab, query)
    whole = pricing.whole
    number = page_number(params)
    rows = list(entries(lab, query, limit=PAGE_ROWS, offset=(number - 1) * PAGE_ROWS))
    selected = _selected_hour(params, rows, query)
    hour = hour_view(lab, *selected, visibility) if selected else None
    zones = zones_ever(lab)
    priced = pricing.factors if query.metric == "emission_ug" else []
    factors = [
        factor_view(factor, query, zones, pricing.mean_ug_per_kwh(factor)) for factor in priced
    ]
    cost = cost_view(lab, query, whole) if query.metric == COST else None
    times = [
        time
        for time in device_times(lab, query.from_hour, query.to_hour, now)
        if node is None or time.node_id == node.pk
    ]
    headline = quantity(query, whole)
    single = pricing.parts[0] if len(pricing.parts) == 1 else None
    coverage = known_share(times)
    return ExplainPage(
        query=query,
        period=period,
        headline=headline,
        subject=subject,
        subject_href=href,
        verb=VERBS[query.metric],
        filters=filter_text(query),
        exact=exact_quantity(query, headline.value),
        range_text=pricing.range_text,
        energy=quantity(query.replace(metric="energy_mj"), whole),
        facility=quantity(query.replace(metric="facility_energy_mj"), whole),
        emission=quantity(query.replace(metric="emission_ug"), whole),
        cost=cost,
        qualities=_qualities(query, pricing),
        single=single,
        pue=pue(single.pue_ppm) if single and single.pue_ppm is not None else "unknown",
        factor=factors[0] if single and factors else None,
        parts=[_part_view(part) for part in pricing.parts],
        sums=PartView(
            "Sum",
            "",
            grouped(whole.energy_mj),
            grouped(whole.facility_energy_mj),
            grouped(whole.emission_ug),
        ),
        entries=[_entry(row, query, selected, visibility) for row in rows],
        count=whole.entries,
        page=number,
        pages=max(1, -(-whole.entries // PAGE_ROWS)),
        hour=hour,
        factors=factors,
        coverage=coverage,
        coverage_of=node.name if node else "all metered devices of the lab",
        citation=citation(subject, query, period, pricing, cost, headline, coverage, version),
        units=column_units([whole]),
    )


def _qualities(query: FigureQuery, pricing: Pricing) -> list[tuple[str, Quantity]]:
    energy = query.replace(metric="energy_mj")
    whole = pricing.whole.energy_mj
    if query.quality:
        return [(query.quality.lower(), percent_quantity(energy, whole, whole))]
    return [
        (quality.lower(), percent_quantity(energy.replace(quality=quality), part.energy_mj, whole))
        for quality, part in pricing.by_quality.items()
    ]
