"""Import of assets from a file: upload, preview, and confirmation, which registers all rows or
none.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from typing import Any
from uuid import UUID

from django.db import transaction
from django.urls import reverse

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, User
from apps.assets.choices import ChangeKind, ImportState
from apps.assets.models import Asset, LifecycleEvent, RegisterChange, RegisterImport
from apps.assets.services.register import write_drafts
from apps.assets.services.register_changes import apply_update
from apps.assets.services.validation import Draft
from apps.assets.spreadsheets import cells
from apps.assets.spreadsheets.csv_reader import decoded, read_lines
from apps.assets.spreadsheets.preview import (
    CHANGED,
    KNOWN,
    NEW,
    WRONG,
    Reading,
    Row,
    generations,
    settled,
)
from apps.assets.spreadsheets.rows import Options
from apps.core.errors import Conflict, InvalidInput, LabCarbonError, NotFound
from apps.core.jobs import enqueue
from apps.fleet.choices import CURRENCIES

SYNCHRONOUS_LINES = 500  # longer files are read and registered by a job
CHUNK = 500
PREVIEW_LINES = 200  # rows in the summary, and as many errors
EXPIRY_US = 7 * 24 * 3_600_000_000  # an unconfirmed import is deleted after a week


class FileRefused(InvalidInput):
    """Rows with errors. ``rows`` are the first of them. Nothing was registered."""

    code = "bad_rows"

    def __init__(self, rows: Sequence[dict[str, Any]], number: int) -> None:
        first = rows[0]
        lines = f"{number} line{'' if number == 1 else 's'}"
        super().__init__(
            (
                f"{lines} with errors. Nothing was registered. Line {first['line']}: "
                f"{first['message']}"
            ),
            field="file",
            hint=first["hint"] or "Correct these lines and upload the file again.",
        )
        self.rows = rows


def checked_options(options: Options) -> Options:
    """Return normalised options. Raises InvalidInput with the field."""
    currency = options.currency.strip().upper()
    if currency and currency not in CURRENCIES:
        raise InvalidInput(
            f"{currency[:10]!r} is not a currency.",
            field="currency",
            hint="Enter three letters such as EUR.",
        )
    bought_on = options.bought_on.strip()
    if bought_on:
        cells.day_of(bought_on, "bought_on")
    return Options(currency, bought_on)


@transaction.atomic
def upload(
    *, lab: Lab, file_name: str, content: bytes, options: Options, by: User | None, now: int
) -> RegisterImport:
    """Save a file. Read a short file immediately, else enqueue a job. Raises InvalidInput,
    TooLarge.
    """
    options = checked_options(options)
    text = decoded(content)
    lines = sum(1 for _ in read_lines(text)[1])
    expired = RegisterImport.objects.filter(lab=lab, created_us__lt=now - EXPIRY_US)
    expired.exclude(state=ImportState.DONE).delete()
    row = RegisterImport.objects.create(
        lab=lab,
        file_name=cells.file_name(file_name),
        content=text,
        options=asdict(options),
        lines=lines,
        created_us=now,
        created_by=by,
    )
    if lines <= SYNCHRONOUS_LINES:
        read(row=row, now=now)
    else:
        enqueue(kind="assets.import_read", key=str(row.uuid))
    return row


def read(*, row: RegisterImport, now: int) -> None:
    """Read a file and save its summary. Registers no asset."""
    try:
        summary = _previewed(row, now)[1]
    except LabCarbonError as error:
        _keep(row, ImportState.REFUSED, {"error": error.message, "hint": error.hint})
    else:
        _keep(row, ImportState.READ, summary)


def _previewed(row: RegisterImport, now: int) -> tuple[list[Row], dict[str, Any]]:
    """Return the rows of a file and its summary. Raises InvalidInput for an error of the whole
    file.
    """
    rows: list[Row] = []
    reading = Reading(row.lab, row.content, Options(**row.options), now)
    for row_ in reading.rows():
        rows.append(row_)
        if len(rows) % CHUNK == 0:
            RegisterImport.objects.filter(pk=row.pk).update(lines_done=len(rows))
    rows = settled(rows)
    header = {"origin": reading.header.origin, "ignored": list(reading.header.ignored[:50])}
    return rows, {**header, **_summary(rows)}


def _keep(row: RegisterImport, state: ImportState, summary: dict[str, Any]) -> None:
    """Save the summary, unless the import is already registered."""
    row.state, row.summary, row.lines_done = state, summary, row.lines
    values = {"state": state, "summary": summary, "lines_done": row.lines}
    RegisterImport.objects.filter(pk=row.pk).exclude(state=ImportState.DONE).update(**values)


def _summary(rows: Sequence[Row]) -> dict[str, Any]:
    new = [row for row in rows if row.outcome == NEW]
    known = [
        row.known.embodied
        for row in new
        if row.known is not None and row.known.embodied is not None
    ]
    return {
        "counts": dict(Counter(row.outcome for row in rows)),
        "by": dict(Counter((row.known.by if row.known else "") or "unknown" for row in new)),
        "total_ug": sum(each.total_ug for each in known),
        "unmarked": sum(row.unmarked for row in new),
        "elsewhere": sorted({row.elsewhere for row in new if row.elsewhere})[:20],
        "rows": [row_payload(row) for row in rows[:PREVIEW_LINES]],
        "wrong": [
            row_payload(row)
            for row in islice((row for row in rows if row.outcome == WRONG), PREVIEW_LINES)
        ],
    }


def row_payload(row: Row) -> dict[str, Any]:
    """Return a row as saved in the summary."""
    draft, known = row.draft, row.known
    embodied = known.embodied if known else None
    return {
        "line": row.line,
        "outcome": row.outcome,
        "name": row.name,
        "kind": draft.facts.kind if draft else "",
        "model": known.model.name if known and known.model else "",
        "by": known.by if known else "",
        "embodied_ug": embodied.total_ug if embodied else None,
        "low_ug": embodied.low_ug if embodied else None,
        "high_ug": embodied.high_ug if embodied else None,
        "why": known.why if known else "",
        "asset": row.asset_id,
        "built_into_line": row.parent_line,
        "message": row.message,
        "field": row.field,
        "hint": row.hint,
        "changes": [each.payload() for each in row.update.differences] if row.update else [],
    }


def import_of(lab: Lab, uuid: UUID) -> RegisterImport:
    """Return a lab's import. Raises NotFound."""
    row = (
        RegisterImport.objects.filter(lab=lab, uuid=uuid)
        .select_related("lab", "created_by")
        .first()
    )
    if row is None:
        raise NotFound(
            "No such import in your lab.",
            hint=f"Upload the file again at {reverse('asset-imports')}.",
        )
    return row


