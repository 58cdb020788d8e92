"""Time-of-use tariffs: a price for each hour of a week, in a time zone. Pure.

A UTC hour has the price of the local hour in which it begins. So a repeated local hour has its
price twice, and a skipped one never.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_FLOOR, Decimal
from zoneinfo import ZoneInfo

from apps.core.errors import InvalidInput

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_NUMBERS = {day.lower(): number for number, day in enumerate(DAYS)}
HOURS_PER_DAY, HOURS_PER_WEEK = 24, 168
MAX_PRICE = 1_000_000  # per kWh
MAX_LINES = 60
OTHER = "other"
EXAMPLE = "Mon-Fri 07-20 0.34\nother 0.22"
_LINE = re.compile(
    r"(?P<days>[A-Za-z,\- ]+?) +(?P<start>\d{1,2}) *- *(?P<end>\d{1,2}) +(?P<price>\S+)", re.ASCII
)
_OTHER_LINE = re.compile(rf"{OTHER} +(?P<price>\S+)", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d{1,12}(\.\d{1,12})?", re.ASCII)


@dataclass(frozen=True)
class Tariff:
    """``week``: the price of each local hour from Monday 00:00 on, in millionths per kWh."""

    week: tuple[int, ...]
    text: str

    def price_at(self, hour: int, zone: ZoneInfo) -> int:
        """Return the price of a UTC hour."""
        local = datetime.fromtimestamp(hour * 3600, tz=zone)
        return self.week[local.weekday() * HOURS_PER_DAY + local.hour]


class BadTariff(InvalidInput):
    """Each wrong line of a tariff, with its number."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__(" ".join(errors), field="periods", hint="")
        self.errors = tuple(errors)


def price_of(text: str, scale: int = 1) -> int:
    """Return a price of ``scale`` kWh in millionths per kWh, rounded half up. Raises ValueError."""
    plain = text.strip()
    if not _NUMBER.fullmatch(plain):
        raise ValueError(f"{plain[:20]!r} is not a number with a decimal point, such as 0.31.")
    value = Decimal(plain) * 1_000_000 / scale
    rounded = int((value + Decimal("0.5")).to_integral_value(ROUND_FLOOR))
    if abs(rounded) > MAX_PRICE * 1_000_000:
        raise ValueError(f"{plain[:20]} is not a possible price of one kWh.")
    return rounded


def range_text(low: int | None, high: int | None) -> str:
    """Return prices in millionths as text: '0.22 to 0.34', one number if they are equal."""
    texts = [f"{(Decimal(value or 0) / 1_000_000).normalize():f}" for value in (low, high)]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"


def parse_tariff(text: str) -> Tariff:
    """Return a tariff from its periods, one a line: days, local hours, price. The line 'other'
    has the price of all other hours. Raises BadTariff with each wrong line.
    """
    week: list[int | None] = [None] * HOURS_PER_WEEK
    lines = [line.strip() for line in text.strip().splitlines()]
    other: int | None = None
    errors: list[str] = []
    if len(lines) > MAX_LINES:
        raise BadTariff([f"A tariff has at most {MAX_LINES} lines."])
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            if match := _OTHER_LINE.fullmatch(line):
                if other is not None:
                    raise ValueError(f"“{OTHER}” is there twice.")
                other = _positive(match["price"])
            else:
                _enter(week, line)
        except ValueError as error:
            errors.append(f"Line {number}: {error}")
    missing = [index for index, price in enumerate(week) if price is None]
    if not errors and missing and other is None:
        day, hour = divmod(missing[0], HOURS_PER_DAY)
        errors.append(
            f"{len(missing)} hours of the week have no price, the first on {DAYS[day]} at "
            f"{hour:02}:00. Add a line such as “{OTHER} 0.22”."
        )
    if errors:
        raise BadTariff(errors)
    rest = 0 if other is None else other  # without “other”, no hour is left
    prices = tuple(rest if price is None else price for price in week)
    return Tariff(prices, "\n".join(line for line in lines if line))


def _positive(text: str) -> int:
    price = price_of(text.replace(",", "."))
    if price < 0:
        raise ValueError("The price is below zero.")
    return price


def _enter(week: list[int | None], line: str) -> None:
    """Enter the period of a line in the week. Raises ValueError."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(
            f"{line[:40]!r} is not a period. Write days, hours and price, such as "
            "Mon-Fri 07-20 0.34."
        )
    start, end = int(match["start"]), int(match["end"])
    if not 0 <= start < end <= HOURS_PER_DAY:
        raise ValueError(
            "The hours are not from 0 to 24 in order. Write a period over midnight as two lines."
        )
    price = _positive(match["price"])
    indexes = [
        day * HOURS_PER_DAY + hour for day in _days(match["days"]) for hour in range(start, end)
    ]
    taken = [index for index in indexes if week[index] is not None]
    if taken:
        day, hour = divmod(taken[0], HOURS_PER_DAY)
        raise ValueError(f"{DAYS[day]} {hour:02}:00 has a price of an earlier line.")
    for index in indexes:
        week[index] = price


def _days(text: str) -> Iterator[int]:
    found: set[int] = set()
    for part in text.replace(" ", "").lower().split(","):
        names = part.split("-")
        if len(names) > 2 or not set(names) <= _NUMBERS.keys():
            raise ValueError(
                f"{text.strip()[:30]!r} are not days. Write Mon, Tue, Wed, Thu, Fri, Sat, Sun, "
                "Mon-Fri or Sat,Sun."
            )
        first, last = _NUMBERS[names[0]], _NUMBERS[names[-1]]
        if first > last:
            raise ValueError(f"{part[:20]!r}: the first day is after the last one.")
        found.update(range(first, last + 1))
    yield from sorted(found)


def hours_of(
    tariff: Tariff, zone: ZoneInfo, from_hour: int, to_hour: int
) -> Iterator[tuple[int, int]]:
    """Yield (UTC hour, price) of ``[from_hour, to_hour)``."""
    for hour in range(from_hour, to_hour):
        yield hour, tariff.price_at(hour, zone)
