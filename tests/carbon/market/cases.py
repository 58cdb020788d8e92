"""Years, instruments and rates for tests of matching, in kWh and g."""

from collections.abc import Sequence

from apps.carbon.market.choices import Granularity, InstrumentKind, RuleEdition
from apps.carbon.market.matching import Consumption, match
from apps.carbon.market.records import (
    ContractualInstrument,
    Matching,
    MatchingYear,
    Rate,
    ZoneRates,
)

KWH = 3_600_000_000
G = 1_000_000
YEAR = MatchingYear(
    from_hour=490_896,  # 2026-01-01 UTC
    to_hour=490_896 + 8_760,
    months=tuple(
        490_896 + 24 * day for day in (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
    ),
)
IN_FORCE, DRAFT = RuleEdition.SCOPE2_2015, RuleEdition.SCOPE2_DRAFT_2025


def chain(zone: str) -> list[str]:
    """Return a zone and the zones that contain it: A-1 is in A."""
    return [zone, zone.partition("-")[0]] if "-" in zone else [zone]


def instrument(
    number: int = 1,
    kwh: float | None = None,
    *,
    kind: InstrumentKind = InstrumentKind.GO,
    market: str = "A",
    plant: str | None = None,
    by: Granularity = Granularity.YEAR,
    hourly_kwh: Sequence[float] | None = None,
    hours: tuple[int, int] = (0, 8_760),
    g: float = 0,
) -> ContractualInstrument:
    """Return an instrument. ``hours`` is its vintage within the year. ``plant`` '': unknown."""
    start, end = (YEAR.from_hour + hour for hour in hours)
    zones = frozenset(market.split())
    boundary = zones if plant is None else frozenset(plant.split())
    parts = [(start, end, round((kwh or 0) * KWH))]
    if hourly_kwh is not None:
        parts = [(start + i, start + i + 1, round(mj * KWH)) for i, mj in enumerate(hourly_kwh)]
    return ContractualInstrument(
        instrument_id=number,
        kind=kind,
        market=zones,
        boundary=boundary,
        granularity=by,
        parts=parts,
        volumes_by=Granularity.HOUR if hourly_kwh is not None else Granularity.YEAR,
        ug_per_kwh=round(g * G),
        is_unlimited=kwh is None and hourly_kwh is None,
    )


def mix(g: float, number: int = 99, year: int = 2026) -> Rate:
    """Return a published rate."""
    return Rate(round(g * G), number, year)


def flat(kwh_per_hour: float, hours: range = range(8_760)) -> dict[int, int]:
    """Return consumption that is equal in each hour."""
    return {YEAR.from_hour + hour: round(kwh_per_hour * KWH) for hour in hours}


def run(
    edition: RuleEdition,
    consumption: Consumption,
    instruments: Sequence[ContractualInstrument] = (),
    rates: dict[str, ZoneRates] | None = None,
) -> Matching:
    """Match, and check what is true of each result."""
    matching = match(
        edition=edition, year=YEAR, consumption=consumption, instruments=instruments,
        rates=rates or {}, chain=chain,
    )  # fmt: skip
    totals = matching.totals()
    assert totals.energy_mj == sum(sum(hours.values()) for hours in consumption.values())
    assert totals.emission_ug == sum(
        (line.emission_ug or 0) + (line.upstream_ug or 0) for line in matching.lines
    )
    return matching
