"""Instruments of a lab: add, add a document, and withdraw. They are never edited."""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import Lab, User
from apps.carbon.market.certificate_ids import IdRange, first_overlap
from apps.carbon.market.choices import PUBLISHED, InstrumentAct, InstrumentKind
from apps.carbon.market.evidence import CheckedFile, check_file
from apps.carbon.market.models import CertificateRange, Instrument, InstrumentEvidence
from apps.carbon.market.validation import (
    CheckedInstrument,
    InstrumentInput,
    check_instrument_input,
    check_reason,
)
from apps.catalog.services.custom_models import Document
from apps.core.errors import Conflict, InvalidInput, NotFound
from apps.core.jobs import enqueue
from apps.core.units import US_PER_S
from apps.fleet.zones import zone_chain

MATCH = "carbon.match"
_BATCH = 500


@transaction.atomic
def add_instrument(*, lab: Lab, values: InstrumentInput, by: User | None, now: int) -> Instrument:
    """Add an instrument. Raises InvalidInput, also if one of its certificates is already used."""
    zone = ZoneInfo(lab.time_zone)
    today = datetime.fromtimestamp(now // US_PER_S, tz=zone).date()
    checked = check_instrument_input(values, zone, today)
    lab = audit.hold(lab)  # certificates and published factors of a lab are compared one by one
    _check_certificates(lab, checked.certificates)
    _check_conflicts(lab, checked)
    instrument = Instrument.objects.create(
        lab=lab, created_us=now, created_by=by, **checked.columns
    )
    CertificateRange.objects.bulk_create(
        [
            CertificateRange(
                lab=lab,
                instrument=instrument,
                prefix=ids.prefix,
                first=ids.first,
                last=ids.last,
                text=ids.text,
            )
            for ids in checked.certificates
        ],
        batch_size=_BATCH,
    )
    digest = _store(instrument, checked.document) if checked.document else ""
    _record(instrument, InstrumentAct.ADDED, by, now, evidence_sha256=digest)
    enqueue(kind=MATCH, key=str(lab.pk))
    return instrument


@transaction.atomic
def add_evidence(
    *, lab: Lab, instrument: Instrument, document: Document, by: User | None, now: int
) -> None:
    """Store the document of an instrument that has none. No figure depends on it.

    Raises InvalidInput and TooLarge for a file that cannot be stored, Conflict if the instrument
    has a document or is withdrawn, NotFound for another lab.
    """
    if instrument.lab_id != lab.pk:
        raise NotFound("There is no such instrument.")
    file = check_file(document.name, document.content)
    audit.hold(lab)
    if not Instrument.objects.filter(pk=instrument.pk, withdrawn_us=None).exists():
        raise Conflict("This instrument is withdrawn.", hint="Enter it again with its document.")
    if InstrumentEvidence.objects.filter(instrument=instrument).exists():
        raise Conflict("This instrument has a document already.", hint="Reload the page.")
    digest = _store(instrument, file)
    _record(instrument, InstrumentAct.DOCUMENT_ADDED, by, now, evidence_sha256=digest)


@transaction.atomic
def withdraw_instrument(
    *, lab: Lab, instrument: Instrument, reason: str, by: User | None, now: int
) -> None:
    """Withdraw an instrument. It stays with its reason, and its certificates can be entered again.

    Raises InvalidInput without a reason, Conflict if it is withdrawn, NotFound for another lab.
    """
    if instrument.lab_id != lab.pk:
        raise NotFound("There is no such instrument.")
    text = check_reason(reason)
    audit.hold(lab)
    changed = Instrument.objects.filter(pk=instrument.pk, withdrawn_us=None).update(
        withdrawn_us=now, withdrawn_by=by, withdrawal_reason=text
    )
    if not changed:
        raise Conflict("This instrument is already withdrawn.", hint="Reload the page.")
    _record(instrument, InstrumentAct.WITHDRAWN, by, now, reason=text)
    enqueue(kind=MATCH, key=str(lab.pk))


def _check_certificates(lab: Lab, certificates: Sequence[IdRange]) -> None:
    for part in _batches(certificates):
        rows = CertificateRange.objects.filter(
            lab=lab,
            instrument__withdrawn_us=None,
            prefix__in={ids.prefix for ids in part},
            first__lte=max(ids.last for ids in part),
            last__gte=min(ids.first for ids in part),
        )
        columns = ("prefix", "first", "last", "text")
        used = {
            IdRange(*row): name for *row, name in rows.values_list(*columns, "instrument__name")
        }
        pair = first_overlap([*part, *used])
        if pair is not None:
            entered, stored = pair if pair[1] in used else pair[::-1]
            raise InvalidInput(
                f"A certificate of {entered.text} is already used: {stored.text}"
                f"{f' of {used[stored]}' if stored in used else ''}.",
                field="certificates",
                hint="A certificate is used once. Check the ids, or withdraw the other instrument.",
            )


def _check_conflicts(lab: Lab, checked: CheckedInstrument) -> None:
    """Check that no zone has two published factors of a kind and year, or two tariffs without a
    limit at once.
    """
    columns = checked.columns
    if columns["kind"] not in (*PUBLISHED, InstrumentKind.TARIFF) or columns["volume_wh"]:
        return
    rows = Instrument.objects.filter(
        lab=lab,
        withdrawn_us=None,
        kind=columns["kind"],
        volume_wh=None,
        first_day__lte=columns["last_day"],
        last_day__gte=columns["first_day"],
    )
    for row in rows.only("market", "name"):
        if columns["kind"] in PUBLISHED:
            is_same = row.market == checked.market
        else:
            is_same = any(
                one in zone_chain(other) or other in zone_chain(one)
                for one in row.market
                for other in checked.market
            )
        if is_same:
            raise InvalidInput(
                f"{row.name} is entered for this zone and time.",
                field="market",
                hint="Withdraw it first, or enter volumes of both tariffs.",
            )


def _store(instrument: Instrument, file: CheckedFile) -> str:
    digest = hashlib.sha256(file.content).hexdigest()
    InstrumentEvidence.objects.create(
        instrument=instrument,
        file_name=file.name,
        content_type=file.content_type,
        size_bytes=len(file.content),
        sha256=digest,
        content=file.content,
    )
    return digest


def _record(
    instrument: Instrument, act: InstrumentAct, by: User | None, now: int, **details: str
) -> None:
    audit.record(
        lab=instrument.lab,
        by=by,
        action=act,
        subject=str(instrument),
        details={
            "instrument": instrument.pk,
            "kind": instrument.kind,
            "market": ", ".join(instrument.market),
            "volume_wh": instrument.volume_wh,
            "ug_per_kwh": instrument.ug_per_kwh,
            **{name: text for name, text in details.items() if text},
        },
        now=now,
    )


def _batches(ranges: Sequence[IdRange]) -> Iterator[Sequence[IdRange]]:
    for start in range(0, len(ranges), _BATCH):
        yield ranges[start : start + _BATCH]
