"""Derive hours with one PUE, emission factor and price from dated facts of sites. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

from apps.fleet.dated_facts import SiteFacts, dated_intervals, started_value_at, value_at


@dataclass(frozen=True)
class PeriodFactor:
    """The id of a factor, and the year or the month (0: none) it was made for."""

    factor_id: int
    year: int
    month: int = 0


@dataclass(frozen=True)
class ZoneFactors:
    """The factors of a zone by year and month, and the id of its hourly series (None: none)."""

    periods: Sequence[PeriodFactor]
    hourly_id: int | None = None


@dataclass(frozen=True)
class Span:
    """Whole hours with one PUE, one factor and one price (None: unknown). ``hourly_id``: the
    series whose hours replace the factor, None for none. ``hourly_site_id``: the site whose hour
    prices replace the price, None for none.
    """

    from_hour: int
    to_hour: int
    pue_ppm: int
    factor_id: int | None
    price_id: int | None = None
    hourly_id: int | None = None
    hourly_site_id: int | None = None

    @property
    def priced(self) -> tuple[int, int | None, int | None]:
        """Return PUE, factor and hourly series."""
        return self.pue_ppm, self.factor_id, self.hourly_id


def year_start_hour(year: int) -> int:
    """Return the whole UTC hour in which a year begins."""
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) // 3600


def month_start_hour(year: int, month: int) -> int:
    """Return the whole UTC hour in which a month begins. Month 13 is the next January."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    return int(datetime(year, month, 1, tzinfo=UTC).timestamp()) // 3600


def factor_for_year(factors: Sequence[PeriodFactor], year: int) -> PeriodFactor | None:
    """Return the annual factor of ``year``, else the latest before it, else the earliest after it.

    None without annual factors. They are published a year late. Every figure shows the year of its
    factor.
    """
    annual = [factor for factor in factors if not factor.month]
    before = [factor for factor in annual if factor.year <= year]
    if before:
        return max(before, key=lambda factor: factor.year)
    return min(annual, key=lambda factor: factor.year, default=None)


def factor_for_hour(factors: Sequence[PeriodFactor], hour: int) -> PeriodFactor | None:
    """Return the factor of the UTC month of an hour, else that of its year. A month's factor
    applies to no other month.
    """
    time = datetime.fromtimestamp(hour * 3600, tz=UTC)
    of_month = (
        factor for factor in factors if (factor.year, factor.month) == (time.year, time.month)
    )
    return next(of_month, None) or factor_for_year(factors, time.year)


def _edges(factor: PeriodFactor) -> tuple[int, ...]:
    if not factor.month:
        return (year_start_hour(factor.year),)
    return tuple(month_start_hour(factor.year, factor.month + i) for i in (0, 1))


def spans(
    *,
    from_hour: int,
    to_hour: int,
    pues: Sequence[tuple[int, int]],
    factors: Sequence[tuple[int, Sequence[PeriodFactor]]],
    prices: Sequence[tuple[int, int | None]] = (),
    hourly: Sequence[tuple[int, int | None]] = (),
    hourly_site_id: int | None = None,
) -> list[Span]:
    """Divide ``[from_hour, to_hour)`` where the PUE, the zone, its factor or the price changes.

    ``pues`` are (from_hour, pue_ppm). ``factors`` are (from_hour, the factors of the zone from then
    on), empty for an unknown zone. ``hourly`` are (from_hour, the id of the zone's hourly series).
    The last value at or before an hour applies. Before the first value, the first applies; before
    the first of ``prices`` (from_hour, id, None for a tariff), none does. Adjacent intervals
    with equal values are merged.
    """
    cuts = (
        {from_hour, to_hour}
        | {hour for hour, _ in (*pues, *factors, *prices, *hourly)}
        | {hour for _, of_zone in factors for factor in of_zone for hour in _edges(factor)}
    )
    edges = sorted(cut for cut in cuts if from_hour <= cut <= to_hour)
    result: list[Span] = []
    for start, end in pairwise(edges):
        pue_ppm = value_at(pues, start)
        if pue_ppm is None:
            raise ValueError(
                "A site without a PUE: it is made with one, and the last is never withdrawn."
            )
        factor = factor_for_hour(value_at(factors, start) or (), start)
        span = Span(
            start,
            end,
            pue_ppm,
            factor.factor_id if factor else None,
            started_value_at(prices, start),
            value_at(hourly, start),
            hourly_site_id,
        )
        last = result[-1] if result else None
        if last and (last.priced, last.price_id) == (span.priced, span.price_id):
            result[-1] = replace(last, to_hour=end)
        else:
            result.append(span)
    return result


def spans_by_node(
    places: SiteFacts,
    factors: Mapping[str, ZoneFactors],
    node_ids: Iterable[int],
    until: int,
    prices: Mapping[int, Sequence[tuple[int, int | None]]] | None = None,
    hourly_sites: Collection[int] = (),
) -> dict[int, list[Span]]:
    """Return the spans of nodes over ``[0, until)`` by their sites. ``factors`` are by zone,
    ``prices`` by site. ``hourly_sites`` have hour prices.
    """
    of_site: dict[int, list[Span]] = {}
    result: dict[int, list[Span]] = {}
    for node_id in node_ids:
        result[node_id] = []
        for start, end, site_id in dated_intervals(places.placements[node_id]):
            if site_id not in of_site:
                zones = [(hour, factors[zone]) for hour, zone in places.zones.get(site_id, ())]
                hourly = [(hour, of_zone.hourly_id) for hour, of_zone in zones]
                of_site[site_id] = spans(
                    from_hour=0,
                    to_hour=until,
                    pues=places.pues[site_id],
                    factors=[(hour, of_zone.periods) for hour, of_zone in zones],
                    prices=(prices or {}).get(site_id, ()),
                    hourly=hourly,
                    hourly_site_id=site_id if site_id in hourly_sites else None,
                )
            result[node_id] += clipped(of_site[site_id], start, until if end is None else end)
    return result


def clipped(spans: Iterable[Span], from_hour: int, to_hour: int) -> list[Span]:
    """Return the parts of spans within ``[from_hour, to_hour)``."""
    return [
        replace(span, from_hour=max(span.from_hour, from_hour), to_hour=min(span.to_hour, to_hour))
        for span in spans
        if span.from_hour < to_hour and span.to_hour > from_hour
    ]


@dataclass(frozen=True)
class Change:
    """Whole hours whose PUE or factor changes with a fact about sites."""

    from_hour: int
    to_hour: int
    before: Span
    after: Span


def changes(before: Sequence[Span], after: Sequence[Span]) -> list[Change]:
    """Return the differences of two derivations of the same hours, in order.

    Equal adjacent differences are merged.
    """
    cuts = sorted(
        {span.from_hour for span in (*before, *after)}
        | {span.to_hour for span in (*before, *after)}
    )
    result: list[Change] = []
    for start, end in pairwise(cuts):
        old, new = (
            next(span for span in side if span.from_hour <= start < span.to_hour)
            for side in (before, after)
        )
        if old.priced == new.priced:
            continue
        last = result[-1] if result else None
        same = last and (last.before.priced, last.after.priced) == (old.priced, new.priced)
        if last and same and last.to_hour == start:
            result[-1] = replace(last, to_hour=end)
        else:
            result.append(Change(start, end, old, new))
    return result
