"""Verification of an exported statement. Pure: it needs the file, and no server.

Each row has a digest, which locates a change. The hashes cover all rows, and the file must be
written exactly as an export is written, so that every byte counts. The sums are recomputed, so that
a change is found even if its author has computed new hashes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from apps.reports.conservation import imbalances
from apps.reports.export_files import (
    FIGURES_HASH,
    HASHES,
    RENDERERS,
    Export,
    ExportError,
    export_hashes,
    is_integer,
    parse_export,
)
from apps.reports.market_totals import RATE, UPSTREAM_RATE
from apps.reports.rows import FACTOR, KINDS, LINE, NONE, Row, changed_columns, row_digest


@dataclass(frozen=True)
class Problem:
    """What is wrong in a file. ``row``: its number, 0 for the file as a whole. ``field``: the
    changed column, '' if unknown.
    """

    row: int
    field: str
    message: str


@dataclass(frozen=True)
class Verification:
    """The result. ``figures_sha256``: the recomputed hash of the figures, '' if unreadable."""

    problems: list[Problem]
    rows: int = 0
    figures_sha256: str = ""


def verify(data: bytes, expected_sha256: str = "") -> Verification:
    """Return the problems of an exported file. ``expected_sha256``: the hash of the figures, as
    printed or saved elsewhere.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Verification([Problem(line - 1, "", f"Line {line} is not UTF-8 text.")])
    try:
        export = parse_export(text)
    except ExportError as error:
        return Verification([Problem(0, "", str(error))])
    rows = [entry.row for entry in export.rows]
    hashes = export_hashes(rows)
    problems = [
        *(Problem(error.line_number - 1, "", str(error)) for error in export.errors),
        *_changed_rows(export, are_hashes_valid=hashes == export.hashes),
    ]
    if not problems:
        problems = [*_wrong_hashes(export, hashes), *_altered_text(export, rows, text)]
    if not problems:
        problems = _wrong_values(export)
    figures = hashes[FIGURES_HASH]
    if expected_sha256 and figures != expected_sha256:
        problems.append(Problem(0, FIGURES_HASH, f"The figures have the hash {figures}."))
    return Verification(problems, len(rows), figures)


def _changed_rows(export: Export, *, are_hashes_valid: bool) -> Iterator[Problem]:
    """Yield the rows that do not fit their digest, and the missing ones. If the hashes fit all
    rows, the digest itself was changed.
    """
    expected = 1
    for entry in export.rows:
        changed = changed_columns(entry.number, entry.row, entry.digest)
        if changed and entry.digest == row_digest(expected, entry.row):
            yield _changed(expected, entry.row, ["row"])
        elif changed:
            yield _changed(expected, entry.row, ["digest"] if are_hashes_valid else changed)
        elif entry.number != expected:
            yield Problem(
                expected, "", f"Row {expected} is missing. Row {entry.number} is in its place."
            )
            expected = entry.number
        expected += 1


def _changed(number: int, row: Row, columns: list[str]) -> Problem:
    return Problem(
        number, columns[0], f"Row {number} ({row.label}): {', '.join(columns)} was changed."
    )


def _wrong_hashes(export: Export, hashes: dict[str, str]) -> Iterator[Problem]:
    for name in HASHES:
        if export.hashes[name] != hashes[name]:
            yield Problem(
                0,
                name,
                f"{name} is not the hash of the rows: it was changed, or rows were added or "
                "removed.",
            )


def _altered_text(export: Export, rows: list[Row], text: str) -> Iterator[Problem]:
    """Yield the first line that is written otherwise than an export writes it."""
    if export.hashes != export_hashes(rows) or any(
        row.kind == LINE and not is_integer(row.value) for row in rows
    ):
        return
    written = RENDERERS[export.file_format](rows)
    if written == text:
        return
    pairs = zip(text.split("\n"), written.split("\n"), strict=False)
    differing = (i for i, (actual, expected) in enumerate(pairs) if actual != expected)
    index = next(differing, len(written.split("\n")))
    yield Problem(index, "", f"Line {index + 1} is not written as an export writes it.")


def _wrong_values(export: Export) -> list[Problem]:
    """Return the rows with an impossible value, else those that do not keep a sum."""
    problems = [
        Problem(entry.number, field, f"Row {entry.number} ({entry.row.label}): {field} is invalid.")
        for entry in export.rows
        if (field := _invalid_field(entry.row))
    ]
    if problems:
        return problems
    numbers = {entry.row.key: entry.number for entry in export.rows}
    return [
        Problem(
            number := numbers.get(imbalance.row.key, 0),
            "value",
            f"Row {number} ({imbalance.row.label}) {imbalance.message}.",
        )
        for imbalance in imbalances([entry.row for entry in export.rows])
    ]


def _invalid_field(row: Row) -> str:
    if row.kind not in KINDS:
        return "kind"
    is_number = row.kind == LINE or (row.kind == FACTOR and row.metric in (RATE, UPSTREAM_RATE))
    if is_number and not is_integer(row.value):
        return "value"
    if row.kind != LINE or not row.factor:
        return ""
    if row.is_market:
        return "pue_ppm" if row.pue_ppm else ""
    if row.pue_ppm != NONE and not is_integer(row.pue_ppm):
        return "pue_ppm"
    return ""
