"""Parse cells of a spreadsheet: days, money, kilograms, years. Pure. Ambiguous text is refused."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from zoneinfo import ZoneInfo

from apps.core.csv_cells import is_guarded, unguard
from apps.core.errors import InvalidInput
from apps.core.spreadsheets.days import DAY_HINT, day_of
from apps.core.units import HOURS_PER_YEAR, UG_PER_KG, US_PER_HOUR

MILLION = 1_000_000


def unescaped(text: str) -> str:
    """Return a cell without the apostrophes that our export adds. Without one at its start, spaces
    around it are removed.
    """
    original = unguard(text)
    return original if is_guarded(text) else original.strip()


def moment_us(text: str, field: str, zone: ZoneInfo, order: str = "") -> int:
    """Return the start (µs) of a whole UTC hour.

    It is the hour of a UTC time, or the first whole hour of a day in ``zone``.
    """
    try:
        if "T" in text and text.endswith("Z"):
            moment = datetime.fromisoformat(f"{text[:-1]}+00:00")
            return _checked(int(moment.timestamp()) // 3600, text, field)
        day = day_of(text, field, order)
        begin = datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
        return _checked(-(-int(begin.timestamp()) // 3600), text, field)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{text[:30]!r} is not a day.", field=field, hint=DAY_HINT) from error


def _checked(hour: int, text: str, field: str) -> int:
    if hour < 0:
        raise InvalidInput(f"{text[:30]!r} is before 1970.", field=field, hint=DAY_HINT)
    return hour * US_PER_HOUR


def _decimal(text: str, field: str, what: str, hint: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation as error:
        raise InvalidInput(f"{text[:30]!r} is not {what}.", field=field, hint=hint) from error
    if not value.is_finite() or not 0 <= value < 10**15:
        raise InvalidInput(f"{text[:30]!r} is not {what}.", field=field, hint=hint)
    return value


def price_of(text: str, field: str, *, strict: bool, decimal: str = "") -> int:
    """Return money in millionths.

    ``strict``: for our own columns. The dot is the decimal sign, other notations are refused.
    ``decimal``: the decimal sign of the file, for numbers that can be read two ways.
    """
    hint = "Write 1234.50."
    plain = text if strict else _money(text, field, decimal)
    return int(_decimal(plain, field, "a price", hint) * MILLION)


# One number, with a currency or "per item" around it, and the dash of whole amounts ("1.234,-").
_AMOUNT = re.compile(r"[^\d-]*(-?\d(?:[\d.,]|['’\s](?=\d))*?)(?:[.,][-–—]+)?(?:\s*[^\d\s-][^\d]*)?")
_MULTIPLE = re.compile(r"\d\s*(k|m|t|mio|mill?|tsd|mrd|bn)\b|%", re.IGNORECASE)


def _money(text: str, field: str, decimal: str = "") -> str:
    """Return an amount with a dot as decimal sign. Without ``decimal``, 1,500 and 1.500 are
    refused.
    """
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or _MULTIPLE.search(text):
        raise InvalidInput(f"{text[:30]!r} is not a price.", field=field, hint="Write 1234.50.")
    bare = re.sub(r"['’\s]", "", match[1])
    signs = re.findall("[.,]", bare)
    if len(signs) == 1 and re.fullmatch(r"\d{1,3}[.,]\d{3}", bare):
        if not decimal:
            raise InvalidInput(
                f"{text[:30]!r} can be read two ways.", field=field, hint="Write 1500.00 or 1.50."
            )
        return bare.replace(signs[0], "." if signs[0] == decimal else "")
    if not signs:
        return bare
    last = signs[-1]
    whole, _, rest = bare.rpartition(last)
    if signs.count(last) > 1:  # 1.234.567: all of them separate thousands
        whole, rest = bare, ""
    groups = re.split("[.,]", whole)[1:]
    if any(len(group) != 3 for group in groups):
        raise InvalidInput(f"{text[:30]!r} is not a price.", field=field, hint="Write 1234.50.")
    return f"{re.sub('[.,]', '', whole)}.{rest or 0}"


def currency_in(text: str) -> str:
    """Return the currency next to an amount ("USD 1,234.50"), '' if there is none."""
    match = re.search(r"\b([A-Z]{3})\b", text.replace("€", " EUR ").replace("£", " GBP "))
    return match[1] if match else ""


def ug_of(text: str, field: str) -> int:
    """Return kg of CO2e in µg, rounded half up."""
    kg = _decimal(text, field, "a weight", "Write kilograms of CO2e, as 163.8; or unknown.")
    return int((kg * UG_PER_KG * 2 + 1) // 2)


def life_hours(text: str, field: str) -> int:
    """Return years (of 8 760 h) in hours."""
    hours = round(
        _decimal(text, field, "a number of years", "Write years, as 4 or 4.5.") * HOURS_PER_YEAR
    )
    if not hours:
        raise InvalidInput(
            "The planned life is 0.", field=field, hint="Enter years above 0, such as 4 or 4.5."
        )
    return hours


def gigabytes_of(text: str, field: str) -> int:
    """Return TB in GB."""
    return round(_decimal(text, field, "a capacity", "Write terabytes, as 3.84.") * 1000)


_MASS = re.compile(r"([0-9][0-9.,' \u00a0]*?)[ \u00a0]?(kg|g|t)?", re.IGNORECASE)
_GRAMS = {"g": 1, "kg": 1000, "t": MILLION}


def mass_g_of(text: str, field: str, *, strict: bool, unit: str = "kg", decimal: str = "") -> int:
    """Return a mass in whole grams: a number in ``unit``, or with its unit ("12,5 kg").

    ``strict``: for our own columns, a number with a dot. ``decimal``: the decimal sign of the file.
    """
    hint = "Write kilograms above 0, as 12.5."
    match = None if strict else _MASS.fullmatch(text)
    if not strict and match is None:
        raise InvalidInput(f"{text[:30]!r} is not a mass.", field=field, hint=hint)
    number = _money(match[1], field, decimal) if match else text
    unit = (match[2] or unit).lower() if match else unit
    mass_g = int(_decimal(number, field, "a mass", hint) * _GRAMS[unit] + Decimal("0.5"))
    if not mass_g:
        raise InvalidInput("The mass is 0.", field=field, hint=hint)
    return mass_g


def capacity_of(text: str, field: str, unit: str) -> int:
    """Return a capacity in GB: with its unit ("3,84 TB"), or a number in ``unit`` ('' none)."""
    hint = "Write the number with its unit, as 3.84 TB or 960 GB."
    named = text if re.search(r"[a-z]", text, re.IGNORECASE) else f"{text} {unit}"
    capacity = capacity_in(named.replace("\u00a0", " "))
    if capacity is None or text.startswith("-"):
        raise InvalidInput(f"{text[:30]!r} is not a capacity.", field=field, hint=hint)
    return capacity


_CAPACITY = re.compile(r"(?<![\w.,])(\d{1,4}(?:[.,]\d{1,3})?)\s?(TB|GB|To|Go)\b", re.IGNORECASE)


def _gigabytes(number: str, unit: str) -> int:
    """Return a capacity in GB. A group of three digits is a fraction of TB (1.920 TB), but
    thousands of GB (1.920 GB): no disk has 1920 TB or 1.92 GB.
    """
    is_tb = unit.upper()[0] == "T"
    if not is_tb and re.fullmatch(r"\d{1,3}[.,]\d{3}", number):
        return int(re.sub("[.,]", "", number))
    return round(Decimal(number.replace(",", ".")) * (1000 if is_tb else 1))


def capacity_in(text: str) -> int | None:
    """Return the capacity in the name of a product ("Exos X16 16TB", "SSD 3,84TB"), GB.

    None for zero or several.
    """
    capacities = {_gigabytes(number, unit) for number, unit in _CAPACITY.findall(text)} - {0}
    return capacities.pop() if len(capacities) == 1 else None


def without_capacity(text: str) -> str:
    """Return the name of a product without its capacity ("Exos X16 16TB": "Exos X16")."""
    return re.sub(r"\s{2,}", " ", _CAPACITY.sub(" ", text)).strip(" ,;/-()")


_YES_NO = {
    **dict.fromkeys(("yes", "y", "true", "1", "ja", "j", "oui", "si", "sí"), True),
    **dict.fromkeys(("no", "n", "false", "0", "nein", "non"), False),
}


def yes_no(text: str, field: str) -> bool | None:
    """Return the boolean of a cell, None if it is empty."""
    if not text:
        return None
    if text.lower() not in _YES_NO:
        raise InvalidInput(
            f"{text[:30]!r} is neither yes nor no.",
            field=field,
            hint="Write yes, no, or leave it empty.",
        )
    return _YES_NO[text.lower()]


def months_after(begin: date, text: str, field: str) -> date:
    """Return the day ``text`` months ("36", "36 months") after ``begin``."""
    number = re.fullmatch(r"(\d{1,3})(\s*months?)?", text.strip().lower())
    if number is None:
        raise InvalidInput(
            f"{text[:30]!r} is not a number of months.", field=field, hint="Write 36."
        )
    total = begin.year * 12 + begin.month - 1 + int(number[1])
    year, month = divmod(total, 12)
    last = (date(year + month // 11, (month + 1) % 12 + 1, 1) - date(year, month + 1, 1)).days
    return date(year, month + 1, min(begin.day, last))


def no_months(text: str) -> bool:
    """Return whether the text is a warranty of 0 months."""
    return re.fullmatch(r"0?(\s*months?)?|-|none", text.strip().lower()) is not None


# "4x RTX 3090", "4 x …", "2x16GB", "2 Stück …"; no "7x24" or "4x4".
_TIMES = re.compile(
    r"\s*(\d{1,4})\s?"
    r"(?:[x×*](?:\s+(?=\S)|(?=[^\W\d])|(?=\d+(?:[.,]\d+)?\s?[TG][Bo]\b))"
    r"|(?:St(?:ü|ue)ck|Stk\.?|pcs\.?)\s+(?=\S))",
    re.IGNORECASE,
)
MOST_ITEMS = 1000


def times_in(text: str) -> tuple[int, str]:
    """Return the number of items before a name ("4x RTX 3090", "2 Stück …"), and the name."""
    match = _TIMES.match(text)
    if match is None or not 1 <= int(match[1]) <= MOST_ITEMS:
        return 1, text
    return int(match[1]), text[match.end() :]


def quantity_of(text: str) -> int:
    """Return the number of items of a line. Raises InvalidInput."""
    bare = re.sub(r"[.,]0+\Z", "", text.strip())
    hint = f"Write a whole number from 0 to {MOST_ITEMS}."
    is_unclear = re.search(r"[.,]000\Z", text.strip())  # one item, or a thousand
    if is_unclear or not re.fullmatch(r"[0-9]{1,6}", bare) or int(bare) > MOST_ITEMS:
        raise InvalidInput(f"{text[:30]!r} is not a quantity.", field="quantity", hint=hint)
    return int(bare)
