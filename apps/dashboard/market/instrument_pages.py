"""Content of the pages of contractual instruments: the list, and one instrument."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.core.paginator import Paginator

from apps.accounts.models import Lab
from apps.carbon.market.choices import Granularity
from apps.carbon.market.criteria import Finding
from apps.carbon.market.models import CertificateRange, Instrument, InstrumentEvidence
from apps.carbon.market.selectors import findings_of, instruments_of
from apps.core.errors import InvalidInput
from apps.core.text import parse_record_number
from apps.core.units import MJ_PER_KWH, amount_text
from apps.dashboard.formatting import ENERGY, grams_per_kwh, size
from apps.fleet.zones import zones

PAGE_ROWS = 50
MAX_CERTIFICATES = 100


@dataclass(frozen=True)
class InstrumentRow:
    """An instrument in the list. ``findings``: number of quality criteria that it does not meet."""

    instrument: Instrument
    volume: str
    rate: str
    findings: int


@dataclass(frozen=True)
class InstrumentsPage:
    """A page of the list. ``count``: of all instruments. ``before``, ``after``: addresses."""

    rows: list[InstrumentRow]
    count: int
    before: str
    after: str


@dataclass(frozen=True)
class EvidenceFile:
    """The document of an instrument."""

    name: str
    size: str
    sha256: str


@dataclass(frozen=True)
class InstrumentPage:
    """One instrument. ``market``: names of zones. ``certificates``: first ranges of ids, ``more``:
    the number of others.
    """

    row: InstrumentRow
    market: list[str]
    plant_zone: str
    matched_by: str
    volumes_by: str
    certificates: list[str]
    more: int
    evidence: EvidenceFile | None
    findings: list[Finding]


def instruments_page(lab: Lab, params: Mapping[str, str]) -> InstrumentsPage:
    """Return a page of the list, the latest first, withdrawn ones too. Three queries."""
    number = parse_record_number(params.get("page", "1"))
    if number is None or not 1 <= number <= 10**6:
        raise InvalidInput("This is not a page.", field="page", hint="Pages count from 1.")
    rows = instruments_of(lab, with_withdrawn=True).order_by("-created_us", "-pk")
    page = Paginator(rows, PAGE_ROWS).get_page(number)
    findings = findings_of(lab)
    return InstrumentsPage(
        rows=[_row(row, len(findings.get(row.pk, ()))) for row in page],
        count=page.paginator.count,
        before=f"?page={page.previous_page_number()}" if page.has_previous() else "",
        after=f"?page={page.next_page_number()}" if page.has_next() else "",
    )


def instrument_page(lab: Lab, instrument: Instrument) -> InstrumentPage:
    """Return the page of an instrument."""
    findings = findings_of(lab).get(instrument.pk, [])
    ranges = CertificateRange.objects.filter(instrument=instrument).order_by("pk")
    texts = list(ranges.values_list("text", flat=True)[: MAX_CERTIFICATES + 1])
    evidence = (
        InstrumentEvidence.objects.filter(instrument=instrument)
        .values_list("file_name", "size_bytes", "sha256")
        .first()
    )
    return InstrumentPage(
        row=_row(instrument, len(findings)),
        market=[_zone_name(code) for code in instrument.market],
        plant_zone=_zone_name(instrument.plant_zone) if instrument.plant_zone else "",
        matched_by=Granularity(instrument.granularity).label.lower(),
        volumes_by=""
        if instrument.volumes_by == Granularity.YEAR
        else Granularity(instrument.volumes_by).label.lower(),
        certificates=texts[:MAX_CERTIFICATES],
        more=ranges.count() - MAX_CERTIFICATES if len(texts) > MAX_CERTIFICATES else 0,
        evidence=EvidenceFile(evidence[0], size(evidence[1]), evidence[2]) if evidence else None,
        findings=findings,
    )


def _row(instrument: Instrument, findings: int) -> InstrumentRow:
    volume_wh = instrument.volume_wh
    return InstrumentRow(
        instrument,
        "" if volume_wh is None else amount_text(volume_wh * (MJ_PER_KWH // 1000), ENERGY),
        grams_per_kwh(instrument.ug_per_kwh),
        findings,
    )


def _zone_name(code: str) -> str:
    zone = zones().get(code)
    return f"{zone.name} ({code})" if zone else code
