"""Import of declared use without a collector. It uses the same ledger, factors and explanations."""

import csv
from collections import Counter
from collections.abc import Iterable
from uuid import NAMESPACE_URL, UUID, uuid5

from django.db import transaction

from apps.accounts.models import Lab
from apps.activity.declared_rows import COLUMNS, DeclaredRow, parse_row
from apps.activity.services.declared_use import (
    NewUse,
    unusable,
    write_new_uses,
    write_use,
)
from apps.activity.services.lookups import Lookups
from apps.carbon.services import apply_factors
from apps.core.errors import InvalidInput
from apps.core.jobs import enqueue
from apps.fleet.choices import Control
from apps.fleet.models import Node
from apps.runs.models import Run

MAX_ROWS = 50_000
CHUNK = 500


class RowErrors(InvalidInput):
    """Rows with errors, one error per row. Nothing is imported."""

    code = "bad_rows"

    def __init__(self, errors: list[InvalidInput]) -> None:
        super().__init__(
            f"{len(errors)} rows have errors. Nothing was imported.",
            hint="Correct them and import the file again.",
        )
        self.errors = errors


def read_rows(lines: Iterable[str]) -> list[DeclaredRow]:
    """Parse a CSV of declared use. Raises InvalidInput for the file, RowErrors for its rows."""
    reader = csv.DictReader(lines)
    header = [name.strip() for name in reader.fieldnames or []]
    reader.fieldnames = header
    unknown = [name for name in header if name not in COLUMNS]
    if not header or unknown:
        raise InvalidInput(
            f"Unknown column {unknown[0]!r}." if unknown else "The file is empty.",
            field=unknown[0] if unknown else None,
            hint=f"The first line contains column names out of: {', '.join(COLUMNS)}.",
        )
    repeated = next((name for name in header if header.count(name) > 1), "")
    if repeated:
        raise InvalidInput(
            f"Two columns are named {repeated!r}.",
            field=repeated,
            hint="Remove one of them, or correct its name.",
        )
    rows: list[DeclaredRow] = []
    errors: list[InvalidInput] = []
    try:
        for row in reader:
            try:
                rows.append(parse_row(row, reader.line_num))
            except InvalidInput as error:
                errors.append(error)
            if len(rows) + len(errors) > MAX_ROWS:
                raise InvalidInput(f"More than {MAX_ROWS} rows.", hint="Split the file.")
    except csv.Error as error:
        raise InvalidInput(
            f"line {reader.line_num}: {error}.", hint="Check the quotes of the file."
        ) from error
    if errors:
        raise RowErrors(errors)
    return rows


@transaction.atomic
def import_declared(
    *, lab: Lab, rows: list[DeclaredRow], origin: str, now: int, dry_run: bool = False
) -> dict[str, int]:
    """Store declared rows, all or none. Return the number of rows by result: accepted, duplicate,
    or range changed. A second import changes nothing. ``dry_run``: nothing is stored.

    Raises RowErrors for rows that cannot be used or were imported before with other values.
    """
    lookups = Lookups(lab)
    unusable_rows = (_unusable(lookups, row, now) for row in rows)
    errors = [*_repeated_ids(rows), *(error for error in unusable_rows if error is not None)]
    if errors:
        raise RowErrors(errors)
    counts: Counter[str] = Counter()
    placed = _placed(lookups, rows, now)
    stored = _stored_runs(lab, [uuid for uuid, _, _ in placed])
    for uuid, node, row in placed:
        if uuid not in stored:
            continue
        try:
            counts[_import_again(lookups, stored[uuid], row, node, origin, now)] += 1
        except InvalidInput as error:
            errors.append(error)
    new = [
        NewUse(uuid, row, node, lookups.project(row.project) if row.project else None)
        for uuid, node, row in placed
        if uuid not in stored
    ]
    for start in range(0, len(new), CHUNK):
        part = new[start : start + CHUNK]
        _, refused = write_new_uses(lab=lab, uses=part, origin=origin, now=now)
        counts["accepted"] += len(part) - len(refused)
        errors += [_refused(use.row, refused[use.uuid]) for use in part if use.uuid in refused]
    if errors:
        raise RowErrors(errors)
    if dry_run:
        transaction.set_rollback(True)
    else:
        apply_factors(lab=lab)
        enqueue(kind="attribution.lab", key=str(lab.pk))
    return dict(counts)


