"""Calendar days in cells of a spreadsheet. Ambiguous text is refused. Pure."""

import re
from datetime import date

from apps.core.errors import InvalidInput
from apps.core.spreadsheets.notation import DAY_FIRST, MONTH_FIRST, is_year_first

DAY_HINT = "Write 2026-11-01, or 2026-11-01T08:00Z."
_ORDER = "Choose the order of day and month, or write 2026-11-01."
_TIME = re.compile(r"(T00:00(:00)?| \d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)\Z")
_NUMERIC = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})\Z", re.ASCII)
_CENTURY = 70  # two digits from 70 on are of the 20th century


def day_of(text: str, field: str, order: str = "") -> date:
    """Return a calendar day: 2026-11-01, with or without a time, or 1.11.2026.

    ``order``: that of 01/11/2026 in this file (dmy, mdy). Without it such a day is refused unless
    one of its numbers cannot be a month.
    """
    bare = _TIME.sub("", text)
    numeric = _NUMERIC.match(bare)
    try:
        return _numeric_day(numeric, text, field, order) if numeric else date.fromisoformat(bare)
    except ValueError as error:
        raise InvalidInput(f"{text[:30]!r} is not a day.", field=field, hint=DAY_HINT) from error


def _numeric_day(parts: re.Match[str], text: str, field: str, order: str) -> date:
    first, second, year = int(parts[1]), int(parts[3]), int(parts[4])
    if len(parts[4]) == 2:
        year += 1900 if year >= _CENTURY else 2000
    if not order and is_year_first(parts):
        raise InvalidInput(f"{text[:30]!r} can be read two ways.", field=field, hint=_ORDER)
    if parts[2] == "." or second == first or (first > 12 >= second and order != MONTH_FIRST):
        return date(year, second, first)
    if second > 12 >= first and order != DAY_FIRST:
        return date(year, first, second)
    if not order:
        raise InvalidInput(f"{text[:30]!r} can be read two ways.", field=field, hint=_ORDER)
    return date(year, second, first) if order == DAY_FIRST else date(year, first, second)
