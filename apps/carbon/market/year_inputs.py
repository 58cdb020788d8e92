"""Reads of what the market-based totals of a calendar year are computed from."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from zoneinfo import ZoneInfo

from apps.accounts.choices import Basis
from apps.accounts.models import Lab
from apps.carbon.choices import RollupKind
from apps.carbon.factors import factors_of_zones
from apps.carbon.figures.energy import Figure, figure_of
from apps.carbon.figures.factor_spans import PeriodFactor, factor_for_year
from apps.carbon.figures.sql import PRICED
from apps.carbon.market.choices import InstrumentKind
from apps.carbon.market.models import Instrument
from apps.carbon.market.records import MatchingYear, Rate, ZoneRates
from apps.carbon.market.selectors import matching_year, published_rates
from apps.carbon.models import RolledDay, StaleSpan
from apps.carbon.rollups.reader import meter_sums
from apps.core.intervals import day_edges
from apps.core.sql import fetch_rows
from apps.core.units import hour_of
from apps.energy.models import LedgerEntry
from apps.fleet.dated_facts import SiteFacts, dated_intervals
from apps.fleet.selectors import site_facts_of

_METHOD = 1  # raised when the same inputs give other totals
_HOURS_AT_ONCE = 24 * 31

ZoneSpans = Sequence[tuple[int, int | None, str]]  # [from_hour, to_hour), zone


@dataclass(frozen=True)
class YearInputs:
    """State of the inputs of a year. ``until_hour``: end of the rolled hours. ``fingerprint``: of
    all inputs; any change of them changes it.
    """

    year: MatchingYear
    until_hour: int
    fingerprint: str


@dataclass(frozen=True)
class ZoneUse:
    """Use of a zone: facility energy in mJ by UTC hour, and the location-based figure."""

    hours: dict[int, int]
    location: Figure


def year_inputs(lab: Lab, year: int, now: int) -> YearInputs | None:
    """Return the inputs of a year up to today, None while some of its hours are not rolled up.

    A change of the ledger, of applied factors or of the basis marks rolled hours stale; summed
    again, they have other ids. So their ids stand for all use of the year.
    """
    hours = matching_year(lab, year)
    today_hour = day_edges(hour_of(now), hour_of(now) + 1, ZoneInfo(lab.time_zone))[-2]
    end_hour = min(hours.to_hour, max(today_hour, hours.from_hour))
    rolled = list(
        RolledDay.objects.filter(
            lab=lab,
            what=RollupKind.USE,
            basis=lab.basis,
            time_zone=lab.time_zone,
            from_hour__gte=hours.from_hour,
            to_hour__lte=end_hour,
        )
        .order_by("from_hour")
        .values_list("pk", "from_hour", "to_hour")
    )
    first = rolled[0][1] if rolled else end_hour
    until_hour = rolled[-1][2] if rolled else end_hour
    has_gap = any(before[2] != after[1] for before, after in pairwise(rolled))
    if has_gap or _has_entries(lab, hours.from_hour, first):
        return None
    if end_hour == hours.to_hour:
        if _has_entries(lab, until_hour, end_hour):
            return None
        until_hour = end_hour
    stale = StaleSpan.objects.filter(
        lab=lab,
        what=RollupKind.USE,
        from_hour__lt=until_hour,
        to_hour__gt=hours.from_hour,
    )
    if stale.exists():
        return None
    places = site_facts_of(lab)
    zones = {zone for history in places.zones.values() for _, zone in history} | {""}
    instruments = Instrument.objects.filter(lab=lab, withdrawn_us=None).order_by("pk")
    facts = [
        _METHOD,
        lab.basis,
        lab.time_zone,
        until_hour,
        [pk for pk, _, _ in rolled],
        sorted((node, list(history)) for node, history in places.placements.items()),
        sorted((site, list(history)) for site, history in places.zones.items()),
        list(instruments.values_list("pk", flat=True)),
        sorted((zone, astuple(rates)) for zone, rates in zone_rates(lab, zones, year).items()),
    ]
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    return YearInputs(hours, until_hour, digest)


def _has_entries(lab: Lab, from_hour: int, to_hour: int) -> bool:
    return (
        from_hour < to_hour
        and LedgerEntry.objects.filter(lab=lab, hour__gte=from_hour, hour__lt=to_hour).exists()
    )


def use_by_zone(lab: Lab, from_hour: int, to_hour: int) -> dict[str, ZoneUse]:
    """Return {grid zone: its use} over ``[from_hour, to_hour)``. Zone '' is unknown.

    The sum of the location-based figures is that of the lab, without costs.
    """
    zone_of_node = _zone_histories(site_facts_of(lab))
    hours: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    location: dict[str, Figure] = defaultdict(Figure)
    for start in range(from_hour, to_hour, _HOURS_AT_ONCE):
        rows = fetch_rows(
            f"SELECT e.node_id, e.hour, {meter_sums()} FROM energy_ledgerentry e {PRICED} "
            "WHERE e.lab_id = %s AND e.hour >= %s AND e.hour < %s GROUP BY e.node_id, e.hour",
            [lab.basis, lab.pk, start, min(to_hour, start + _HOURS_AT_ONCE)],
        )
        for row in rows:
            figure, hour = figure_of(row), int(row["hour"])
            zone = _zone_in(zone_of_node.get(row["node_id"], ()), hour)
            hours[zone][hour] += figure.facility_energy_mj
            location[zone] += figure
    return {zone: ZoneUse(dict(hours[zone]), location[zone]) for zone in sorted(hours)}


def _zone_histories(places: SiteFacts) -> dict[int, ZoneSpans]:
    """Return {node id: its zones over time}, in order."""
    result: dict[int, ZoneSpans] = {}
    for node_id, history in places.placements.items():
        spans = list[tuple[int, int | None, str]]()
        for start, end, site_id in dated_intervals(history):
            for zone_start, zone_end, zone in dated_intervals(places.zones.get(site_id, ())):
                first = max(start, zone_start)
                ends = [hour for hour in (end, zone_end) if hour is not None]
                last = min(ends) if ends else None
                if last is None or first < last:
                    spans.append((first, last, zone))
        result[node_id] = spans
    return result


def _zone_in(spans: ZoneSpans, hour: int) -> str:
    return next(
        (zone for start, end, zone in spans if start <= hour and (end is None or hour < end)), ""
    )


def zone_rates(lab: Lab, zones: Iterable[str], year: int) -> dict[str, ZoneRates]:
    """Return {zone: its factors of a year}. At most four queries.

    The grid average is the annual factor on the lab's basis. Upstream emissions are lifecycle −
    direct of the annual factors, unknown if one is missing or the difference is negative.
    """
    codes = sorted(set(zones))
    residual = published_rates(lab, InstrumentKind.RESIDUAL_MIX, codes, year)
    fossil = published_rates(lab, InstrumentKind.FOSSIL_FACTOR, codes, year)
    grid = _annual_rates(lab, codes, lab.basis, year)
    direct = grid if lab.basis == Basis.DIRECT else _annual_rates(lab, codes, Basis.DIRECT, year)
    return {
        zone: ZoneRates(
            residual.get(zone),
            fossil.get(zone),
            grid.get(zone),
            _upstream(grid.get(zone), direct.get(zone), lab.basis),
        )
        for zone in codes
    }


def _annual_rates(lab: Lab, zones: Sequence[str], basis: str, year: int) -> dict[str, Rate]:
    rates: dict[str, Rate] = {}
    for zone, factors in factors_of_zones(lab, zones, basis).items():
        chosen = factor_for_year(
            [PeriodFactor(row.pk, row.year, row.month) for row in factors], year
        )
        for row in factors:
            if chosen and row.pk == chosen.factor_id and row.ug_per_kwh is not None:
                rates[zone] = Rate(row.ug_per_kwh, None, row.year)
    return rates


def _upstream(grid: Rate | None, direct: Rate | None, basis: str) -> int | None:
    if basis == Basis.DIRECT:
        return 0
    if grid is None or direct is None or grid.ug_per_kwh < direct.ug_per_kwh:
        return None
    return grid.ug_per_kwh - direct.ug_per_kwh
