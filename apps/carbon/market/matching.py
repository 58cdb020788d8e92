"""Match the consumption of a lab with its instruments under a rule edition. Pure.

- Order: certificates, contracts, supplier rates; within each, the finer granularity, then the
  narrower market, then the order of entry.
- ``scope2-2015``: within the matching period of the instrument (hour, month or year) in its market.
  The rest has the residual mix, else the grid average.
- ``scope2-draft-2025``: hour by hour within the grid boundary. The rest has the residual mix, else
  the fossil-based factor, and never the grid average.
- An instrument for a longer period takes the energy of its hours in proportion to what they have
  left. Volume beyond the consumption has no effect.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from apps.carbon.market.choices import (
    CERTIFICATES,
    CONTRACTS,
    Exclusion,
    Granularity,
    InstrumentKind,
    MarketRule,
    RuleEdition,
    VolumeProfile,
)
from apps.carbon.market.records import (
    ContractualInstrument,
    Line,
    Matching,
    MatchingYear,
    Part,
    Rate,
    ZoneRates,
)
from apps.core.units import PPM, emission_ug, prorated

Consumption = Mapping[str, Mapping[int, int]]  # {zone: {UTC hour: mJ of facility energy}}
_FINENESS = {Granularity.HOUR: 0, Granularity.MONTH: 1, Granularity.YEAR: 2}
_RANK: dict[InstrumentKind, tuple[int, MarketRule]] = {
    **dict.fromkeys(CERTIFICATES, (0, MarketRule.CERTIFICATE)),
    **dict.fromkeys(CONTRACTS, (1, MarketRule.CONTRACT)),
    InstrumentKind.TARIFF: (2, MarketRule.SUPPLIER_RATE),
}
_NO_RATES = ZoneRates()


class _Pool:
    """Uncovered energy of one zone in consecutive intervals of hours."""

    def __init__(self, zone: str, hours: Mapping[int, int], edges: Sequence[int]) -> None:
        self.zone = zone
        self.edges = edges
        self.rest_mj = [0] * (len(edges) - 1)
        is_hourly = len(self.rest_mj) == edges[-1] - edges[0]
        for hour, energy_mj in hours.items():
            i = hour - edges[0] if is_hourly else bisect_left(edges, hour + 1) - 1
            self.rest_mj[i] += energy_mj

    def slots(self, from_hour: int, to_hour: int) -> tuple[int, int]:
        """Return the indexes of the intervals of ``[from_hour, to_hour)``."""
        return bisect_left(self.edges, from_hour), bisect_left(self.edges, to_hour)

    def coverable_mj(self, start: int, end: int) -> int:
        """Return the energy that can still be covered in intervals."""
        if end - start == 1:
            return max(0, self.rest_mj[start])
        rest = self.rest_mj[start:end]
        return max(0, min(sum(rest), sum(mj for mj in rest if mj > 0)))

    def cover(self, start: int, end: int, energy_mj: int) -> None:
        """Cover energy, at most that of :meth:`coverable_mj`, in proportion to the rest."""
        if end - start == 1:
            self.rest_mj[start] -= energy_mj
            return
        positive = [max(0, mj) for mj in self.rest_mj[start:end]]
        for i, part in enumerate(_proportional(energy_mj, positive), start):
            self.rest_mj[i] -= part


def _proportional(amount: int, weights: Sequence[int]) -> Iterator[int]:
    """Yield parts of ``amount`` in proportion to weights. They sum to it exactly, and none exceeds
    its weight if ``amount`` is at most their sum.
    """
    total, before, reached = sum(weights), 0, 0
    for weight in weights:
        reached += weight
        until = amount * reached // total if total else 0
        yield until - before
        before = until


def match(
    *,
    edition: RuleEdition,
    year: MatchingYear,
    consumption: Consumption,
    instruments: Iterable[ContractualInstrument],
    rates: Mapping[str, ZoneRates],
    chain: Callable[[str], Sequence[str]],
) -> Matching:
    """Return the lines of the energy of a year. The sum of their energy is the consumption.

    ``rates`` are by zone of ``consumption``; zone '' is unknown. ``chain`` returns a zone and the
    zones that contain it. Energy of hours outside the year is left out.
    """
    is_draft = edition == RuleEdition.SCOPE2_DRAFT_2025
    usable = [instrument for instrument in instruments if instrument.kind in _RANK]
    excluded = {
        instrument.instrument_id: reason
        for instrument in usable
        if (reason := _exclusion(instrument, consumption, chain, is_draft=is_draft))
    }
    zones_of = {
        instrument.instrument_id: _zones(instrument, consumption, chain, is_draft=is_draft)
        for instrument in usable
        if instrument.instrument_id not in excluded
    }
    ordered = sorted(
        (instrument for instrument in usable if instrument.instrument_id in zones_of),
        key=lambda instrument: (
            _RANK[instrument.kind][0],
            0 if is_draft else _FINENESS[instrument.granularity],
            len(zones_of[instrument.instrument_id]),
            instrument.instrument_id,
        ),
    )
    pools = {
        zone: _Pool(
            zone,
            {hour: mj for hour, mj in hours.items() if year.from_hour <= hour < year.to_hour},
            _edges(
                year,
                [
                    instrument
                    for instrument in ordered
                    if zone in zones_of[instrument.instrument_id]
                ],
                is_draft=is_draft,
            ),
        )
        for zone, hours in sorted(consumption.items())
    }
    lines: list[Line] = []
    used: dict[int, int] = {}
    for instrument in ordered:
        of_instrument = [pools[zone] for zone in zones_of[instrument.instrument_id]]
        granularity = Granularity.HOUR if is_draft else instrument.granularity
        added = list(_cover(instrument, of_instrument, year, granularity, rates))
        used[instrument.instrument_id] = sum(line.energy_mj for line in added)
        lines += added
    for pool in pools.values():
        lines += _rest_lines(pool, year, rates.get(pool.zone, _NO_RATES), is_draft=is_draft)
    return Matching(edition, lines, used, _available(usable, year), excluded)


def _zones(
    instrument: ContractualInstrument,
    zones: Iterable[str],
    chain: Callable[[str], Sequence[str]],
    *,
    is_draft: bool,
) -> list[str]:
    """Return the zones whose consumption an instrument can cover."""
    areas = [instrument.market, instrument.boundary] if is_draft else [instrument.market]
    return [zone for zone in sorted(zones) if all(area & {*chain(zone)} for area in areas)]


def _exclusion(
    instrument: ContractualInstrument,
    zones: Iterable[str],
    chain: Callable[[str], Sequence[str]],
    *,
    is_draft: bool,
) -> Exclusion | None:
    """Return why an instrument covers nothing, None if it can."""
    if is_draft and instrument.is_unlimited:
        return Exclusion.NO_VOLUME
    if is_draft and not instrument.boundary:
        return Exclusion.UNKNOWN_BOUNDARY
    if not _zones(instrument, zones, chain, is_draft=False):
        return Exclusion.OTHER_MARKET
    if not _zones(instrument, zones, chain, is_draft=is_draft):
        return Exclusion.OUTSIDE_BOUNDARY
    return None


def _available(instruments: Iterable[ContractualInstrument], year: MatchingYear) -> dict[int, int]:
    """Return the volume of each instrument in the year. Those without a limit are left out."""
    return {
        instrument.instrument_id: sum(
            prorated(mj, start, end, year.from_hour, year.to_hour)
            for start, end, mj in instrument.parts
        )
        for instrument in instruments
        if not instrument.is_unlimited
    }


def _edges(
    year: MatchingYear, instruments: Sequence[ContractualInstrument], *, is_draft: bool
) -> list[int]:
    """Return the edges of the intervals that the matching periods of instruments need."""
    if is_draft or any(instrument.granularity == Granularity.HOUR for instrument in instruments):
        return year.edges(Granularity.HOUR)
    edges = {year.from_hour, year.to_hour}
    for instrument in instruments:
        if instrument.is_unlimited:
            edges |= {edge for start, end, _ in instrument.parts for edge in (start, end)}
        elif instrument.granularity == Granularity.MONTH:
            edges |= {*year.months}
    return sorted(edge for edge in edges if year.from_hour <= edge <= year.to_hour)


def _cover(
    instrument: ContractualInstrument,
    pools: Sequence[_Pool],
    year: MatchingYear,
    granularity: Granularity,
    rates: Mapping[str, ZoneRates],
) -> Iterator[Line]:
    """Cover what an instrument can, and yield its lines."""
    rule = _RANK[instrument.kind][1]
    for start, end, limit_mj in _periods(instrument, year, granularity):
        slots = [pool.slots(start, end) for pool in pools]
        free = [pool.coverable_mj(*slot) for pool, slot in zip(pools, slots, strict=True)]
        amount = sum(free) if limit_mj is None else min(limit_mj, sum(free))
        if amount <= 0:
            continue
        profile = _profile(instrument, granularity)
        for pool, slot, part in zip(pools, slots, _proportional(amount, free), strict=True):
            if part:
                pool.cover(*slot, part)
                upstream = rates.get(pool.zone, _NO_RATES).upstream_ug_per_kwh
                yield _line(
                    (pool.zone, start, end), rule, part, instrument.ug_per_kwh, upstream,
                    instrument.instrument_id, profile,
                )  # fmt: skip


def _periods(
    instrument: ContractualInstrument, year: MatchingYear, granularity: Granularity
) -> Iterator[tuple[int, int, int | None]]:
    """Yield the matching periods of an instrument with its volume in each. None: no limit."""
    if instrument.is_unlimited:
        for start, end, _ in instrument.parts:
            start, end = max(start, year.from_hour), min(end, year.to_hour)
            if start < end:
                yield start, end, None
        return
    edges = year.edges(granularity)
    for (start, end), volume in zip(
        pairwise(edges), volumes_by_period(instrument.parts, edges), strict=True
    ):
        if volume:
            yield start, end, volume


def volumes_by_period(parts: Sequence[Part], edges: Sequence[int]) -> list[int]:
    """Return the volume in each interval between edges. A part is flat over its hours; its parts
    sum to it exactly.
    """
    volumes = [0] * (len(edges) - 1)
    for start, end, volume in parts:
        i = max(0, bisect_left(edges, start + 1) - 1)
        while i < len(volumes) and edges[i] < end:
            volumes[i] += prorated(volume, start, end, edges[i], edges[i + 1])
            i += 1
    return volumes


def _profile(instrument: ContractualInstrument, granularity: Granularity) -> VolumeProfile:
    if instrument.is_unlimited:
        return VolumeProfile.NONE
    if _FINENESS[instrument.volumes_by] <= _FINENESS[granularity]:
        return VolumeProfile.STATED
    if instrument.volumes_by == Granularity.MONTH:
        return VolumeProfile.FLAT_MONTH
    return VolumeProfile.FLAT_VINTAGE


def _rest_lines(
    pool: _Pool, year: MatchingYear, rates: ZoneRates, *, is_draft: bool
) -> Iterator[Line]:
    """Yield the lines of uncovered energy: of the year, or of each hour under the draft."""
    rule, rate, upstream = _rest_rate(rates, is_draft=is_draft)
    ug_per_kwh = rate.ug_per_kwh if rate else None
    instrument_id = rate.instrument_id if rate else None
    periods = (
        zip(pool.edges, pool.edges[1:], pool.rest_mj, strict=False)
        if is_draft
        else [(year.from_hour, year.to_hour, sum(pool.rest_mj))]
    )
    for start, end, energy_mj in periods:
        if energy_mj:
            yield _line(
                (pool.zone, start, end), rule, energy_mj, ug_per_kwh, upstream, instrument_id
            )


def _rest_rate(rates: ZoneRates, *, is_draft: bool) -> tuple[MarketRule, Rate | None, int | None]:
    """Return rule, rate and upstream emissions of uncovered energy."""
    if rates.residual_mix is not None:
        return MarketRule.RESIDUAL_MIX, rates.residual_mix, rates.upstream_ug_per_kwh
    if is_draft and rates.fossil is not None:
        return MarketRule.FOSSIL_FACTOR, rates.fossil, rates.upstream_ug_per_kwh
    if not is_draft and rates.grid is not None:
        return MarketRule.GRID_AVERAGE, rates.grid, 0  # a factor on the basis has its upstream part
    return MarketRule.MISSING_FACTOR, None, None


def _line(
    place: tuple[str, int, int],
    rule: MarketRule,
    energy_mj: int,
    rate: int | None,
    upstream: int | None,
    instrument_id: int | None,
    profile: VolumeProfile = VolumeProfile.NONE,
) -> Line:
    zone, start, end = place
    return Line(
        zone, start, end, rule, instrument_id, profile, energy_mj, rate,
        None if rate is None else emission_ug(energy_mj, PPM, rate),
        None if rate is None or upstream is None else emission_ug(energy_mj, PPM, upstream),
    )  # fmt: skip