def confirm(*, row: RegisterImport, by: User | None, now: int) -> None:
    """Register a short import immediately, else enqueue a job. Raises Conflict, FileRefused."""
    if row.state != ImportState.READ:
        raise Conflict(
            f"This import is in state {row.get_state_display().lower()}.", hint="Reload the page."
        )
    if row.summary["counts"].get(WRONG):
        raise FileRefused(row.summary["wrong"], row.summary["counts"][WRONG])
    if row.lines <= SYNCHRONOUS_LINES:
        write(row=row, by=by, now=now)
        return
    with transaction.atomic():
        if RegisterImport.objects.filter(pk=row.pk, state=ImportState.READ).update(
            state=ImportState.WRITING, lines_done=0
        ):
            enqueue(kind="assets.import_write", key=f"{row.uuid}:{by.pk if by else ''}")
    row.state = ImportState.WRITING


def write(*, row: RegisterImport, by: User | None, now: int) -> int:
    """Read the file again and register all new rows or none. Return their number. Raises
    FileRefused, InvalidInput.

    Reading and validation precede the transaction, to keep its locks short.
    """
    rows, summary = _previewed(row, now)
    if summary["wrong"]:
        _keep(row, ImportState.READ, summary)
        raise FileRefused(summary["wrong"], summary["counts"][WRONG])
    with transaction.atomic():
        locked_import = RegisterImport.objects.select_for_update().get(pk=row.pk)
        if locked_import.state == ImportState.DONE:
            raise Conflict("This import is already registered.", hint="Reload the page.")
        registered = _written(row.lab, rows, by, now)
        changed = _changed(row, rows, registered, by, now)
        number = len(registered)
        digest = hashlib.sha256(locked_import.content.encode()).hexdigest()
        details = {
            "assets": number,
            "changed": changed,
            "file": row.file_name,
            "sha256": digest,
            "origin": summary["origin"],
        }
        subject = f"{number} asset{'' if number == 1 else 's'}"
        audit.record(
            lab=row.lab,
            by=by,
            action=Act.ASSETS_IMPORTED,
            subject=subject,
            details=details,
            now=now,
        )
        enqueue(kind="assets.charge", key=str(row.lab_id))
        row.state, row.summary, row.content = ImportState.DONE, summary, ""
        row.save(update_fields=["state", "summary", "content"])
    return number


