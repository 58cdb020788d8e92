"""Numbers at equal distances, exact to the last digit. Pure."""

from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any

from apps.core.errors import InvalidInput
from apps.planner.sweeps.sweep import FIELD, check_runs

_LOWEST, _HIGHEST, _MAX_CHARS = Decimal("1e-15"), Decimal("1e15"), 32


def parse_number(name: str, key: str, value: Any) -> Decimal:
    """Return a bound or step of a parameter. Raises InvalidInput for anything but a number."""
    number = Decimal("NaN")
    if isinstance(value, str | float) or (isinstance(value, int) and abs(value) < _HIGHEST):
        text = str(value).strip()
        with suppress(ArithmeticError):
            number = Decimal(text) if len(text) <= _MAX_CHARS else number
    is_number = number.is_finite() and (number == 0 or _LOWEST <= abs(number) < _HIGHEST)
    if isinstance(value, bool) or not is_number:
        raise InvalidInput(
            f"Parameter {name!r}: {key} is not a number.",
            field=FIELD,
            hint="Give 0, or a number between 10⁻¹⁵ and 10¹⁵.",
        )
    return number


def numbers_between(start: Decimal, stop: Decimal, step: Decimal) -> list[Decimal]:
    """Return ``start``, ``start + step``, … before ``stop``. ``step`` is not 0."""
    first, distance = Fraction(start), Fraction(step)
    count = max(0, ceil((Fraction(stop) - first) / distance))
    check_runs(count)
    numbers = (first + index * distance for index in range(count))
    return [Decimal(number.numerator) / number.denominator for number in numbers]
