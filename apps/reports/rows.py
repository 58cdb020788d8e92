"""Canonical form of a statement: rows of text with one hash. Pure.

A statement is a list of rows with the same columns: facts of the statement, editions of factors,
and lines, each with one integer. Rows with names of people, projects and assets are added to an
export. They have no part in the hash of the figures, because names can change.

The canonical text is one JSON array of the columns per row, separated by line breaks. The hash of
the figures is its SHA-256.
"""

import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields, replace
from hashlib import sha256

FORMAT = "labcarbon-statement-1"
STATEMENT, FACTOR, LINE, NAME = "statement", "factor", "line", "name"
KINDS = (STATEMENT, FACTOR, LINE, NAME)
LAB = "lab"  # subject of the totals
MARKET = "market:"  # start of the subjects of market-based totals
NONE = "none"  # of a part without factor, or without PUE
_CHECK_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One row. Empty text: the column does not apply.

    - ``subject`` of a line: lab, ``project:<slug>``, ``asset:<number>``, a charge that no
      project bears, such as ``~idle``, or a market-based total, such as ``market:scope2-2015``.
    - ``scope``: a scope of ``profile``. Empty: all scopes.
    - ``factor`` and ``pue_ppm``: a part of the figure, priced with this edition and PUE. Empty: the
      whole figure.
    """

    kind: str
    subject: str
    metric: str
    accounting: str = ""
    basis: str = ""
    profile: str = ""
    scope: str = ""
    factor: str = ""
    pue_ppm: str = ""
    value: str = ""

    @property
    def key(self) -> "Row":
        """Return the row without its value."""
        return replace(self, value="")

    @property
    def is_market(self) -> bool:
        """Return whether the row is market-based."""
        return self.subject.startswith(MARKET)

    @property
    def number(self) -> int:
        """Return the integer of a line."""
        return int(self.value)

    @property
    def label(self) -> str:
        """Return what the row states, without its value."""
        return ", ".join(text for text in astuple(self)[1:-1] if text)


COLUMNS = tuple(field.name for field in fields(Row))


def one_line(text: str) -> str:
    """Return a text on one line, as a row contains it."""
    return " ".join(text.split())


def line(subject: str, metric: str, value: int, **columns: str) -> Row:
    """Return the row of a figure."""
    return Row(LINE, subject, metric, value=str(value), **columns)


class Lines:
    """The integers of the lines among rows."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._values = {
            (row.subject, row.metric, row.profile, row.scope, row.factor, row.pue_ppm): row.number
            for row in rows
            if row.kind == LINE
        }

    def value(self, subject: str, metric: str, *, profile: str = "", scope: str = "") -> int | None:
        """Return the figure of a subject, None if the rows have no such line."""
        return self._values.get((subject, metric, profile, scope, "", ""))

    def subjects(self) -> list[str]:
        """Return the subjects in the order of the rows, each once, without market-based totals."""
        subjects = dict.fromkeys(subject for subject, *_ in self._values)
        return [subject for subject in subjects if not subject.startswith(MARKET)]

    def scopes(self, profile: str) -> list[str]:
        """Return the scopes of a profile that have a line, sorted."""
        return sorted({key[3] for key in self._values if key[2] == profile and key[3]})

    def part_sums(self, metric: str) -> dict[tuple[str, str], int]:
        """Return {(factor, PUE): sum} of the parts of a location-based figure by factor and PUE."""
        sums: dict[tuple[str, str], int] = {}
        for (subject, found, _, _, factor, pue_ppm), number in self._values.items():
            if factor and found == metric and not subject.startswith(MARKET):
                sums[factor, pue_ppm] = sums.get((factor, pue_ppm), 0) + number
        return sums


def canonical_text(rows: Iterable[Row]) -> str:
    """Return the canonical text of rows."""
    return "\n".join(
        json.dumps(astuple(row), ensure_ascii=False, separators=(",", ":")) for row in rows
    )


def rows_of_text(text: str) -> list[Row]:
    """Return the rows of a canonical text."""
    return [Row(*json.loads(line)) for line in text.split("\n")]


def digest_of_text(text: str) -> str:
    """Return the SHA-256 of a text."""
    return sha256(text.encode()).hexdigest()


def figures_digest(rows: Iterable[Row]) -> str:
    """Return the hash of the figures: of all rows but names."""
    return digest_of_text(canonical_text(row for row in rows if row.kind != NAME))


def row_digest(number: int, row: Row) -> str:
    """Return the digest of a row of an export: eight hexadecimal digits per column.

    It locates a change. That there is none is proved by the hash of all rows.
    """
    return "".join(
        digest_of_text(f"{number}\n{column}\n{value}")[:_CHECK_LENGTH]
        for column, value in zip(COLUMNS, astuple(row), strict=True)
    )


def changed_columns(number: int, row: Row, digest: str) -> list[str]:
    """Return the columns of a row that do not fit its digest."""
    expected = row_digest(number, row)
    if len(digest) != len(expected):
        return ["digest"]
    parts = (slice(i, i + _CHECK_LENGTH) for i in range(0, len(expected), _CHECK_LENGTH))
    return [
        column
        for column, part in zip(COLUMNS, parts, strict=True)
        if digest[part] != expected[part]
    ]
