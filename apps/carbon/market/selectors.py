"""Reads of instruments: lists, and what matching needs."""

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from zoneinfo import ZoneInfo

from django.db.models import Exists, F, OuterRef, QuerySet, Subquery, Sum

from apps.accounts.models import Lab
from apps.carbon.market.choices import PUBLISHED, Granularity, InstrumentKind
from apps.carbon.market.criteria import Facts, Finding, check_instrument
from apps.carbon.market.models import CertificateRange, Instrument, InstrumentEvidence
from apps.carbon.market.records import ContractualInstrument, MatchingYear, Part, Rate
from apps.core.errors import NotFound
from apps.core.intervals import midnight_hour
from apps.core.units import MJ_PER_KWH
from apps.fleet.zones import zone_chain

MJ_PER_WH = MJ_PER_KWH // 1000


def matching_year(lab: Lab, year: int) -> MatchingYear:
    """Return the hours of a calendar year in the lab's time zone."""
    zone = ZoneInfo(lab.time_zone)
    months = tuple(midnight_hour(date(year, month, 1), zone) for month in range(1, 13))
    return MatchingYear(months[0], midnight_hour(date(year + 1, 1, 1), zone), months)


def instruments_of(lab: Lab, *, with_withdrawn: bool = False) -> QuerySet[Instrument]:
    """Return the instruments of a lab without their volumes by month or hour, the latest vintage
    first.
    """
    rows = Instrument.objects.filter(lab=lab).defer("volumes_wh")
    if not with_withdrawn:
        rows = rows.filter(withdrawn_us=None)
    return rows.order_by("-first_day", "pk")


def instrument_of(lab: Lab, pk: int) -> Instrument:
    """Return an instrument of a lab. Raises NotFound."""
    instrument = instruments_of(lab, with_withdrawn=True).filter(pk=pk).first()
    if instrument is None:
        raise NotFound("There is no such instrument.")
    return instrument


def evidence_of(lab: Lab, pk: int) -> InstrumentEvidence:
    """Return the document of an instrument, also of a withdrawn one. Raises NotFound."""
    evidence = InstrumentEvidence.objects.filter(instrument_id=pk, instrument__lab=lab).first()
    if evidence is None:
        raise NotFound("There is no such document.")
    return evidence


def contractual_instruments_of(lab: Lab, year: MatchingYear) -> list[ContractualInstrument]:
    """Return the instruments of a lab with a vintage in a year. One query."""
    zone = ZoneInfo(lab.time_zone)
    rows = (
        Instrument.objects.filter(lab=lab, withdrawn_us=None).exclude(kind__in=PUBLISHED)
    ).order_by("pk")
    instruments = (_contractual_instrument(row, zone) for row in rows.iterator(chunk_size=200))
    return [
        instrument
        for instrument in instruments
        if instrument.parts[0][0] < year.to_hour and instrument.parts[-1][1] > year.from_hour
    ]


def _contractual_instrument(row: Instrument, zone: ZoneInfo) -> ContractualInstrument:
    market = frozenset(row.market)
    boundary = frozenset([row.plant_zone]) if row.plant_zone else market
    return ContractualInstrument(
        instrument_id=row.pk,
        kind=InstrumentKind(row.kind),
        market=market,
        boundary=boundary if len(boundary) == 1 else frozenset(),
        granularity=Granularity(row.granularity),
        parts=_parts(row, zone),
        volumes_by=Granularity(row.volumes_by),
        ug_per_kwh=row.ug_per_kwh,
        is_unlimited=row.volume_wh is None,
    )


def _parts(row: Instrument, zone: ZoneInfo) -> Sequence[Part]:
    if row.volumes_wh is not None and row.volumes_from_hour is not None:
        start = row.volumes_from_hour
        return [(start + i, start + i + 1, wh * MJ_PER_WH) for i, wh in enumerate(row.volumes_wh)]
    start, end = (midnight_hour(day, zone) for day in (row.first_day, _after(row.last_day)))
    if row.volumes_wh is None:
        return [(start, end, (row.volume_wh or 0) * MJ_PER_WH)]
    first = row.first_day.year * 12 + row.first_day.month - 1
    edges = [
        midnight_hour(date((first + i) // 12, (first + i) % 12 + 1, 1), zone)
        for i in range(len(row.volumes_wh) + 1)
    ]
    return [(edges[i], edges[i + 1], wh * MJ_PER_WH) for i, wh in enumerate(row.volumes_wh)]


def _after(day: date) -> date:
    return day + timedelta(days=1)


def published_rates(
    lab: Lab, kind: InstrumentKind, zones: Iterable[str], year: int
) -> dict[str, Rate]:
    """Return {zone: residual mix or fossil-based factor}. One query.

    It is that of the zone, else of the closest zone that contains it; of the year, else of the
    latest year before it. Zones without one are left out.
    """
    rows = Instrument.objects.filter(
        lab=lab, kind=kind, withdrawn_us=None, first_day__lte=date(year, 1, 1)
    ).order_by("first_day")
    latest = {
        row.market[0]: Rate(row.ug_per_kwh, row.pk, row.first_day.year)
        for row in rows.defer("volumes_wh")
    }
    closest = {
        zone: next((latest[code] for code in zone_chain(zone) if code in latest), None)
        for zone in zones
    }
    return {zone: rate for zone, rate in closest.items() if rate is not None}


def findings_of(lab: Lab) -> dict[int, list[Finding]]:
    """Return {instrument id: quality criteria that its record does not meet}, of the instruments
    that are not withdrawn. One query.
    """
    ranges = CertificateRange.objects.filter(instrument=OuterRef("pk")).values("instrument")
    rows = instruments_of(lab).annotate(
        certificate_count=Subquery(ranges.annotate(n=Sum(F("last") - F("first") + 1)).values("n")),
        has_evidence=Exists(InstrumentEvidence.objects.filter(instrument=OuterRef("pk"))),
    )
    return {
        row.pk: check_instrument(
            Facts(
                kind=InstrumentKind(row.kind),
                registry=row.registry,
                certificates=int(row.certificate_count or 0),
                volume_wh=row.volume_wh,
                first_day=row.first_day,
                last_day=row.last_day,
                retired_on=row.retired_on,
                beneficiary=row.beneficiary,
                has_evidence=row.has_evidence,
                volumes_by=Granularity(row.volumes_by),
            )
        )
        for row in rows
    }
