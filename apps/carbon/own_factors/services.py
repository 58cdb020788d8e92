"""Writes of a lab's own factors: upload a file, and confirm it."""

import hashlib
from collections.abc import Sequence
from uuid import UUID

from django.db import transaction
from django.db.models import Max, QuerySet

from apps.accounts import audit
from apps.accounts.models import Lab, User
from apps.carbon.choices import OwnFactorAct
from apps.carbon.factor_files import RESOLUTIONS, Key
from apps.carbon.hourly_factors import record_hours
from apps.carbon.models import EmissionFactor
from apps.carbon.own_factors.difference import OwnDifference, own_difference
from apps.carbon.own_factors.effect import Effect, effect_of
from apps.carbon.own_factors.models import OwnFactorFile
from apps.carbon.own_factors.parsing import OwnTable, decode, parse_own_file
from apps.carbon.own_factors.summary import summary_of
from apps.carbon.services import new_edition
from apps.core.errors import Conflict, InvalidInput, NotFound
from apps.core.jobs import enqueue
from apps.core.spreadsheets.sources import base_name
from apps.core.units import hour_of

EXPIRY_US = 7 * 24 * 3_600_000_000  # an unconfirmed file is deleted after a week
_BATCH = 500


def upload_factors(
    *, lab: Lab, file_name: str, content: bytes, by: User | None, now: int
) -> OwnFactorFile:
    """Save a file of own factors with its preview. No factor is written. Raises InvalidInput,
    TooLarge.
    """
    text = decode(content)
    name = base_name(file_name)
    table = parse_own_file(name, text, hour_of(now))
    values = _preview(lab, table, now)
    with transaction.atomic():
        unconfirmed = OwnFactorFile.objects.filter(lab=lab, confirmed_us=None)
        unconfirmed.filter(created_us__lt=now - EXPIRY_US).delete()
        return OwnFactorFile.objects.create(
            lab=lab,
            file_name=name,
            content=text,
            sha256=hashlib.sha256(content).hexdigest(),
            created_us=now,
            created_by=by,
            **values,
        )


def imported_files(lab: Lab) -> QuerySet[OwnFactorFile]:
    """Return the imported files of a lab, latest first, withdrawn ones too."""
    files = OwnFactorFile.objects.filter(lab=lab, confirmed_us__isnull=False)
    return files.select_related("confirmed_by", "withdrawn_by").order_by("-confirmed_us", "-pk")


def own_file_of(lab: Lab, uuid: UUID) -> OwnFactorFile:
    """Return a lab's file. Raises NotFound."""
    rows = OwnFactorFile.objects.select_related("lab", "confirmed_by", "withdrawn_by")
    row = rows.filter(lab=lab, uuid=uuid).first()
    if row is None:
        raise NotFound("No such factor file in your lab.", hint="Upload the file again.")
    return row


def confirm_factors(*, file: OwnFactorFile, by: User | None, now: int) -> bool:
    """Write the factors of a file, as previewed. Return whether that was done: a second
    confirmation changes nothing.

    Raises InvalidInput for a file with bad rows, Conflict for one that changes nothing, or whose
    preview is outdated; the preview is then renewed.
    """
    with transaction.atomic():
        lab = audit.hold(file.lab)
        locked = OwnFactorFile.objects.select_for_update().get(pk=file.pk)
        if locked.confirmed_us is not None:
            return False
        table = parse_own_file(locked.file_name, locked.content, hour_of(now))
        if table.bad_rows:
            raise InvalidInput(
                f"{len(table.bad_rows)} bad rows. Nothing was imported.",
                field="file",
                hint="Correct the rows and upload the file again.",
            )
        difference = own_difference(lab, table)
        if difference.is_empty:
            raise Conflict("This file changes no factor.", hint="Nothing is to be imported.")
        if difference.digest() == locked.summary["digest"]:
            _write(lab, locked, difference, now)
            _record(lab, locked, by, now)
            return True
    for name, value in _preview(file.lab, table, now).items():
        setattr(file, name, value)
    file.save(update_fields=["summary", "from_hour", "to_hour"])
    raise Conflict(
        "The factors of the lab have changed since this preview. Nothing was imported.",
        hint="Check the renewed preview and confirm again.",
    )


def _preview(lab: Lab, table: OwnTable, now: int) -> dict[str, object]:
    """Return the columns of the preview."""
    difference = own_difference(lab, table)
    effect = Effect((), None)
    if not table.bad_rows and not difference.is_empty:
        effect = effect_of(lab, lambda: _write_unsaved(lab, difference, now))
    from_hour, to_hour = effect.span or (None, None)
    return {
        "summary": summary_of(lab, table, difference, effect),
        "from_hour": from_hour,
        "to_hour": to_hour,
    }


def _write(lab: Lab, file: OwnFactorFile, difference: OwnDifference, now: int) -> None:
    _write_factors(lab, file, difference, now)
    enqueue(kind="carbon.apply_factors", key=str(lab.pk))


def _write_unsaved(lab: Lab, difference: OwnDifference, now: int) -> None:
    """Write the factors of a file that is not stored, to find their effect."""
    _write_factors(lab, OwnFactorFile.objects.create(lab=lab, created_us=now), difference, now)


def _write_factors(lab: Lab, file: OwnFactorFile, difference: OwnDifference, now: int) -> None:
    """Write new editions of years, months and hours."""
    periods = difference.periods
    factors = [*periods.new, *(factor for _, factor in periods.changed)]
    editions = _last_editions(lab) if factors else {}
    superseded = [old.factor_id for old, _ in periods.changed]
    for part in _batches(superseded):
        EmissionFactor.objects.filter(pk__in=part).update(superseded_us=now)
    rows = [new_edition(factor, editions.get(factor.key, 0) + 1, now) for factor in factors]
    for row in rows:
        row.lab, row.own_file = lab, file
    EmissionFactor.objects.bulk_create(rows, batch_size=_BATCH)
    for group, hours in difference.hours.written.items():
        record_hours(
            lab=lab,
            zone=group.zone,
            basis=group.basis,
            is_actual=group.resolution == "hourly_actual",
            source=group.source,
            licence=group.licence,
            hours=hours,
            now=now,
            own_file=file,
        )


def _last_editions(lab: Lab) -> dict[Key, int]:
    """Return the last edition of each own factor, also of a withdrawn one."""
    rows = EmissionFactor.objects.filter(lab=lab, resolution__in=RESOLUTIONS).order_by()
    keys = ("zone", "basis", "resolution", "year", "month")
    last = rows.values(*keys).annotate(last=Max("edition"))
    return {
        (zone, basis, resolution, year, month): edition
        for zone, basis, resolution, year, month, edition in last.values_list(*keys, "last")
    }


def _record(lab: Lab, file: OwnFactorFile, by: User | None, now: int) -> None:
    file.confirmed_us, file.confirmed_by, file.content = now, by, ""
    file.save(update_fields=["confirmed_us", "confirmed_by", "content"])
    summary = file.summary
    audit.record(
        lab=lab,
        by=by,
        action=OwnFactorAct.IMPORTED,
        subject=file.file_name,
        details={
            "file": str(file.uuid),
            "sha256": file.sha256,
            "new": summary["counts"]["new"],
            "changed": summary["counts"]["changed"],
            "zones": ", ".join(summary["zones"]),
            "months": ", ".join(
                sorted({month for site in summary["sites"] for month in site["months"]})
            ),
        },
        now=now,
    )


def _batches(numbers: Sequence[int]) -> list[Sequence[int]]:
    return [numbers[start : start + _BATCH] for start in range(0, len(numbers), _BATCH)]
