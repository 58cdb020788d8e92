"""One poll of an asset source: read the whole list, compare it with the last one, propose or apply
what was added or changed. Vanished rows are only listed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from django.db import transaction

from apps.accounts import audit
from apps.assets.choices import ImportState
from apps.assets.services import csv_import
from apps.assets.spreadsheets.line_parents import settled
from apps.assets.spreadsheets.preview import LEFT_OUT, NEW, Reading, Row
from apps.assets.spreadsheets.rows import Options
from apps.core.clock import now_us
from apps.core.errors import LabCarbonError
from apps.core.units import US_PER_HOUR, US_PER_S
from apps.pollers.choices import Act, Policy, System
from apps.pollers.clients import PollError, RemoteRow
from apps.pollers.differences import MAX_LOST_PERCENT, differences, loses_too_many
from apps.pollers.import_text import FIRST_LINE, import_text
from apps.pollers.models import AssetSource, PolledRow
from apps.pollers.services.changes import update_asset
from apps.pollers.services.sources import fetch_rows

EVERY_US = US_PER_HOUR
MAX_WAIT_US = 24 * US_PER_HOUR
BATCH = 500
UNMARKED = (
    "It has neither an inventory number nor a serial number, so that it could not be recognised "
    "again. Enter one in the source."
)
OVER = (
    "Its status is “{}”, and the source has no date for the end of its life. Register it by hand, "
    "or ignore it."
)
TWICE = "Another row has the same inventory or serial number. Correct one of the two in the source."


def poll_source(source: AssetSource) -> None:
    """Poll a source and record the result. Only one poll of a source writes at a time."""
    try:
        remote = fetch_rows(source)
        if not _store(source, remote):
            return
        _propose(source)
        _update_changed(source)
    except PollError as error:
        _save_failure(source, error.message, error.wait_s)
    except LabCarbonError as error:  # of the import
        _save_failure(source, f"{error.message} {error.hint}".strip(), 0)
    else:
        _save_success(source)


def _save_failure(source: AssetSource, problem: str, wait_s: int) -> None:
    now = now_us()
    failures = source.failures + 1
    wait_us = min(EVERY_US << min(failures - 1, 10), MAX_WAIT_US)
    _save(
        source,
        polled_us=now,
        problem=problem[:400],
        failures=failures,
        due_us=now + max(wait_us, wait_s * US_PER_S),
    )


def _save_success(source: AssetSource) -> None:
    now = now_us()
    _save(
        source,
        polled_us=now,
        succeeded_us=now,
        problem="",
        failures=0,
        due_us=now + EVERY_US,
        lost_rows=0,
        loss_accepted=0,
    )


def _save(source: AssetSource, **values: object) -> None:
    AssetSource.objects.filter(pk=source.pk).update(**values)
    for name, value in values.items():
        setattr(source, name, value)


@transaction.atomic
def _store(source: AssetSource, remote: Sequence[RemoteRow]) -> bool:
    """Store the rows of a list. Return False, and stop the polling, if too many are lost."""
    locked = AssetSource.objects.select_for_update().select_related("lab").get(pk=source.pk)
    if not locked.enabled or locked.removed_us is not None:
        return False
    stored = {row.number: row for row in source.rows.all()}
    numbers = {row.number for row in remote}
    present = [row for row in stored.values() if row.vanished_us is None]
    lost = [row for row in present if row.number not in numbers]
    now = now_us()
    if len(lost) > locked.loss_accepted and loses_too_many(present=len(present), lost=len(lost)):
        _halt(source, present=len(present), lost=len(lost), now=now)
        return False
    added = [
        PolledRow(source=source, number=row.number, cells=row.cells)
        for row in remote
        if row.number not in stored
    ]
    changed = []
    for remote_row in remote:
        row = stored.get(remote_row.number)
        if row and (row.cells != remote_row.cells or row.vanished_us is not None):
            row.cells, row.vanished_us = remote_row.cells, None
            changed.append(row)
    for row in lost:
        row.vanished_us = now
    PolledRow.objects.bulk_create(added, batch_size=BATCH)
    PolledRow.objects.bulk_update([*changed, *lost], ["cells", "vanished_us"], batch_size=BATCH)
    return True


def _halt(source: AssetSource, *, present: int, lost: int, now: int) -> None:
    problem = (
        f"{lost} of {present} rows are missing, more than {MAX_LOST_PERCENT} %. Nothing was "
        "changed, and the polling is stopped."
    )
    _save(source, polled_us=now, problem=problem, halted_us=now, lost_rows=lost, loss_accepted=0)
    audit.record(
        lab=source.lab,
        by=None,
        action=Act.HALTED,
        subject=source.name,
        details={"rows": present, "lost": lost},
        now=now,
    )


def _propose(source: AssetSource) -> None:
    """Link rows with registered assets, and propose or register the new ones."""
    new_rows = _link(source)
    content = _import_text(source, new_rows)
    digest = sha256(content.encode()).hexdigest() if new_rows else ""
    pending = source.pending_import
    if pending is not None and pending.state == ImportState.WRITING:
        return  # a person confirmed it; the next poll links its assets
    is_pending = pending is not None and pending.state == ImportState.READ
    if source.policy == Policy.PROPOSE and is_pending and digest == source.pending_digest:
        return
    if pending is not None and is_pending:
        pending.delete()
    _save(source, pending_import=None, pending_digest="")
    if not new_rows:
        return
    now = now_us()
    row = csv_import.upload(
        lab=source.lab,
        file_name=f"{source.name}.csv",
        content=content.encode(),
        options=_options(source),
        by=None,
        now=now,
    )
    if row.state == ImportState.READING:  # a long one: this job reads it at once
        csv_import.read(row=row, now=now)
    if source.policy == Policy.APPLY:
        csv_import.write(row=row, by=None, now=now)
        _link(source)
    else:
        _save(source, pending_import=row, pending_digest=digest)


def _link(source: AssetSource) -> list[PolledRow]:
    """Link rows with the assets that have their inventory or serial number. Return the rows that
    can be registered.
    """
    new_rows, linked = _link_once(source)
    if linked:  # rows that are built into them can be registered now
        new_rows, _ = _link_once(source)
    return _registrable(source, new_rows)


def _link_once(source: AssetSource) -> tuple[list[PolledRow], int]:
    """Link rows; return the new ones and the number of linked ones."""
    linked = 0
    rows = list(source.rows.filter(asset=None, vanished_us=None).order_by("number"))
    marked = [row for row in rows if row.cells.get("tag") or row.cells.get("serial")]
    results = _preview(source, marked)
    taken: set[int | None] = set(source.rows.exclude(asset=None).values_list("asset_id", flat=True))
    new_rows = []
    for row in rows:
        result = results.get(row.pk)
        row.problem = UNMARKED if result is None else _problem_of(result, marked)
        if result is not None and result.outcome == LEFT_OUT:
            row.problem = OVER.format(row.cells.get("status", "")[:40])
        if result is not None and result.asset_id is not None:  # registered, changed or not
            row.problem = ""
            if result.asset_id in taken:
                row.problem = TWICE
                continue
            taken.add(result.asset_id)
            linked += 1
            row.asset_id, row.accepted = result.asset_id, row.cells
        elif result is not None and result.outcome == NEW and not row.ignored:
            new_rows.append(row)
    PolledRow.objects.bulk_update(rows, ["asset", "accepted", "problem"], batch_size=BATCH)
    return new_rows, linked


def _registrable(source: AssetSource, rows: list[PolledRow]) -> list[PolledRow]:
    """Return the rows that can be registered without the others. The others get a problem: their
    machine is ignored.
    """
    results = _preview(source, rows)
    apart = [row for row in rows if results[row.pk].outcome != NEW]
    for row in apart:
        row.problem = _problem_of(results[row.pk], rows)
    PolledRow.objects.bulk_update(apart, ["problem"], batch_size=BATCH)
    return [row for row in rows if results[row.pk].outcome == NEW]


def _preview(source: AssetSource, rows: Sequence[PolledRow]) -> Mapping[int, Row]:
    """Return what the import makes of rows, by their primary key."""
    if not rows:
        return {}
    reading = Reading(source.lab, _import_text(source, rows), _options(source), now_us())
    results: Iterable[Row] = settled(list(reading.rows()))
    return {rows[result.line - FIRST_LINE].pk: result for result in results}


def _import_text(source: AssetSource, rows: Sequence[PolledRow]) -> str:
    """Return rows as a file. A parent that is registered is named as in the register."""
    linked = source.rows.filter(asset__isnull=False).select_related("asset")
    names = {
        row.cells.get("name", ""): row.asset.tag or row.asset.name for row in linked if row.asset
    }
    remote = []
    for row in rows:
        parent = row.cells.get("parent", "")
        cells = {**row.cells, "parent": names.get(parent, parent)} if parent else row.cells
        remote.append(RemoteRow(row.number, cells))
    return import_text(System(source.system), remote)


def _problem_of(result: Row, rows: Sequence[PolledRow]) -> str:
    """Return why a row cannot be registered, '' if it can. Rows are named instead of lines."""
    if result.outcome == NEW or result.asset_id is not None:
        return ""

    def title(match: re.Match[str]) -> str:
        place = int(match[1]) - FIRST_LINE
        return f"“{rows[place].title}”" if 0 <= place < len(rows) else match[0]

    message = re.sub(r"\b[Ll]ine (\d{1,6})\b", title, result.message)
    return f"{message} {result.hint}".strip()[:400]


def _options(source: AssetSource) -> Options:
    return Options(source.currency, source.bought_on)


def _update_changed(source: AssetSource) -> None:
    """Update the details of assets whose rows changed, if the policy of the source permits it."""
    if source.policy != Policy.APPLY:
        return
    rows = source.rows.filter(vanished_us=None, asset__isnull=False)
    for row in rows.select_related("asset__lab", "asset__model").order_by("number"):
        if any(each.is_fact for each in differences(row.accepted, row.cells)):
            update_asset(source=source, row=row, by=None, now=now_us())
