"""Rows of a spreadsheet as activities, each with its identity. Pure.

The identity is the id of the row, or a digest of its content with the number of its occurrence:
equal rows of a file are several activities.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from apps.activity.drafts import Draft
from apps.activity.kinds import KINDS, NUMBER_HINT, Input, Kind, kind_of, parse_inputs
from apps.activity.spreadsheets.fields import COMMON, FIELDS, heading_score
from apps.core.csv_cells import unguard
from apps.core.errors import InvalidInput
from apps.core.intervals import datetime_to_us, midnight_hour
from apps.core.spreadsheets.columns import Column, columns_of
from apps.core.spreadsheets.days import DAY_HINT, day_of
from apps.core.spreadsheets.sources import MAX_CELL, Rows, first_rows, read_rows
from apps.core.text import is_unstorable
from apps.core.units import PPM, UG_PER_G, US_PER_HOUR

MAX_ID = 190
DIGEST_PREFIX = "row:"
_TIME = re.compile(r"[T ]\d{1,2}:\d{2}")
_MIDNIGHT = re.compile(r"[T ]0?0:00(:00(\.0+)?)?\Z")
_MONTH = re.compile(r"(\d{4})-(\d{1,2})|(\d{1,2})[./](\d{4})", re.ASCII)
_NUMBER = re.compile(r"[0-9.,]{0,39}[0-9]")
_GROUPS = re.compile(r"\A[0-9]{1,3}(?:[ \u00a0\u2009\u202f'’][0-9]{3})+(?=[.,]|\Z)")


@dataclass(frozen=True)
class Layout:
    """How a file is read. ``columns``: the field of each column by its key. ``kind``: that of all
    rows, '' if a column names it.
    """

    columns: Mapping[str, str]
    kind: str
    separator: str
    date_order: str
    decimal: str
    time_zone: str


@dataclass(frozen=True)
class FileRow:
    """A row of a file: the activity, or what is wrong with it. ``has_own_id``: its identity is in
    the file.
    """

    line: int
    name: str
    draft: Draft | None
    error: InvalidInput | None = None
    has_own_id: bool = False


def read_header(text: str, separator: str) -> tuple[list[Column], Rows]:
    """Return the columns of a file and its rows."""
    rows = read_rows(text, separator)
    first, position = first_rows(rows, heading_score)
    columns = columns_of(first[position][1]) if first else []

    def below() -> Rows:
        yield from first[position + 1 :]
        yield from rows

    return columns, below()


def file_rows(text: str, layout: Layout) -> Iterator[FileRow]:
    """Yield the rows of a file in their order."""
    columns, rows = read_header(text, layout.separator)
    fields = [layout.columns.get(column.key, "") for column in columns]
    parser = _RowParser(layout)
    own_ids: dict[str, int] = {}
    occurrences: Counter[str] = Counter()
    for line, cells in rows:
        row = parser.parse(line, cells, fields)
        if row.draft is None:
            yield row
        elif row.has_own_id:
            first = own_ids.setdefault(row.draft.external_id, line)
            yield row if first == line else replace(row, draft=None, error=_repeated(row, first))
        else:
            digest = content_digest(row.draft)
            occurrences[digest] += 1
            number = occurrences[digest]
            identity = f"{DIGEST_PREFIX}{digest}" + (f"#{number}" if number > 1 else "")
            yield replace(row, draft=replace(row.draft, external_id=identity))


def content_digest(draft: Draft) -> str:
    """Return the digest of what a row declares."""
    content = [
        draft.kind, draft.name, draft.project, draft.start_us, draft.end_us, draft.zone.upper(),
        draft.ug_per_kwh, draft.pue_ppm, sorted(draft.inputs.items()),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:40]


def number_text(text: str, field: str, decimal: str) -> str:
    """Return a number with a dot as decimal sign. ``decimal``: the sign of the file, for numbers
    that can be read two ways.
    """
    bare = _GROUPS.sub(lambda groups: re.sub("[^0-9]", "", groups[0]), text, count=1)
    label = FIELDS[field]
    if not _NUMBER.fullmatch(bare):
        raise InvalidInput(
            f"{label}: {text[:30]!r} is not a number.", field=field, hint=NUMBER_HINT
        )
    signs = re.findall("[.,]", bare)
    if not signs:
        return bare
    if len(signs) == 1 and re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", bare):
        if not decimal:
            raise InvalidInput(
                f"{label}: {text[:30]!r} can be read two ways.",
                field=field,
                hint="Write 1500 or 1.50.",
            )
        return bare.replace(signs[0], "." if signs[0] == decimal else "")
    whole, _, rest = bare.rpartition(signs[-1])
    if signs.count(signs[-1]) > 1:  # 1.234.567: all of them separate thousands
        whole, rest = bare, ""
    if any(len(group) != 3 for group in re.split("[.,]", whole)[1:]):
        raise InvalidInput(
            f"{label}: {text[:30]!r} is not a number.", field=field, hint=NUMBER_HINT
        )
    return f"{re.sub('[.,]', '', whole)}.{rest or 0}"


def _repeated(row: FileRow, first: int) -> InvalidInput:
    assert row.draft is not None
    return InvalidInput(
        f"The id {row.draft.external_id[:40]!r} is that of line {first}.",
        field="id",
        hint="Give each row its own id.",
    )


class _RowParser:
    """Parser of the rows of one file. It remembers words and days that repeat."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._zone = ZoneInfo(layout.time_zone)
        self._starts: dict[tuple[str, str], int] = {}

    def parse(self, line: int, cells: list[str], fields: list[str]) -> FileRow:
        name = ""
        try:
            values = _values(cells, fields)
            name = values.get("name", "")[:200]
            draft = self._draft(values)
        except InvalidInput as error:
            return FileRow(line, name, None, error)
        return FileRow(line, name, draft, has_own_id="id" in values)

    def _draft(self, values: dict[str, str]) -> Draft:
        kind = kind_of(self._layout.kind or _kind_name(values.get("kind", "")))
        start_us, end_us = self._period(values)
        identifier = values.get("id", "")
        if len(identifier) > MAX_ID:
            raise InvalidInput(
                f"The id is longer than {MAX_ID} characters.", field="id", hint="Shorten it."
            )
        grams, pue = (self._decimal(values, field) for field in ("g_per_kwh", "pue"))
        return Draft(
            kind=kind.kind.value,
            name=values.get("name", "") or kind.kind.label,
            start_us=start_us,
            end_us=end_us,
            inputs=self._inputs(kind, values),
            project=values.get("project", ""),
            zone=values.get("zone", ""),
            ug_per_kwh=None if grams is None else int(grams * UG_PER_G),
            pue_ppm=None if pue is None else int(pue * PPM),
            external_id=identifier,
        )

    def _inputs(self, kind: Kind, values: Mapping[str, str]) -> dict[str, str]:
        known = {each.name: each for each in kind.inputs}
        raw: dict[str, str] = {}
        for field, text in values.items():
            if field in COMMON:
                continue
            if field not in known:
                raise InvalidInput(
                    f"{FIELDS[field]} is no input of {kind.kind.label.lower()}.",
                    field=field,
                    hint="Empty the cell, or correct the kind.",
                )
            each = known[field]
            if each.choices:
                raw[field] = _choice(each, text)
            elif each.is_text:
                raw[field] = text
            else:
                raw[field] = number_text(text, field, self._layout.decimal)
        return parse_inputs(kind, raw)

    def _decimal(self, values: Mapping[str, str], field: str) -> Decimal | None:
        if field not in values:
            return None
        value = Decimal(number_text(values[field], field, self._layout.decimal))
        if not 0 <= value < 10**9:
            raise InvalidInput(f"{FIELDS[field]} is out of range.", field=field, hint=NUMBER_HINT)
        return value

    def _period(self, values: Mapping[str, str]) -> tuple[int, int]:
        month = values.get("month")
        if month is not None:
            if any(field in values for field in ("from", "to", "last_day")):
                raise InvalidInput(
                    "Both a month and days are set.", field="month", hint="Enter one or the other."
                )
            first = self._month(month)
            _check_year(first, "month")
            following = (first + timedelta(days=31)).replace(day=1)
            return self._midnight_us(first), self._midnight_us(following)
        if "from" not in values:
            raise InvalidInput(
                "The first day is missing.", field="from", hint="Enter 2026-11-01, or a month."
            )
        if ("to" in values) == ("last_day" in values):
            raise InvalidInput(
                "Either the end or the last day must be set.",
                field="to",
                hint="Enter the last day, which is included, or the end, which is not.",
            )
        start_us = self._moment_us(values["from"], "from")
        if "to" in values:
            return start_us, self._moment_us(values["to"], "to")
        last = day_of(values["last_day"], "last_day", self._layout.date_order)
        _check_year(last, "last_day")
        return start_us, self._midnight_us(last + timedelta(days=1))

    def _month(self, text: str) -> date:
        parts = _MONTH.fullmatch(text)
        try:
            if parts is None:
                return day_of(text, "month", self._layout.date_order).replace(day=1)
            return date(int(parts[1] or parts[4]), int(parts[2] or parts[3]), 1)
        except ValueError as error:
            raise InvalidInput(
                f"{text[:30]!r} is not a month.", field="month", hint="Enter 2026-11."
            ) from error

    def _moment_us(self, text: str, field: str) -> int:
        known = self._starts.get((field, text))
        if known is None:
            known = self._starts[field, text] = self._parsed_us(text, field)
        return known

    def _parsed_us(self, text: str, field: str) -> int:
        if not _TIME.search(text) or _MIDNIGHT.search(text):
            return self._midnight_us(
                day_of(_MIDNIGHT.sub("", text), field, self._layout.date_order)
            )
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None:
                moment = _local_moment(moment, self._zone, field)
            return datetime_to_us(moment)
        except (ValueError, OverflowError) as error:
            raise InvalidInput(
                f"{text[:30]!r} is not a day or time.", field=field, hint=DAY_HINT
            ) from error

    def _midnight_us(self, day: date) -> int:
        if not 1970 <= day.year <= 2200:
            raise InvalidInput(
                f"The year {day.year} is out of range.", field="from", hint="Enter 1970 to 2200."
            )
        return midnight_hour(day, self._zone) * US_PER_HOUR


