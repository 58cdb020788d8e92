"""Instruments are added and withdrawn, and a certificate is used once in a lab."""

from datetime import date
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.accounts import audit
from apps.accounts.models import AuditEntry
from apps.carbon.market.models import CertificateRange, Instrument, InstrumentEvidence
from apps.carbon.market.services import withdraw_instrument
from apps.catalog.services.custom_models import Document
from apps.core.errors import Conflict, InvalidInput, NotFound, TooLarge
from tests.builders import T0, small_lab
from tests.carbon.market.instruments import RESIDUAL, add

pytestmark = pytest.mark.django_db


def test_an_instrument_with_certificates_and_evidence() -> None:
    small = small_lab()
    row = add(
        small.lab,
        certificates="GO-1 to GO-2\nGO-7",
        registry="HKNR",
        market=["Germany", "NO", "DE"],
        document=Document("folder/proof.pdf", b"%PDF-1.7 proof"),
    )
    row.refresh_from_db()
    assert row.market == ["DE", "NO"]
    assert (row.volume_wh, row.volumes_wh, row.volumes_by) == (3_000_000, None, "year")
    ranges = CertificateRange.objects.filter(instrument=row).order_by("first")
    assert [(ids.prefix, ids.first, ids.last, ids.text) for ids in ranges] == [
        ("GO-", 1, 2, "GO-1 to GO-2"),
        ("GO-", 7, 7, "GO-7"),
    ]
    evidence = InstrumentEvidence.objects.get(instrument=row)
    assert (evidence.file_name, evidence.content_type) == ("proof.pdf", "application/pdf")
    assert bytes(evidence.content) == b"%PDF-1.7 proof"
    entry = AuditEntry.objects.get(action="instrument.added")
    assert entry.details["evidence_sha256"] == evidence.sha256
    assert (entry.details["volume_wh"], entry.details["market"]) == (3_000_000, "DE, NO")


@pytest.mark.parametrize(
    "again", ["GO-5", "go-0005", "GO-1 to GO-5", "GO-8 to GO-30", "GO-1..GO-99"]
)
def test_a_certificate_is_used_once_in_a_lab(again: str) -> None:
    small, other = small_lab(), small_lab(name="Other")
    first = add(small.lab, certificates="GO-5 to GO-9")
    add(small.lab, certificates="GO-1 to GO-4\nGO-10\nREC-5")
    withdraw_instrument(
        lab=small.lab, instrument=Instrument.objects.latest("pk"), reason="Test", by=None, now=T0
    )
    with pytest.raises(InvalidInput, match="already used") as error:
        add(small.lab, certificates=again)
    assert error.value.field == "certificates"
    assert Instrument.objects.count() == 2
    add(other.lab, certificates=again)
    withdraw_instrument(
        lab=small.lab, instrument=first, reason="Wrong volume", by=small.owner, now=T0
    )
    add(small.lab, certificates=again)


def test_a_withdrawn_instrument_stays_with_its_reason() -> None:
    small, other = small_lab(), small_lab(name="Other")
    row = add(small.lab)
    for reason in ("", "  ", "x" * 401, "a\x00b"):
        with pytest.raises(InvalidInput) as error:
            withdraw_instrument(lab=small.lab, instrument=row, reason=reason, by=None, now=T0)
        assert error.value.field == "reason"
    with pytest.raises(NotFound):
        withdraw_instrument(lab=other.lab, instrument=row, reason="Test", by=None, now=T0)
    withdraw_instrument(lab=small.lab, instrument=row, reason="Sold", by=small.owner, now=T0 + 1)
    row.refresh_from_db()
    assert (row.withdrawn_us, row.withdrawn_by, row.withdrawal_reason) == (
        T0 + 1,
        small.owner,
        "Sold",
    )
    with pytest.raises(Conflict):
        withdraw_instrument(lab=small.lab, instrument=row, reason="Again", by=None, now=T0)
    actions = AuditEntry.objects.filter(action__startswith="instrument.").order_by("pk")
    assert [(entry.action, audit.with_names(entry).details.get("reason")) for entry in actions] == [
        ("instrument.added", None),
        ("instrument.withdrawn", "Sold"),
    ]


