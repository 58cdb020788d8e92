"""Text of memory sizes and of counts. Memory is in GiB (1024³ bytes), as drivers count it. Pure."""

from collections.abc import Iterable
from decimal import Decimal

from apps.core.units import THIN, Unit, format_value, grouped, significant

BINARY = tuple(
    Unit(name, 1024**power) for power, name in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB"))
)
_COUNTS = ((10**18, "E"), (10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def memory_unit(values: Iterable[int]) -> Unit:
    """Return the unit that suits the largest of ``values``."""
    largest = max(values, default=0)
    return [unit for unit in BINARY if largest >= unit.divisor or unit.divisor == 1][-1]


def memory_number(count: int, unit: Unit) -> str:
    """Return bytes in ``unit``."""
    return grouped(count) if unit.divisor == 1 else format_value(count, unit)


def memory_text(count: int) -> str:
    """Return bytes with a suitable unit, three significant digits: 3.03 GiB."""
    unit = memory_unit([count])
    return f"{memory_number(count, unit)} {unit.name}"


def memory_size(count: int) -> str:
    """Return the size of a card: whole GiB without decimals."""
    whole, rest = divmod(count, 1024**3)
    return memory_text(count) if rest or not whole else f"{whole} GiB"


def count_text(count: int) -> str:
    """Return a count with a decimal prefix, three significant digits: 25.6 M."""
    for divisor, prefix in _COUNTS:
        if count >= divisor:
            return f"{significant(Decimal(count) / divisor)}{THIN}{prefix}"
    return grouped(count)
