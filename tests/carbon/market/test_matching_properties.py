"""Matching against an independent computation in fractions, and what is true of every result."""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from math import floor

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.carbon.market.choices import Granularity, InstrumentKind, MarketRule, RuleEdition
from apps.carbon.market.matching import match, volumes_by_period
from apps.carbon.market.records import (
    COVERED,
    ContractualInstrument,
    Line,
    Matching,
    MatchingYear,
    Rate,
    ZoneRates,
)
from tests.carbon.market.cases import DRAFT, IN_FORCE, chain

FIRST, END = 1_000, 1_012
YEAR = MatchingYear(FIRST, END, (FIRST, FIRST + 4, FIRST + 9))
ZONES = ("A", "A-1", "A-2", "B", "")
MJ_PER_KWH = 3_600_000_000
ORDER = {
    **dict.fromkeys(["go", "rego", "rec", "i_rec"], 0),
    **dict.fromkeys(["ppa", "own_solar"], 1),
    "tariff": 2,
}
FINE = {"hour": 0, "month": 1, "year": 2}
Use = dict[str, dict[int, int]]


@st.composite
def instruments(
    draw: st.DrawFn, number: int, zones: Sequence[str] = ("A", "A-1", "A-2", "B")
) -> ContractualInstrument:
    start = draw(st.integers(FIRST - 3, END - 1))
    end = draw(st.integers(start + 1, END + 3))
    kind = draw(st.sampled_from([InstrumentKind(kind) for kind in ORDER]))
    is_unlimited = kind == InstrumentKind.TARIFF and draw(st.booleans())
    market = draw(st.sets(st.sampled_from(zones), min_size=1, max_size=2))
    volume = st.integers(0, 40_000) | st.integers(0, 10**13)
    if draw(st.booleans()) and not is_unlimited:
        parts = [(hour, hour + 1, draw(volume)) for hour in range(start, end)]
        by = Granularity.HOUR
    else:
        parts, by = [(start, end, draw(volume))], Granularity.YEAR
    return ContractualInstrument(
        instrument_id=number,
        kind=kind,
        market=frozenset(market),
        boundary=frozenset(draw(st.sets(st.sampled_from(zones), max_size=1))),
        granularity=draw(st.sampled_from(Granularity)),
        parts=parts,
        volumes_by=by,
        ug_per_kwh=draw(st.integers(0, 10**9)),
        is_unlimited=is_unlimited,
    )


def rates() -> st.SearchStrategy[ZoneRates]:
    rate = st.none() | st.builds(Rate, st.integers(1, 10**9), st.just(9), st.just(2026))
    return st.builds(ZoneRates, rate, rate, rate, st.none() | st.integers(0, 10**8))


def uses(zones: Sequence[str] = ZONES, least: int = 0) -> st.SearchStrategy[Use]:
    energy = st.integers(least, 30_000) | st.integers(0, 10**13)
    hours = st.dictionaries(st.integers(FIRST, END - 1), energy)
    return st.dictionaries(st.sampled_from(zones), hours)


cases = st.integers(0, 5).flatmap(
    lambda n: st.tuples(
        uses(),
        st.tuples(*(instruments(number) for number in range(1, n + 1))),
        st.fixed_dictionaries({}, optional={zone: rates() for zone in ZONES}),
        st.sampled_from(RuleEdition),
    )
)


def result_of(
    use: Use,
    listed: Sequence[ContractualInstrument],
    of_zone: dict[str, ZoneRates],
    edition: RuleEdition,
) -> Matching:
    return match(
        edition=edition, year=YEAR, consumption=use, instruments=listed, rates=of_zone, chain=chain
    )


def volume_in(instrument: ContractualInstrument, start: int, end: int) -> Fraction:
    return sum(
        (
            Fraction(mj * max(0, min(end, to_hour) - max(start, from_hour)), to_hour - from_hour)
            for from_hour, to_hour, mj in instrument.parts
        ),
        Fraction(0),
    )


def half_up(value: Fraction) -> int:
    return floor(value + Fraction(1, 2))


@given(cases)
@settings(max_examples=400)
def test_energy_and_emissions_of_lines(
    case: tuple[Use, Sequence[ContractualInstrument], dict[str, ZoneRates], RuleEdition],
) -> None:
    use, listed, of_zone, edition = case
    result = result_of(use, listed, of_zone, edition)
    by_id = {instrument.instrument_id: instrument for instrument in listed}
    for zone in {*use, *(line.zone for line in result.lines)}:
        assert sum(line.energy_mj for line in result.lines if line.zone == zone) == sum(
            use[zone].values()
        )
    for line in result.lines:
        assert line.energy_mj > 0
        assert (line.rule == MarketRule.MISSING_FACTOR) == (line.ug_per_kwh is None)
        assert (line.emission_ug is None) == (line.ug_per_kwh is None)
        if line.ug_per_kwh is not None:
            assert line.emission_ug == half_up(
                Fraction(line.energy_mj * line.ug_per_kwh, MJ_PER_KWH)
            )
        if line.rule in COVERED:
            assert line.instrument_id is not None
            instrument = by_id[line.instrument_id]
            assert line.ug_per_kwh == instrument.ug_per_kwh
            assert instrument.market & {*chain(line.zone)}
            if edition == DRAFT:
                assert instrument.boundary & {*chain(line.zone)}
                assert line.to_hour == line.from_hour + 1
                assert not instrument.is_unlimited
        assert edition == IN_FORCE or line.rule != MarketRule.GRID_AVERAGE
        assert edition == DRAFT or line.rule != MarketRule.FOSSIL_FACTOR
    totals = result.totals()
    assert totals.emission_ug == sum(
        (line.emission_ug or 0) + (line.upstream_ug or 0) for line in result.lines
    )
    assert totals.energy_mj == sum(sum(hours.values()) for hours in use.values())


