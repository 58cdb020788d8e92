"""Relations between the rows of a file: machines and the parts that are built into them."""

from collections.abc import Sequence
from dataclasses import replace

from apps.assets.choices import EventKind
from apps.assets.models import Asset
from apps.assets.spreadsheets.preview import CHANGED, KNOWN, NEW, WRONG, Row

Key = tuple[int, int]


def settled(rows: Sequence[Row]) -> list[Row]:
    """Return rows with errors between lines: the parent is not registered, or is the row itself;
    a machine is disposed of without its parts.
    """
    by_line = {row.line: row for row in rows if row.item <= 1}
    checked = [_settled(row, by_line) for row in rows]
    parts = _remaining_parts(checked)
    return [_with_parts(row, parts[row.line]) if row.line in parts else row for row in checked]


def _is_disposed(row: Row) -> bool:
    """Return whether the file disposes of the asset of a row."""
    if row.update is not None:
        return "disposed_on" in row.update.fields
    entries = row.draft.entries if row.draft else ()
    return any(entry.kind == EventKind.DISPOSE for entry in entries)


def _remaining_parts(rows: Sequence[Row]) -> dict[int, list[str]]:
    """Return the names of the parts that would stay in a machine that is disposed of, by its
    line.
    """
    lines = {row.line for row in rows if _is_disposed(row)}
    names: dict[int, list[str]] = {}
    leaving = set()  # registered parts that the file disposes of or moves
    for row in rows:
        if row.asset_id and (_is_disposed(row) or (row.update and "parent" in row.update.fields)):
            leaving.add(row.asset_id)
        if row.parent_line in lines and not _is_disposed(row):
            names.setdefault(row.parent_line or 0, []).append(row.name)
    machines = {row.asset_id: row.line for row in rows if row.asset_id and row.line in lines}
    parts = Asset.objects.filter(parent_id__in=machines).exclude(pk__in=leaving).order_by("pk")
    for parent_id, name in parts.values_list("parent_id", "name"):
        names.setdefault(machines[parent_id], []).append(name)
    return names


def _with_parts(row: Row, names: Sequence[str]) -> Row:
    listed = ", ".join(name[:60] for name in names[:5]) + (" …" if len(names) > 5 else "")
    return replace(
        row,
        outcome=WRONG,
        draft=None,
        message=f"It is disposed of, but contains parts that are not: {listed}.",
        field="disposed_on",
        hint="Fill in the end of these parts too, or dispose of the asset on its page.",
    )


def _settled(row: Row, by_line: dict[int, Row]) -> Row:
    seen: set[int] = set()
    at: Row | None = row
    while at is not None and at.outcome == NEW and at.parent_line is not None:
        if at.line in seen:
            return _wrong(row, "It is built into itself, by way of other lines.")
        seen.add(at.line)
        at = by_line.get(at.parent_line)
    if row.outcome not in {NEW, CHANGED} or row.parent_line is None:
        return row
    parent = by_line.get(row.parent_line)
    if parent is None or parent.outcome not in {NEW, KNOWN, CHANGED}:
        return _wrong(row, f"Line {row.parent_line}, into which it is built, is not registered.")
    return row


def _wrong(row: Row, message: str) -> Row:
    return replace(
        row,
        outcome=WRONG,
        draft=None,
        message=message,
        field="parent",
        hint="Correct the column parent.",
    )


def generations(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the new rows of settled ``rows`` by generation: parents before their parts."""
    new = {(row.line, row.item): row for row in rows if row.outcome == NEW}
    depths: dict[Key, int] = {}
    for row in new.values():
        path = [row]
        while key_of(path[-1]) not in depths and (path[-1].parent_line or 0, 0) in new:
            path.append(new[(path[-1].parent_line or 0, 0)])
        base = depths.get(key_of(path[-1]), 0)
        for above, each in enumerate(reversed(path)):
            depths[key_of(each)] = base + above
    levels: list[list[Row]] = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    for key, depth in depths.items():
        levels[depth].append(new[key])
    return [sorted(level, key=key_of) for level in levels]


def key_of(row: Row) -> Key:
    """Return the line and the item of a row. A line can stand for several things."""
    return row.line, row.item