def _repeated_ids(rows: list[DeclaredRow]) -> list[InvalidInput]:
    """Return an error for each row with the id of an earlier one."""
    lines: dict[str, int] = {}
    return [
        InvalidInput(
            f"line {row.line}: id {row.id!r} is that of line {lines[row.id]}.",
            field="id",
            hint="Give each job its own id.",
        )
        for row in rows
        if row.id and lines.setdefault(row.id, row.line) != row.line
    ]


def _unusable(lookups: Lookups, row: DeclaredRow, now: int) -> InvalidInput | None:
    """Return why a row cannot be used, with its line."""
    error = unusable(lookups, row, now)
    if error is None:
        return None
    return InvalidInput(f"line {row.line}: {error.message}", field=error.field, hint=error.hint)


def _placed(
    lookups: Lookups, rows: list[DeclaredRow], now: int
) -> list[tuple[UUID, Node, DeclaredRow]]:
    """Return the identity and the node of each row."""
    occurrences: dict[str, int] = {}
    placed = []
    for row in rows:
        node = lookups.node(row, now, Control.OWN)
        placed.append((_row_uuid(lookups.lab, node, row, occurrences), node, row))
    return placed


def _stored_runs(lab: Lab, uuids: list[UUID]) -> dict[UUID, Run]:
    """Return the runs of rows that were imported before."""
    runs: dict[UUID, Run] = {}
    for start in range(0, len(uuids), CHUNK):
        part = Run.objects.select_related("project", "node").filter(
            lab=lab, uuid__in=uuids[start : start + CHUNK]
        )
        runs.update({run.uuid: run for run in part})
    return runs


def _import_again(
    lookups: Lookups, stored: Run, row: DeclaredRow, node: Node, origin: str, now: int
) -> str:
    """Compare a row that was imported before; return its result. Raises InvalidInput for other
    values.
    """
    if not _is_same(stored, row, node):
        raise _changed(row)
    result, is_changed = write_use(
        lab=lookups.lab,
        row=row,
        node=node,
        run_uuid=stored.uuid,
        origin=f"{origin}, line {row.line}",
        now=now,
    )
    if result not in ("accepted", "duplicate"):
        raise _changed(row)
    return "range changed" if is_changed and result == "duplicate" else result


def _is_same(run: Run, row: DeclaredRow, node: Node) -> bool:
    return (
        (run.node == node)
        and (run.name, run.started_us, run.ended_us) == (row.name, row.start_us, row.end_us)
        and run.requested_project == row.project
    )


def _refused(row: DeclaredRow, result: str) -> InvalidInput:
    return InvalidInput(
        f"line {row.line}: the ledger did not accept the energy: {result}.",
        field="kwh",
        hint="Check the period and the energy.",
    )


def _changed(row: DeclaredRow) -> InvalidInput:
    return InvalidInput(
        f"line {row.line}: {row.name!r} was imported before with other values.",
        field="id" if row.id else "kwh",
        hint="Restore the first values. If it is another job, give it an id of its own.",
    )


def _row_uuid(lab: Lab, node: Node, row: DeclaredRow, occurrences: dict[str, int]) -> UUID:
    """Return the identity of a row: its id, or its content and how often that occurred in the file
    before.
    """
    identity = (
        f"labcarbon:declared-id:{lab.pk}:{row.id}"
        if row.id
        else (
            f"labcarbon:declared:{lab.pk}:{node.uuid}:{row.project}:{row.name}:{row.start_us}:"
            f"{row.end_us}"
        )
    )
    earlier = occurrences.get(identity, 0)
    occurrences[identity] = earlier + 1
    return uuid5(NAMESPACE_URL, f"{identity}#{earlier + 1}" if earlier else identity)