@given(cases)
@settings(max_examples=400)
def test_no_period_is_covered_beyond_its_consumption_and_no_volume_is_exceeded(
    case: tuple[Use, Sequence[ContractualInstrument], dict[str, ZoneRates], RuleEdition],
) -> None:
    use, listed, of_zone, edition = case
    result = result_of(use, listed, of_zone, edition)
    covered = [line for line in result.lines if line.rule in COVERED]
    for period in covered:
        inside = [line for line in covered if _is_inside(line, period)]
        consumed = sum(
            mj for hour, mj in use[period.zone].items() if period.from_hour <= hour < period.to_hour
        )
        assert sum(line.energy_mj for line in inside) <= consumed
    for instrument in listed:
        of_instrument = [line for line in covered if line.instrument_id == instrument.instrument_id]
        assert result.used_mj.get(instrument.instrument_id, 0) == sum(
            line.energy_mj for line in of_instrument
        )
        if instrument.is_unlimited:
            continue
        assert (
            sum(line.energy_mj for line in of_instrument) <= volume_in(instrument, FIRST, END) + 1
        )
        for period in {(line.from_hour, line.to_hour) for line in of_instrument}:
            taken = sum(
                line.energy_mj for line in of_instrument if (line.from_hour, line.to_hour) == period
            )
            parts = len(
                [part for part in instrument.parts if part[0] < period[1] and part[1] > period[0]]
            )
            assert taken < volume_in(instrument, *period) + parts


def _is_inside(line: Line, period: Line) -> bool:
    return (
        line.zone == period.zone
        and line.from_hour >= period.from_hour
        and line.to_hour <= period.to_hour
    )


@given(cases)
@settings(max_examples=200)
def test_unused_volume_is_left_only_where_nothing_is_uncovered(
    case: tuple[Use, Sequence[ContractualInstrument], dict[str, ZoneRates], RuleEdition],
) -> None:
    use, listed, of_zone, edition = case
    result = result_of(use, listed, of_zone, edition)
    if edition == DRAFT:
        return
    rest = {line.zone for line in result.lines if line.rule not in COVERED}
    for instrument in listed:
        if instrument.granularity != Granularity.YEAR or instrument.is_unlimited:
            continue
        if result.available_mj[instrument.instrument_id] > result.used_mj.get(
            instrument.instrument_id, 0
        ):
            assert not any(instrument.market & {*chain(zone)} for zone in rest)


@given(
    uses(("A",)),
    st.integers(0, 5).flatmap(
        lambda n: st.tuples(*(instruments(i, ("A",)) for i in range(1, n + 1)))
    ),
    st.sampled_from(RuleEdition),
)
@settings(max_examples=400)
def test_use_of_each_instrument_is_that_of_the_computation_in_fractions(
    use: Use, listed: Sequence[ContractualInstrument], edition: RuleEdition
) -> None:
    result = result_of(use, listed, {}, edition)
    expected = _used(use.get("A", {}), listed, edition)
    for instrument in listed:
        difference = (
            result.used_mj.get(instrument.instrument_id, 0) - expected[instrument.instrument_id]
        )
        assert abs(difference) <= (END - FIRST) * (len(listed) + 1)  # rounded once per hour


def _used(
    use: dict[int, int], listed: Sequence[ContractualInstrument], edition: RuleEdition
) -> dict[int, Fraction]:
    """Return the use of instruments of one zone."""
    left = {hour: Fraction(use.get(hour, 0)) for hour in range(FIRST, END)}
    used = {instrument.instrument_id: Fraction(0) for instrument in listed}
    is_draft = edition == DRAFT
    for instrument in sorted(
        listed,
        key=lambda s: (ORDER[s.kind], 0 if is_draft else FINE[s.granularity], s.instrument_id),
    ):
        if not use or (is_draft and (instrument.is_unlimited or not instrument.boundary)):
            continue
        if is_draft or instrument.granularity == Granularity.HOUR:
            edges = list(range(FIRST, END + 1))
        else:
            edges = [
                *(YEAR.months if instrument.granularity == Granularity.MONTH else [FIRST]),
                END,
            ]
        if instrument.is_unlimited:
            edges = [max(FIRST, instrument.parts[0][0]), min(END, instrument.parts[0][1])]
        for start, end in itertools.pairwise(edges):
            need = sum((left[hour] for hour in range(start, end)), Fraction(0))
            amount = (
                need if instrument.is_unlimited else min(need, volume_in(instrument, start, end))
            )
            used[instrument.instrument_id] += amount
            for hour in range(start, end):
                left[hour] -= left[hour] * amount / need if need else 0
    return used


@given(st.data())
def test_parts_of_volumes_sum_to_the_volume(data: st.DataObject) -> None:
    edges = sorted(data.draw(st.sets(st.integers(0, 40), min_size=2)))
    cuts = sorted(data.draw(st.sets(st.integers(edges[0], edges[-1]), min_size=2)))
    parts = [
        (start, end, data.draw(st.integers(0, 10**15))) for start, end in itertools.pairwise(cuts)
    ]
    volumes = volumes_by_period(parts, edges)
    assert sum(volumes) == sum(mj for _, _, mj in parts)
    for (start, end), volume in zip(itertools.pairwise(edges), volumes, strict=True):
        exact = sum(
            Fraction(mj * max(0, min(end, to) - max(start, begin)), to - begin)
            for begin, to, mj in parts
        )
        assert abs(volume - exact) < len(parts) + 1
