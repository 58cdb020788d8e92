"""Contents of the pages of imported files of activities."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet
from django.forms import BoundField

from apps.accounts.models import Lab
from apps.activity.choices import FileState
from apps.activity.models import ActivityFile, BadRow
from apps.core.units import amount_text
from apps.dashboard.formatting import ENERGY

SHOWN_ROWS = 200
SHOWN_FILES = 20
BAD_ROW_HEADER = ("line", "name", "field", "reason", "hint")


@dataclass(frozen=True)
class FilePage:
    """A file with its results. ``more``: bad rows that are not shown."""

    file: ActivityFile
    is_busy: bool
    percent: int | None
    bad_rows: list[BadRow]
    more: int
    energy: str


@dataclass(frozen=True)
class ColumnRow:
    """A column on the mapping page with its form field."""

    heading: str
    examples: Sequence[str]
    field: BoundField


def file_page(file: ActivityFile) -> FilePage:
    """Return the page of a file. Two queries at most."""
    is_busy = file.state in (FileState.CHECKING, FileState.RECORDING)
    listed = [] if is_busy or not file.wrong else list(_bad_rows(file)[:SHOWN_ROWS])
    return FilePage(
        file=file,
        is_busy=is_busy,
        percent=100 * file.rows_done // file.rows if file.rows_done else None,
        bad_rows=listed,
        more=0 if is_busy else max(0, file.wrong - SHOWN_ROWS),
        energy=amount_text(file.energy_mj, ENERGY),
    )


def bad_row_cells(file: ActivityFile) -> Iterator[tuple[object, ...]]:
    """Return the bad rows of a file as rows of a CSV."""
    rows = _bad_rows(file).values_list("line", "name", "field", "message", "hint")
    return iter(rows.iterator(chunk_size=1_000))


def latest_files(lab: Lab) -> list[ActivityFile]:
    """Return the latest files of a lab without their contents."""
    files = ActivityFile.objects.filter(lab=lab).select_related("created_by").defer("content")
    return list(files.order_by("-created_us", "-pk")[:SHOWN_FILES])


def _bad_rows(file: ActivityFile) -> QuerySet[BadRow]:
    return file.bad_rows.order_by("line")