def _changed(
    row: RegisterImport,
    rows: Sequence[Row],
    registered: Mapping[int, Asset],
    by: User | None,
    now: int,
) -> int:
    """Change the registered assets that the file changes, and save what was done to each asset.
    Return the number of changed ones.
    """
    by_line = {each.line: each for each in rows}
    changes = [
        RegisterChange(
            lab=row.lab,
            register_import=row,
            asset=asset,
            kind=ChangeKind.REGISTERED,
            values=by_line[line].values or {},
            recorded_us=now,
        )
        for line, asset in registered.items()
    ]
    events = _events_of([change.asset_id for change in changes])
    for change in changes:
        change.events = events[change.asset_id]
    updated = []
    for each in rows:
        if each.update is None:
            continue
        update, line = each.update, each.parent_line
        if line is not None:
            machine = registered.get(line) or Asset.objects.get(pk=by_line[line].asset_id or 0)
            opening = replace(update.draft.opening, parent=machine)
            update = replace(update, draft=replace(update.draft, opening=opening))
        updated.append(apply_update(update, row=row, by=by, now=now))
    RegisterChange.objects.bulk_create([*changes, *updated], batch_size=CHUNK)
    return len(updated)


def _events_of(asset_ids: Sequence[int]) -> dict[int, list[int]]:
    """Return the ids of the events of new assets."""
    events: dict[int, list[int]] = {pk: [] for pk in asset_ids}
    for start in range(0, len(asset_ids), CHUNK):
        part = LifecycleEvent.objects.filter(asset_id__in=asset_ids[start : start + CHUNK])
        for asset_id, pk in part.order_by("pk").values_list("asset_id", "pk"):
            events[asset_id].append(pk)
    return events


def _written(lab: Lab, rows: Sequence[Row], by: User | None, now: int) -> dict[int, Asset]:
    """Register the new rows. Return the assets by line."""
    levels = generations(rows)
    parents = {row.parent_line for row in rows if row.parent_line is not None}
    here: dict[int, Asset] = {}
    existing_parents = {
        row.line: row.asset_id
        for row in rows
        if row.outcome in {KNOWN, CHANGED} and row.line in parents
    }
    for asset in Asset.objects.filter(lab=lab, pk__in=set(existing_parents.values())):
        here.update({line: asset for line, pk in existing_parents.items() if pk == asset.pk})
    registered: dict[int, Asset] = {}
    for level in levels:
        for start in range(0, len(level), CHUNK):
            part = level[start : start + CHUNK]
            written = write_drafts(lab, [_built_in(row, here) for row in part], by, now)
            registered.update({row.line: asset for row, asset in zip(part, written, strict=True)})
            here.update({row.line: registered[row.line] for row in part if row.line in parents})
    return registered


def _built_in(row: Row, here: dict[int, Asset]) -> Draft:
    assert row.draft is not None
    if row.parent_line is None:
        return row.draft
    return replace(row.draft, opening=replace(row.draft.opening, parent=here[row.parent_line]))