def _local_moment(local: datetime, zone: ZoneInfo, field: str) -> datetime:
    """Return a time of the zone's clock. Raises InvalidInput for one that the clock skips or shows
    twice.
    """
    first, second = (local.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if first.utcoffset() == second.utcoffset():
        return first
    shown = f"{local:%Y-%m-%d %H:%M}"
    after_skip = first.astimezone(UTC).astimezone(zone)
    if after_skip.replace(tzinfo=None) != local:
        raise InvalidInput(
            f"{shown} does not exist in {zone.key}: the clock is set forward.",
            field=field,
            hint=f"Correct the time, such as {after_skip:%H:%M}, or write its offset from UTC.",
        )
    examples = " or ".join(moment.isoformat(timespec="minutes") for moment in (first, second))
    raise InvalidInput(
        f"{shown} occurs twice in {zone.key}: the clock is set back.",
        field=field,
        hint=f"Write the offset from UTC: {examples}.",
    )


def _values(cells: list[str], fields: list[str]) -> dict[str, str]:
    """Return the cells that are not empty by field. Raises InvalidInput."""
    values: dict[str, str] = {}
    for field, cell in zip(fields, cells, strict=False):
        text = unguard(cell).strip()
        if not field or not text:
            continue
        if len(text) > MAX_CELL or is_unstorable(text):
            raise InvalidInput(
                f"{FIELDS[field]} is too long or contains an invalid character.",
                field=field,
                hint="Correct the cell.",
            )
        values[field] = text
    if any(cell.strip() for cell in cells[len(fields) :]):
        raise InvalidInput(
            "There are more cells than columns.",
            hint="Quote a cell that contains the separator.",
        )
    return values


def _kind_name(text: str) -> str:
    if not text:
        raise InvalidInput(
            "The kind is missing.", field="kind", hint=f"Use one of {', '.join(KINDS)}."
        )
    return _KINDS.get(text.casefold().replace("_", " "), text)


_KINDS = {
    spelling: name
    for name, kind in KINDS.items()
    for spelling in (name.replace("_", " "), kind.kind.label.casefold())
}


def _choice(each: Input, text: str) -> str:
    """Return the value of a choice that a cell names by value or label."""
    folded = text.casefold()
    for value, label in each.choices:
        if folded in (value.casefold(), label.casefold()):
            return value
    return text


def _check_year(day: date, field: str) -> None:
    if not 1970 <= day.year <= 2200:
        raise InvalidInput(
            f"The year {day.year} is out of range.", field=field, hint="Enter 1970 to 2200."
        )
