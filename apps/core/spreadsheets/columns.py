"""Columns of a spreadsheet: their headings, and keys that are unique in the file. Pure."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


def plain(heading: str) -> str:
    """Return a heading for comparison: lower case letters, digits and underscores, no accents."""
    decomposed = unicodedata.normalize("NFKD", heading.casefold())
    letters = "".join(each for each in decomposed if not unicodedata.combining(each))
    return re.sub(r"[^a-z0-9]+", "_", letters).strip("_")


@dataclass(frozen=True)
class Column:
    """A column of a file. ``key`` is its plain heading, unique in the file."""

    key: str
    heading: str


def columns_of(cells: Sequence[str]) -> list[Column]:
    """Return the columns of a first line. A column without heading is named by its position."""
    number: Counter[str] = Counter()
    columns = []
    for position, cell in enumerate(cells, start=1):
        key = plain(cell) or f"column_{position}"
        number[key] += 1
        unique = key if number[key] == 1 else f"{key}__{number[key]}"
        columns.append(Column(unique, cell.strip()[:60]))
    return columns
