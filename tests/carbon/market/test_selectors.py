"""Instruments, published rates and findings of a lab's instruments."""

from datetime import date

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.carbon.market.choices import Granularity, InstrumentKind
from apps.carbon.market.selectors import (
    contractual_instruments_of,
    evidence_of,
    findings_of,
    instrument_of,
    instruments_of,
    matching_year,
    published_rates,
)
from apps.carbon.market.services import withdraw_instrument
from apps.catalog.services.custom_models import Document
from apps.core.errors import NotFound
from tests.builders import T0, small_lab
from tests.carbon.market.instruments import RESIDUAL, add

pytestmark = pytest.mark.django_db
WH = 3_600_000


def test_the_year_is_that_of_the_time_zone() -> None:
    year = matching_year(small_lab().lab, 2026)  # Europe/Berlin
    assert (year.from_hour, year.to_hour) == (490_895, 490_895 + 8_760)
    assert len(year.months) == 12
    assert year.months[6] - year.months[0] == 181 * 24 - 1  # summer time


def test_supplies_of_a_year() -> None:
    small = small_lab()
    year = matching_year(small.lab, 2026)
    annual = add(small.lab, market=["DE", "FR"], plant_zone="FR")
    monthly = add(
        small.lab, volumes_by="month", volumes_wh=[1, 2], volume_wh=None,
        first_day=date(2026, 11, 1), granularity="month",
    )  # fmt: skip
    hourly = add(
        small.lab, volumes_by="hour", volumes_wh=[7] * 24, volume_wh=None,
        first_day=date(2026, 1, 1), last_day=date(2026, 1, 1), market=["DE", "FR"],
    )  # fmt: skip
    tariff = add(small.lab, kind="tariff", volume_wh=None, ug_per_kwh=5)
    add(small.lab, first_day=date(2025, 1, 1), last_day=date(2025, 12, 31))
    add(small.lab, **RESIDUAL)
    withdrawn = add(small.lab)
    withdraw_instrument(lab=small.lab, instrument=withdrawn, reason="Test", by=None, now=T0)
    add(small_lab(name="Other").lab)
    with CaptureQueriesContext(connection) as queries:
        instruments = {
            instrument.instrument_id: instrument
            for instrument in contractual_instruments_of(small.lab, year)
        }
    assert len(queries) == 1
    assert list(instruments) == [annual.pk, monthly.pk, hourly.pk, tariff.pk]
    first = instruments[annual.pk]
    assert first.parts == [(year.from_hour, year.to_hour, 3_000_000 * WH)]
    assert (first.market, first.boundary) == ({"DE", "FR"}, {"FR"})
    assert instruments[monthly.pk].parts == [
        (year.months[10], year.months[11], WH),
        (year.months[11], year.to_hour, 2 * WH),
    ]
    assert instruments[monthly.pk].granularity == Granularity.MONTH
    assert instruments[monthly.pk].boundary == {"DE"}
    assert instruments[hourly.pk].parts == [
        (year.from_hour + i, year.from_hour + i + 1, 7 * WH) for i in range(24)
    ]
    assert instruments[hourly.pk].boundary == frozenset()
    assert instruments[tariff.pk].is_unlimited


def test_the_residual_mix_is_of_the_closest_zone_and_the_latest_year() -> None:
    small = small_lab()

    def of(year: int, zone: str, grams: int) -> int:
        return add(
            small.lab,
            **{
                **RESIDUAL,
                "market": [zone],
                "first_day": date(year, 1, 1),
                "last_day": date(year, 12, 31),
                "ug_per_kwh": grams,
            },
        ).pk

    of(2024, "US", 4)
    latest = of(2025, "US", 5)
    of(2027, "US", 7)
    closer = of(2023, "US-CA", 3)
    rates = published_rates(
        small.lab, InstrumentKind.RESIDUAL_MIX, ["US-TX", "US-CA", "DE", ""], 2026
    )
    assert {
        zone: (rate.ug_per_kwh, rate.instrument_id, rate.year) for zone, rate in rates.items()
    } == {
        "US-TX": (5, latest, 2025),
        "US-CA": (3, closer, 2023),
    }
    assert published_rates(small.lab, InstrumentKind.FOSSIL_FACTOR, ["US-TX"], 2026) == {}


def test_findings_are_the_missing_criteria() -> None:
    small = small_lab()
    bare = add(small.lab)
    full = add(
        small.lab, certificates="GO-1 to GO-3", registry="HKNR", beneficiary="Cell Lab",
        retired_on=date(2026, 1, 2), document=Document("a.pdf", b"%PDF-1.7 proof"),
        volumes_by="hour", volumes_wh=[3_000_000, *[0] * 23], volume_wh=None,
        last_day=date(2026, 1, 1),
    )  # fmt: skip
    odd = add(
        small.lab, certificates="GO-11\nGO-15 to GO-17", registry="HKNR", beneficiary="Cell Lab",
        retired_on=date(2025, 12, 30), document=Document("a.pdf", b"%PDF-1.7 proof"),
        last_day=date(2027, 12, 31),
    )  # fmt: skip
    residual = add(small.lab, **RESIDUAL)
    with CaptureQueriesContext(connection) as queries:
        findings = findings_of(small.lab)
    assert len(queries) == 1
    codes = {pk: [finding.code for finding in of_row] for pk, of_row in findings.items()}
    assert codes == {
        bare.pk: [
            "no_registry", "no_certificate_ids", "not_retired", "no_beneficiary",
            "no_hourly_volumes", "no_evidence",
        ],
        full.pk: [],
        odd.pk: ["other_volume", "retired_before_vintage", "long_vintage", "no_hourly_volumes"],
        residual.pk: ["no_evidence"],
    }  # fmt: skip
    assert all(finding.text and finding.hint for of_row in findings.values() for finding in of_row)


def test_instruments_and_documents_are_those_of_the_lab() -> None:
    small, other = small_lab(), small_lab(name="Other")
    row = add(small.lab, document=Document("a.pdf", b"%PDF-1.7 proof"))
    withdraw_instrument(lab=small.lab, instrument=row, reason="Test", by=None, now=T0)
    assert list(instruments_of(small.lab)) == []
    assert list(instruments_of(small.lab, with_withdrawn=True)) == [row]
    assert instrument_of(small.lab, row.pk) == row
    assert bytes(evidence_of(small.lab, row.pk).content) == b"%PDF-1.7 proof"
    for read in (instrument_of, evidence_of):
        with pytest.raises(NotFound):
            read(other.lab, row.pk)
