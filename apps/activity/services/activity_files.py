"""Import of activities from a file: upload, check of its rows, and recording in batches.

Good rows are recorded and bad rows are listed. Each batch is a transaction with the number of rows
done, so that a killed job continues and counts nothing twice.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from django.db import transaction
from django.db.models import F

from apps.accounts import audit
from apps.accounts.models import Lab, User
from apps.activity.choices import Act, FileState
from apps.activity.drafts import Draft
from apps.activity.models import Activity, ActivityFile, BadRow
from apps.activity.services.activities import (
    Preview,
    check_entered,
    preview_activity,
    require_same,
    store_activities,
)
from apps.activity.services.file_layout import (
    Answers,
    checked_layout,
    headings_digest,
    layout_of,
    stored_layout,
)
from apps.activity.services.lookups import Lookups
from apps.activity.spreadsheets.fields import heading_score, require_distinct_headings
from apps.activity.spreadsheets.rows import FileRow, file_rows, read_header
from apps.core.errors import Conflict, InvalidInput, LabCarbonError, NotFound, TooLarge
from apps.core.jobs import enqueue
from apps.core.spreadsheets.sources import base_name, read_source, separator_of

MAX_ROWS = 50_000
MAX_SHEET_ROWS = MAX_ROWS + 1_000  # headings and blank rows included
SYNCHRONOUS_ROWS = 300  # longer files are checked by a job
CHECK_BATCH, RECORD_BATCH = 1_000, 500
CHECK, RECORD = "activity.check_file", "activity.record_file"
EXPIRY_US = 7 * 24 * 3_600_000_000  # an unconfirmed file is deleted after a week


@dataclass(frozen=True)
class CheckedRow:
    """A row and what recording it amounts to. ``computed`` None: it was recorded before."""

    row: FileRow
    draft: Draft
    computed: Preview | None


@transaction.atomic
def upload(
    *, lab: Lab, file_name: str, content: bytes, encoding: str, sheet: str, by: User, now: int
) -> ActivityFile:
    """Save a file whose columns are to be assigned. Raises InvalidInput, TooLarge."""
    source = read_source(content, encoding, sheet, MAX_SHEET_ROWS)
    separator = separator_of(source.text, heading_score) if source.encoding else ","
    columns, rows = read_header(source.text, separator)
    require_distinct_headings(columns)
    number = sum(1 for _ in islice(rows, MAX_ROWS + 1))
    if number > MAX_ROWS:
        raise TooLarge(f"The file has more than {MAX_ROWS} rows.", field="file", hint="Split it.")
    if not number:
        raise InvalidInput(
            "The file has no rows.", field="file", hint="Add a line for each activity."
        )
    expired = ActivityFile.objects.filter(lab=lab, created_us__lt=now - EXPIRY_US)
    expired.exclude(state__in=(FileState.RECORDING, FileState.DONE)).delete()
    return ActivityFile.objects.create(
        lab=lab,
        file_name=base_name(file_name),
        content=source.text,
        options={
            "separator": separator,
            "time_zone": lab.time_zone,
            "encoding": source.encoding,
            "sheet": source.sheet,
            "other_sheets": list(source.other_sheets[:20]),
        },
        headings=headings_digest(columns),
        rows=number,
        created_us=now,
        created_by=by,
    )


def assign_columns(*, file: ActivityFile, answers: Answers, now: int) -> None:
    """Save how a file is read, and check its rows. Raises InvalidInput, Conflict."""
    with transaction.atomic():
        stored = _locked(file.uuid)
        if stored.state not in (FileState.MAPPING, FileState.CHECKED, FileState.REFUSED):
            raise _wrong_state(stored)
        layout = checked_layout(stored, answers)
        stored.options |= stored_layout(layout)
        stored.state, stored.rows_done, stored.problem = FileState.CHECKING, 0, ""
        stored.save(update_fields=["options", "state", "rows_done", "problem"])
        if stored.rows > SYNCHRONOUS_ROWS:
            enqueue(kind=CHECK, key=str(stored.uuid))
    if stored.rows <= SYNCHRONOUS_ROWS:
        check_rows(uuid=stored.uuid, now=now)


def check_rows(*, uuid: UUID, now: int) -> None:
    """Check the rows of a file and save the number of each result, and the bad rows."""
    file = ActivityFile.objects.select_related("lab").filter(uuid=uuid).first()
    if file is None or file.state != FileState.CHECKING:
        return
    counts = {"new": 0, "known": 0, "wrong": 0, "energy_mj": 0}
    bad: list[BadRow] = []
    done = 0
    try:
        lookups = Lookups(file.lab)
        for rows in _batches(file_rows(file.content, layout_of(file)), CHECK_BATCH):
            checked, wrong = _check(lookups, file, rows, now)
            new = [each.computed for each in checked if each.computed is not None]
            counts["new"] += len(new)
            counts["known"] += len(checked) - len(new)
            counts["wrong"] += len(wrong)
            counts["energy_mj"] += sum(each.estimate.energy_mj for each in new)
            bad += wrong
            done += len(rows)
            ActivityFile.objects.filter(pk=file.pk, state=FileState.CHECKING).update(
                rows_done=min(done, file.rows)
            )
    except LabCarbonError as error:
        ActivityFile.objects.filter(pk=file.pk, state=FileState.CHECKING).update(
            state=FileState.REFUSED, problem=f"{error.message} {error.hint}"[:600]
        )
        return
    with transaction.atomic():
        stored = _locked(uuid)
        if stored.state != FileState.CHECKING:
            return
        stored.bad_rows.all().delete()
        BadRow.objects.bulk_create(bad, batch_size=500)
        ActivityFile.objects.filter(pk=file.pk).update(
            state=FileState.CHECKED, rows_done=file.rows, **counts
        )


@transaction.atomic
def confirm(*, file: ActivityFile, by: User, now: int) -> None:
    """Record the good rows of a file by a job. Raises Conflict."""
    stored = _locked(file.uuid)
    if stored.state in (FileState.RECORDING, FileState.DONE):
        return  # clicked twice
    if stored.state != FileState.CHECKED:
        raise _wrong_state(stored)
    if not stored.new:
        raise Conflict(
            "This file has no new rows to record.", hint="Correct its rows and upload it again."
        )
    stored.bad_rows.all().delete()  # they are listed as they are recorded
    ActivityFile.objects.filter(pk=stored.pk).update(
        state=FileState.RECORDING,
        rows_done=0,
        new=0,
        known=0,
        wrong=0,
        energy_mj=0,
        confirmed_us=now,
        confirmed_by=by,
    )
    enqueue(kind=RECORD, key=str(stored.uuid))


def record_batches(*, uuid: UUID, now: int) -> Iterator[int]:
    """Record the rows that are not recorded yet; yield the number of rows done after each batch.

    ``now``: no activity may end later.
    """
    file = ActivityFile.objects.select_related("lab", "confirmed_by").filter(uuid=uuid).first()
    if file is None or file.state != FileState.RECORDING:
        return
    rows = islice(file_rows(file.content, layout_of(file)), file.rows_done, None)
    done = file.rows_done
    for batch in _batches(rows, RECORD_BATCH):
        if not _record_batch(file, batch, done, now):
            return  # another worker continued
        done += len(batch)
        yield done
    _finish(file, now)


@transaction.atomic
def _record_batch(file: ActivityFile, rows: Sequence[FileRow], done: int, now: int) -> bool:
    """Record rows; return whether they were still to be recorded."""
    audit.hold(file.lab)
    stored = _locked(file.uuid)
    if stored.state != FileState.RECORDING or stored.rows_done != done:
        return False
    lookups = Lookups(file.lab)
    checked, wrong = _check(lookups, file, rows, now)
    new = [each for each in checked if each.computed is not None]
    activities, refused = store_activities(
        computed=[(each.draft, each.computed) for each in new if each.computed is not None],
        lookups=lookups,
        by=file.confirmed_by,
        origin=f"file {file.file_name}",
        now=now,
    )
    wrong += [_bad_row(file, new[position].row, error) for position, error in refused.items()]
    BadRow.objects.bulk_create(wrong, batch_size=500)
    ActivityFile.objects.filter(pk=file.pk).update(
        rows_done=done + len(rows),
        new=F("new") + len(activities),
        known=F("known") + len(checked) - len(new),
        wrong=F("wrong") + len(wrong),
        energy_mj=F("energy_mj") + sum(each.energy_mj for each in activities),
    )
    return True


@transaction.atomic
def _finish(file: ActivityFile, now: int) -> None:
    audit.hold(file.lab)
    stored = _locked(file.uuid)
    if stored.state != FileState.RECORDING:
        return
    ActivityFile.objects.filter(pk=stored.pk).update(state=FileState.DONE, content="")
    enqueue(kind="attribution.lab", key=str(file.lab_id))
    details = {
        "file": stored.file_name,
        "new": stored.new,
        "known": stored.known,
        "wrong": stored.wrong,
        "energy_mj": stored.energy_mj,
    }
    audit.record(
        lab=file.lab,
        by=file.confirmed_by,
        action=Act.IMPORTED,
        subject=stored.file_name,
        details=details,
        now=now,
    )


def _check(
    lookups: Lookups, file: ActivityFile, rows: Sequence[FileRow], now: int
) -> tuple[list[CheckedRow], list[BadRow]]:
    """Return the good rows and the bad ones."""
    ids = [row.draft.external_id for row in rows if row.draft]
    existing = {
        activity.external_id: activity
        for activity in Activity.objects.filter(lab=lookups.lab, external_id__in=ids)
    }
    good: list[CheckedRow] = []
    wrong: list[BadRow] = []
    for row in rows:
        try:
            good.append(_checked(lookups, row, existing, now))
        except LabCarbonError as error:
            wrong.append(_bad_row(file, row, error))
    return good, wrong


def _checked(lookups: Lookups, row: FileRow, existing: dict[str, Activity], now: int) -> CheckedRow:
    if row.error is not None:
        raise row.error
    assert row.draft is not None
    stored = existing.get(row.draft.external_id)
    if stored is not None and not row.has_own_id:
        return CheckedRow(row, row.draft, None)  # its identity is its content
    computed = preview_activity(lab=lookups.lab, draft=row.draft, now=now, lookups=lookups)
    if stored is None:
        check_entered(computed)
        return CheckedRow(row, row.draft, computed)
    require_same(stored, row.draft, computed, lookups)
    return CheckedRow(row, row.draft, None)


def _bad_row(file: ActivityFile, row: FileRow, error: LabCarbonError) -> BadRow:
    return BadRow(
        file=file,
        line=row.line,
        name=row.name,
        field=(error.field or "")[:40],
        message=error.message[:500],
        hint=(error.hint or "")[:300],
    )


def _batches(rows: Iterable[FileRow], size: int) -> Iterator[list[FileRow]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, size)):
        yield batch


def _locked(uuid: UUID) -> ActivityFile:
    return ActivityFile.objects.select_for_update(of=("self",)).get(uuid=uuid)


def _wrong_state(file: ActivityFile) -> Conflict:
    return Conflict(
        f"This file is in state {file.get_state_display().lower()}.", hint="Reload the page."
    )


def file_of(lab: Lab, uuid: UUID) -> ActivityFile:
    """Return a file of the lab. Raises NotFound."""
    file = ActivityFile.objects.select_related("lab", "created_by").filter(lab=lab, uuid=uuid)
    found = file.first()
    if found is None:
        raise NotFound("There is no such import.", hint="Upload the file again.")
    return found
