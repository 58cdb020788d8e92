"""CSV downloads: units in headers, times in UTC, and no cell that a spreadsheet would run."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

from django.http import StreamingHttpResponse

from apps.core.csv_cells import guard


def cell(value: object) -> str:
    """Return ``value`` as a cell. Text that a spreadsheet would run is guarded."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int | float) else guard(str(value))


class _Echo(io.StringIO):
    def write(self, text: str) -> int:  # returns the text that the csv module writes
        self.last = text
        return len(text)


def _lines(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    out = _Echo()
    writer = csv.writer(out)
    writer.writerow(header)
    yield out.last
    for values in rows:
        writer.writerow([cell(value) for value in values])
        yield out.last


def csv_response(
    name: str, header: Sequence[str], rows: Iterable[Sequence[object]]
) -> StreamingHttpResponse:
    """Return a download named from ``name``, of which only letters, digits, dots and hyphens are
    kept.
    """
    safe = re.sub(r"[^A-Za-z0-9.\-]+", "-", name).strip("-.")[:80] or "labcarbon"
    response = StreamingHttpResponse(_lines(header, rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{safe}.csv"'
    return response
