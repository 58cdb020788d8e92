"""Order of dates and decimal sign of a file, decided by all of its cells. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

DAY_FIRST, MONTH_FIRST = "dmy", "mdy"
DATE_ORDERS = (DAY_FIRST, MONTH_FIRST)
DECIMAL_SIGNS = (",", ".")
_NUMERIC_DAY = re.compile(r"(\d{1,2})([/-])(\d{1,2})[/-](\d{4}|\d{2})(?!\d)")
_TWO_WAYS = re.compile(r"\d{1,3}[.,]\d{3}")


@dataclass(frozen=True)
class Notation:
    """How a file writes dates and numbers. '' where no cell needs it.

    ``date_example``, ``number_example``: a cell that can be read two ways, if nothing in the file
    decides; '' otherwise.
    """

    date_order: str = ""
    decimal: str = ""
    date_example: str = ""
    number_example: str = ""

    @property
    def is_clear(self) -> bool:
        return not (self.date_example or self.number_example)


def notation_of(dates: Iterable[str], numbers: Iterable[str]) -> Notation:
    """Return the notation of a file by the cells of its date and number columns."""
    order, date_example = _date_order(dates)
    decimal, number_example = _decimal_sign(numbers)
    return Notation(order, decimal, date_example, number_example)


def is_year_first(parts: re.Match[str]) -> bool:
    """Return whether a day can begin with its year: 23-04-13. ``parts``: number, sign, number,
    number.
    """
    return parts[2] == "-" and len(parts[4]) == 2 and int(parts[1]) > 12 and int(parts[4]) <= 31


def _date_order(texts: Iterable[str]) -> tuple[str, str]:
    orders: set[str] = set()
    example = ""
    for text in texts:
        match = _NUMERIC_DAY.match(text)
        if match is None:
            continue
        first, second = int(match[1]), int(match[3])
        if is_year_first(match):
            example = example or text[:30]
        elif first > 12 >= second:
            orders.add(DAY_FIRST)
        elif second > 12 >= first:
            orders.add(MONTH_FIRST)
        elif first != second:
            example = example or text[:30]
    if len(orders) == 1:
        return orders.pop(), ""
    return "", example


def _decimal_sign(texts: Iterable[str]) -> tuple[str, str]:
    signs: set[str] = set()
    example = ""
    for text in texts:
        bare = re.sub(r"[^\d.,]", "", text)
        if _TWO_WAYS.fullmatch(bare):
            example = example or text[:30]
            continue
        found = re.findall("[.,]", bare)
        if not found:
            continue
        last = found[-1]
        if found.count(last) == 1:  # 1.234,56 or 3,84
            signs.add(last)
        else:  # 1.234.567: it separates thousands
            signs.add("," if last == "." else ".")
    if len(signs) == 1:
        return signs.pop(), ""
    return "", example
