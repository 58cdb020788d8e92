"""Registration of an import and its undo as a job: started once, all or nothing, with its error."""

import logging
from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import Error

from apps.accounts.models import User
from apps.assets.choices import RUNNING, ImportState
from apps.assets.import_progress import Progress, Report
from apps.assets.models import RegisterImport
from apps.assets.services.csv_import import STATE_BEFORE, start, write
from apps.assets.services.undo import redo_import, undo_import
from apps.core.clock import now_us
from apps.core.errors import LabCarbonError

log = logging.getLogger(__name__)
SYNCHRONOUS_ASSETS = 500  # more are undone by a job
_STEPS = 3


def is_long(row: RegisterImport) -> bool:
    """Return whether a job undoes an import."""
    return row.changes.count() > SYNCHRONOUS_ASSETS


def undo(
    *, row: RegisterImport, is_redo: bool, leave_out: Collection[int], by: User | None, now: int
) -> int | None:
    """Undo a short import immediately, else enqueue a job. Return the number of undone assets,
    None of a job.

    ``is_redo``: undo its last undo instead. Raises UndoRefused, Conflict.
    """
    if not is_long(row):
        execute = redo_import if is_redo else undo_import
        return len(execute(row=row, leave_out=leave_out, by=by, now=now).steps)
    state = ImportState.REDOING if is_redo else ImportState.UNDOING
    start(row=row, state=state, by=by, leave_out=leave_out)
    return None


def run(key: str) -> None:
    """Run the job of import ``<uuid>:<user id>``. Its error is saved with the import, which is then
    as before.

    An error of the database is raised: the job is tried again.
    """
    uuid, _, user = key.partition(":")
    imports = RegisterImport.objects.select_related("lab")
    row = imports.filter(uuid=UUID(uuid), state__in=RUNNING).first()
    if row is None:
        return
    by = User.objects.filter(pk=int(user)).first() if user else None
    progress = Progress(row.uuid, _STEPS)
    try:
        _execute(row, by, progress.report)
    except LabCarbonError as error:
        _fail(row, error.message, error.hint)
    except Error:
        raise
    except Exception as error:
        log.exception("import %s failed", row.uuid)
        _fail(
            row,
            f"An internal error ({type(error).__name__}). Nothing was changed.",
            "Try again. If it fails again, report the log of the worker.",
        )
    finally:
        progress.end()


def _execute(row: RegisterImport, by: User | None, report: Report) -> None:
    options: dict[str, Any] = {"row": row, "by": by, "now": now_us(), "report": report}
    if row.state == ImportState.WRITING:
        write(**options)
        return
    execute = redo_import if row.state == ImportState.REDOING else undo_import
    execute(leave_out=row.task.get("leave_out", []), **options)


def _fail(row: RegisterImport, message: str, hint: str) -> None:
    """Save the error of a job. The import is as before."""
    if row.state in RUNNING:  # a file with errors is in state "read" already, with its errors
        RegisterImport.objects.filter(pk=row.pk, state=row.state).update(
            state=STATE_BEFORE[ImportState(row.state)], task={"error": message, "hint": hint}
        )