def test_volumes_by_month_and_by_hour() -> None:
    small = small_lab()  # Europe/Berlin
    days = {"first_day": date(2026, 3, 1), "last_day": date(2026, 4, 30)}
    monthly = add(small.lab, volumes_by="month", volumes_wh=[1, 2], volume_wh=None, **days)
    assert (monthly.volume_wh, monthly.volumes_by, monthly.volumes_wh) == (3, "month", [1, 2])
    hours = 61 * 24 - 1  # summer time begins
    hourly = add(small.lab, volumes_by="hour", volumes_wh=[5] * hours, volume_wh=5 * hours, **days)
    assert hourly.volumes_from_hour == 492_311  # 2026-02-28 23:00 UTC
    refused: list[tuple[dict[str, Any], str]] = [
        ({"volumes_by": "month", "volumes_wh": [1, 2, 3]}, "volumes"),
        ({"volumes_by": "hour", "volumes_wh": [5] * (hours + 1)}, "volumes"),
        ({"volumes_by": "month", "volumes_wh": [4, -1]}, "volumes"),
        ({"volumes_by": "month", "volumes_wh": [1, 2], "volume_wh": 4}, "volume"),
        ({"volumes_by": "month", "volumes_wh": [0, 0]}, "volume"),
        ({"volumes_by": "year", "volumes_wh": [3]}, "volumes_by"),
        ({"volumes_by": "month", "volumes_wh": [1], "first_day": date(2026, 4, 2)}, "first_day"),
    ]
    for values, field in refused:
        with pytest.raises(InvalidInput) as error:
            add(small.lab, **{"volume_wh": None, **days, **values})
        assert error.value.field == field, values


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"kind": "nothing"}, "kind"),
        ({"name": " "}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"market": []}, "market"),
        ({"market": ["Atlantis"]}, "market"),
        ({"plant_zone": "Atlantis"}, "plant_zone"),
        ({"last_day": date(2025, 12, 31)}, "last_day"),
        ({"last_day": date(2037, 12, 31)}, "last_day"),
        ({"ug_per_kwh": None}, "ug_per_kwh"),
        ({"ug_per_kwh": -1}, "ug_per_kwh"),
        ({"ug_per_kwh": 1_500_000_001}, "ug_per_kwh"),
        ({"volume_wh": None}, "volume"),
        ({"volume_wh": 0}, "volume"),
        ({"volume_wh": 10**12 + 1}, "volume"),
        ({"granularity": "week"}, "granularity"),
        ({"retired_on": date(2100, 1, 1)}, "retired_on"),
        ({"kind": "ppa", "retired_on": date(2026, 1, 5)}, "retired_on"),
        ({"kind": "ppa", "certificates": "GO-1"}, "certificates"),
        ({**RESIDUAL, "volume_wh": 1}, "volume"),
        ({**RESIDUAL, "ug_per_kwh": 0}, "ug_per_kwh"),
        ({**RESIDUAL, "market": ["DE", "FR"]}, "market"),
        ({**RESIDUAL, "first_day": date(2026, 2, 1)}, "first_day"),
        ({"document": Document("a.pdf", b"text")}, "evidence"),
        ({"registry": "a\x00b"}, "registry"),
        ({"notes": "x" * 1001}, "notes"),
    ],
)
def test_invalid_input(values: dict[str, Any], field: str) -> None:
    small = small_lab()
    with pytest.raises(InvalidInput) as error:
        add(small.lab, **values)
    assert error.value.field == field
    assert not Instrument.objects.exists()
    assert not AuditEntry.objects.filter(action__startswith="instrument.").exists()


def test_large_evidence() -> None:
    with pytest.raises(TooLarge):
        add(small_lab().lab, document=Document("a.txt", b"a" * (5 * 1024 * 1024 + 1)))


def test_a_zone_has_one_residual_mix_of_a_year() -> None:
    small = small_lab()
    row = add(small.lab, **RESIDUAL)
    with pytest.raises(InvalidInput) as error:
        add(small.lab, **RESIDUAL)
    assert error.value.field == "market"
    add(small.lab, **{**RESIDUAL, "market": ["FR"]})
    add(small.lab, **{**RESIDUAL, "kind": "fossil_factor"})
    add(
        small.lab,
        **{**RESIDUAL, "first_day": date(2025, 1, 1), "last_day": date(2025, 12, 31)},
    )
    withdraw_instrument(lab=small.lab, instrument=row, reason="Corrected", by=None, now=T0)
    add(small.lab, **RESIDUAL)


def test_two_tariffs_of_a_zone_and_time_need_volumes() -> None:
    small = small_lab()
    tariff = {"kind": "tariff", "volume_wh": None, "ug_per_kwh": 300_000_000}
    add(small.lab, **tariff, market=["US"], last_day=date(2026, 6, 30))
    with pytest.raises(InvalidInput) as error:
        add(small.lab, **tariff, market=["US-CA"], first_day=date(2026, 6, 30))
    assert error.value.field == "market"
    add(small.lab, **tariff, market=["US-CA"], first_day=date(2026, 7, 1))
    add(small.lab, **{**tariff, "volume_wh": 5}, market=["US"])
    add(small.lab, **tariff, market=["DE"])


@pytest.mark.parametrize(
    "values",
    [
        {"volume_wh": 0},
        {"ug_per_kwh": -1},
        {"last_day": date(2025, 1, 1)},
        {"withdrawn_us": T0},
    ],
)
def test_the_database_refuses_impossible_rows(values: dict[str, Any]) -> None:
    row = add(small_lab().lab)
    with pytest.raises(IntegrityError), transaction.atomic():
        Instrument.objects.filter(pk=row.pk).update(**values)
