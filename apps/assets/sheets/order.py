"""Which lines are written first: a machine before what is built into it."""

from collections.abc import Sequence
from dataclasses import replace

from apps.assets.spreadsheets.preview import KNOWN, NEW, WRONG, Row


def settled(rows: Sequence[Row]) -> list[Row]:
    """Return rows with what is wrong between lines: built into a line that is not registered, or into itself."""
    by_line = {row.line: row for row in rows}
    return [_settled(row, by_line) for row in rows]


def _settled(row: Row, by_line: dict[int, Row]) -> Row:
    seen: set[int] = set()
    at: Row | None = row
    while at is not None and at.outcome == NEW and at.parent_line is not None:
        if at.line in seen:
            return _wrong(row, "It is built into itself, by way of other lines.")
        seen.add(at.line)
        at = by_line.get(at.parent_line)
    if row.outcome != NEW or row.parent_line is None:
        return row
    parent = by_line.get(row.parent_line)
    if parent is None or parent.outcome not in {NEW, KNOWN}:
        return _wrong(row, f"Line {row.parent_line}, into which it is built, is not registered.")
    return row


def _wrong(row: Row, message: str) -> Row:
    return replace(row, outcome=WRONG, draft=None, message=message, field="parent", hint="Mend the column parent.")


def generations(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the new rows of settled ``rows`` so that each stands behind the line that it is built into."""
    new = {row.line: row for row in rows if row.outcome == NEW}
    depths: dict[int, int] = {}
    for row in new.values():
        path = [row]
        while path[-1].line not in depths and path[-1].parent_line in new:
            path.append(new[path[-1].parent_line])
        base = depths.get(path[-1].line, 0)
        for above, each in enumerate(reversed(path)):
            depths[each.line] = base + above
    levels: list[list[Row]] = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    for line, depth in depths.items():
        levels[depth].append(new[line])
    return [sorted(level, key=lambda row: row.line) for level in levels]
