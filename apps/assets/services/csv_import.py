"""Import of assets from a file: upload, preview, and confirmation, which registers all rows or
none.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import transaction
from django.urls import reverse

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, User
from apps.assets.choices import REGISTERED, RUNNING, ChangeKind, EventKind, ImportState
from apps.assets.import_progress import Report, ignore
from apps.assets.models import Asset, LifecycleEvent, RegisterChange, RegisterImport
from apps.assets.services.file_columns import (
    Answers,
    Questions,
    answer,
    checked_answers,
    proposed,
    questions_about,
    remembered,
)
from apps.assets.services.register import write_drafts
from apps.assets.services.register_changes import apply_updates
from apps.assets.services.validation import Draft
from apps.assets.spreadsheets.csv_reader import read_lines, separator_of
from apps.assets.spreadsheets.line_parents import Key, generations, key_of, settled
from apps.assets.spreadsheets.preview import (
    CHANGED,
    KNOWN,
    NEW,
    WRONG,
    Reading,
    Row,
)
from apps.assets.spreadsheets.rows import Options
from apps.catalog.choices import FigureMethod
from apps.core.clock import utc
from apps.core.errors import Conflict, InvalidInput, LabCarbonError, NotFound
from apps.core.jobs import enqueue
from apps.core.spreadsheets.days import day_of
from apps.core.spreadsheets.sources import base_name, read_source

SYNCHRONOUS_LINES = 500  # longer files are read and registered by a job
TASK = "assets.import_write"  # the job of an import or its undo
STATE_BEFORE = {  # in which an import is again if its job fails
    ImportState.WRITING: ImportState.READ,
    ImportState.UNDOING: ImportState.DONE,
    ImportState.REDOING: ImportState.DONE,
}
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
    bought_on = options.bought_on.strip()
    if bought_on:
        day_of(bought_on, "bought_on")
    answers = checked_answers(
        Answers(None, options.date_order, options.decimal, options.currency), ()
    )
    return replace(
        options,
        currency=answers.currency,
        bought_on=bought_on,
        date_order=answers.date_order,
        decimal=answers.decimal,
    )


@transaction.atomic
def upload(
    *, lab: Lab, file_name: str, content: bytes, options: Options, by: User | None, now: int
) -> RegisterImport:
    """Save a file. Read a short file immediately, else enqueue a job. A file about which something
    has to be confirmed first waits in state "mapping". Raises InvalidInput, TooLarge.
    """
    options = checked_options(options)
    source = read_source(content, options.encoding, options.sheet)
    separator = separator_of(source.text) if source.encoding else ","
    options = replace(options, encoding=source.encoding, sheet=source.sheet, separator=separator)
    questions = _asked(lab, source.text, options)
    lines = sum(1 for _ in read_lines(source.text, questions.options.columns, separator)[1])
    expired = RegisterImport.objects.filter(lab=lab, created_us__lt=now - EXPIRY_US)
    expired.exclude(state__in=RUNNING + REGISTERED).delete()
    row = RegisterImport.objects.create(
        lab=lab,
        file_name=base_name(file_name),
        content=source.text,
        options=asdict(questions.options),
        lines=lines,
        summary={"sheet": source.sheet, "other_sheets": list(source.other_sheets[:20])},
        created_us=now,
        created_by=by,
    )
    if questions.is_open:
        payload = questions.payload(proposed(lab, questions))
        _keep(row, ImportState.MAPPING, row.summary | {"questions": payload})
    else:
        _read_or_enqueue(row, now)
    return row


def _asked(lab: Lab, text: str, options: Options) -> Questions:
    """Return the questions about a file, after what the lab confirmed about its headings before."""
    header = read_lines(text, options.columns, options.separator)[0]
    answers = remembered(lab, header)
    columns = options.columns if options.columns is not None else answers.columns
    if columns is not None:
        columns = checked_answers(Answers(columns), header.columns).columns
    return questions_about(
        text,
        replace(
            options,
            columns=columns,
            date_order=options.date_order or answers.date_order,
            decimal=options.decimal or answers.decimal,
            currency=options.currency or answers.currency,
        ),
    )


def _read_or_enqueue(row: RegisterImport, now: int) -> None:
    if row.lines <= SYNCHRONOUS_LINES:
        read(row=row, now=now)
    else:
        enqueue(kind="assets.import_read", key=str(row.uuid))


@transaction.atomic
def assign_columns(*, row: RegisterImport, answers: Answers, by: User | None, now: int) -> None:
    """Save what a person states about a file and read it. Raises InvalidInput, Conflict."""
    answer(row=row, answers=answers, by=by, now=now)
    RegisterImport.objects.filter(pk=row.pk).update(state=ImportState.READING, lines_done=0)
    row.state, row.lines_done = ImportState.READING, 0
    _read_or_enqueue(row, now)


def read(*, row: RegisterImport, now: int) -> None:
    """Read a file and save its summary. Registers no asset."""
    try:
        summary = _previewed(row, now)[1]
    except LabCarbonError as error:
        _keep(row, ImportState.REFUSED, {"error": error.message, "hint": error.hint})
    else:
        _keep(row, ImportState.READ, summary)


def _previewed(
    row: RegisterImport, now: int, report: Report = ignore
) -> tuple[list[Row], dict[str, Any]]:
    """Return the rows of a file and its summary. Raises InvalidInput for an error of the whole
    file.
    """
    rows: list[Row] = []
    reading = Reading(row.lab, row.content, Options(**row.options), now)
    for row_ in reading.rows():
        rows.append(row_)
        if len(rows) % CHUNK == 0:
            RegisterImport.objects.filter(pk=row.pk).update(lines_done=len(rows))
            report(0, len(rows), row.lines)
    rows = settled(rows)
    header = {
        "origin": reading.header.origin,
        "ignored": list(reading.header.ignored[:50]),
        "sheet": row.summary.get("sheet", ""),
        "other_sheets": row.summary.get("other_sheets", []),
        "encoding": row.options.get("encoding", ""),
    }
    return rows, {**header, **_summary(rows, ZoneInfo(row.lab.time_zone))}


def _keep(row: RegisterImport, state: ImportState, summary: dict[str, Any]) -> None:
    """Save the summary, unless the import is already registered."""
    row.state, row.summary, row.lines_done = state, summary, row.lines
    values = {"state": state, "summary": summary, "lines_done": row.lines}
    RegisterImport.objects.filter(pk=row.pk).exclude(state__in=REGISTERED).update(**values)


def _counts(rows: Sequence[Row]) -> dict[str, int]:
    """Return the number of assets by outcome; of wrong ones the number of lines to correct."""
    counts = Counter(row.outcome for row in rows)
    if counts[WRONG]:
        counts[WRONG] = len({row.line for row in rows if row.outcome == WRONG})
    return {outcome: count for outcome, count in counts.items() if count}


def _summary(rows: Sequence[Row], zone: ZoneInfo) -> dict[str, Any]:
    new = [row for row in rows if row.outcome == NEW]
    shown = [
        row for row, before in zip(rows, [None, *rows], strict=False) if _is_shown(row, before)
    ]
    wrong = [row for row in shown if row.outcome == WRONG]
    return {
        "counts": _counts(rows),
        "by": dict(Counter((row.known.by if row.known else "") or "unknown" for row in new)),
        "total_ug": sum(_total_ug(row) for row in new),
        "default_ug": sum(_total_ug(row) for row in new if _is_default(row)),
        "unmarked": sum(row.unmarked for row in new),
        "elsewhere": sorted({row.elsewhere for row in new if row.elsewhere})[:20],
        "remarks": dict(Counter(remark.code for row in shown for remark in row.remarks)),
        "rows": [row_payload(row, zone) for row in shown[:PREVIEW_LINES]],
        "wrong": [row_payload(row, zone) for row in wrong[:PREVIEW_LINES]],
    }


def _is_shown(row: Row, before: Row | None) -> bool:
    """Return whether a row is listed: equal things of one line are listed once."""
    return row.item <= 1 or before is None or before.outcome != row.outcome


def _total_ug(row: Row) -> int:
    embodied = row.known.embodied if row.known else None
    return embodied.total_ug if embodied else 0


def _is_default(row: Row) -> bool:
    """Return whether the embodied carbon of a row is the average of a category."""
    figure = row.known.embodied.figure if row.known and row.known.embodied else None
    return figure is not None and figure.method == FigureMethod.CATEGORY


def row_payload(row: Row, zone: ZoneInfo) -> dict[str, Any]:
    """Return a row as saved in the summary."""
    draft, known = row.draft, row.known
    embodied = known.embodied if known else None
    facts, opening = (draft.facts, draft.opening) if draft else (None, None)
    ending = draft.entries[-1] if draft and draft.entries else None
    is_leased = opening is not None and opening.kind == EventKind.LEASE
    return {
        "line": row.line,
        "outcome": row.outcome,
        "name": row.name,
        "items": row.items,
        "kind": facts.kind if facts else "",
        "model": known.model.name if known and known.model else "",
        "by": known.by if known else "",
        "is_default": _is_default(row),
        "embodied_ug": embodied.total_ug if embodied else None,
        "low_ug": embodied.low_ug if embodied else None,
        "high_ug": embodied.high_ug if embodied else None,
        "why": known.why if known else "",
        "bought_on": day_in(opening.at_us, zone) if opening else "",
        "ended_on": day_in(ending.at_us, zone) if ending else "",
        "end_of_life": ending.end_of_life if ending else "",
        "mass_g": ending.mass_g if ending else None,
        "recipient": ending.counterpart if ending else "",
        "is_leased": is_leased,
        "lessor": opening.counterpart if opening and is_leased else "",
        "price_ucurrency": facts.price_ucurrency if facts else None,
        "currency": facts.currency if facts else "",
        "owner": opening.project.slug if opening and opening.project else "",
        "state": row.state,
        "capacity_gb": row.capacity_gb,
        "asset": row.asset_id,
        "built_into_line": row.parent_line,
        "remarks": [asdict(remark) for remark in row.remarks],
        "message": row.message,
        "field": row.field,
        "hint": row.hint,
        "changes": [each.payload() for each in row.update.differences] if row.update else [],
    }


def day_in(at_us: int, zone: ZoneInfo) -> str:
    """Return the day of a moment in ``zone``."""
    return utc(at_us).astimezone(zone).date().isoformat()


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
    """Register a short import immediately, else enqueue a job. A second confirmation of the same
    import changes nothing. Raises Conflict, FileRefused.
    """
    if row.state not in {ImportState.READ, ImportState.WRITING}:
        raise Conflict(
            f"This import is in state {row.get_state_display().lower()}.", hint="Reload the page."
        )
    if row.summary["counts"].get(WRONG):
        raise FileRefused(row.summary["wrong"], row.summary["counts"][WRONG])
    if row.lines <= SYNCHRONOUS_LINES:
        write(row=row, by=by, now=now)
    else:
        start(row=row, state=ImportState.WRITING, by=by)


def start(
    *, row: RegisterImport, state: ImportState, by: User | None, leave_out: Collection[int] = ()
) -> None:
    """Enqueue the job of a running state, once: a second start of the same changes nothing. Raises
    Conflict.
    """
    task = {"leave_out": sorted(leave_out)}
    with transaction.atomic():
        if RegisterImport.objects.filter(pk=row.pk, state=STATE_BEFORE[state]).update(
            state=state, task=task, lines_done=0
        ):
            enqueue(kind=TASK, key=f"{row.uuid}:{by.pk if by else ''}")
    row.refresh_from_db(fields=["state", "task", "lines_done"])
    if row.state != state:
        raise Conflict(
            f"This import is in state {row.get_state_display().lower()}.", hint="Reload the page."
        )


def write(*, row: RegisterImport, by: User | None, now: int, report: Report = ignore) -> int:
    """Read the file again and register all new rows or none. Return their number. Raises
    FileRefused, InvalidInput.

    Reading and validation precede the transaction, to keep its locks short.
    """
    rows, summary = _previewed(row, now, report)
    if summary["wrong"]:
        _keep(row, ImportState.READ, summary)
        raise FileRefused(summary["wrong"], summary["counts"][WRONG])
    with transaction.atomic():
        locked_import = RegisterImport.objects.select_for_update().get(pk=row.pk)
        if locked_import.state in REGISTERED:
            raise Conflict("This import is already registered.", hint="Reload the page.")
        _check_serials(row.lab, rows)
        registered = _written(row.lab, rows, by, now, report)
        report(2, 0, 1)
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
        row.state, row.summary, row.content, row.task = ImportState.DONE, summary, "", {}
        row.save(update_fields=["state", "summary", "content", "task"])
    return number


def _check_serials(lab: Lab, rows: Sequence[Row]) -> None:
    """Raise Conflict if another import registered one of the new rows since they were read. Imports
    of a lab wait for each other here.
    """
    Lab.objects.select_for_update(no_key=True).get(pk=lab.pk)
    serials = [row.draft.facts.serial for row in rows if row.outcome == NEW and row.draft]
    for start in range(0, len(serials), CHUNK):
        part = [serial for serial in serials[start : start + CHUNK] if serial]
        twice = Asset.objects.filter(lab=lab, serial__in=part).values_list("serial", flat=True)
        if serial := twice.first():
            raise Conflict(
                f"The serial number {serial[:60]!r} was registered since the file was read.",
                field="serial",
                hint="Confirm the import again: the row is known then.",
            )


def _changed(
    row: RegisterImport,
    rows: Sequence[Row],
    registered: Mapping[Key, Asset],
    by: User | None,
    now: int,
) -> int:
    """Change the registered assets that the file changes, and save what was done to each asset.
    Return the number of changed ones.
    """
    by_key = {key_of(each): each for each in rows}
    changes = [
        RegisterChange(
            lab=row.lab,
            register_import=row,
            asset=asset,
            kind=ChangeKind.REGISTERED,
            values=by_key[key].values or {},
            recorded_us=now,
        )
        for key, asset in registered.items()
    ]
    events = _events_of([change.asset_id for change in changes])
    for change in changes:
        change.events = events[change.asset_id]
    updates = []
    for each in rows:
        if each.update is None:
            continue
        update, line = each.update, each.parent_line
        if line is not None:
            machine = registered.get((line, 0)) or Asset.objects.get(
                pk=by_key[line, 0].asset_id or 0
            )
            opening = replace(update.draft.opening, parent=machine)
            update = replace(update, draft=replace(update.draft, opening=opening))
        updates.append(update)
    updated = apply_updates(updates, row=row, by=by, now=now)
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


def _written(
    lab: Lab, rows: Sequence[Row], by: User | None, now: int, report: Report
) -> dict[Key, Asset]:
    """Register the new rows. Return the assets by line and item."""
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
    registered: dict[Key, Asset] = {}
    for level in levels:
        for start in range(0, len(level), CHUNK):
            part = level[start : start + CHUNK]
            written = write_drafts(lab, [_built_in(row, here) for row in part], by, now)
            assets = dict(zip(map(key_of, part), written, strict=True))
            registered.update(assets)
            report(1, len(registered), len(rows))
            here.update({line: assets[line, item] for line, item in assets if line in parents})
    return registered


def _built_in(row: Row, here: dict[int, Asset]) -> Draft:
    assert row.draft is not None
    if row.parent_line is None:
        return row.draft
    return replace(row.draft, opening=replace(row.draft.opening, parent=here[row.parent_line]))
