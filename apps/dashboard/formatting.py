"""Text of numbers, units and uncertainties on pages. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from math import isqrt

from apps.carbon.figures.figure_query import COST, ENERGY_METRICS
from apps.carbon.meter_errors import METER_ERROR_PPM
from apps.core.units import (
    ENERGY,
    MASS,
    MINUS,
    PPM,
    THIN,
    UG_PER_G,
    Unit,
    amount_text,
    format_value,
    grouped,
    money_unit,
    significant,
    suitable_unit,
)

__all__ = ["ENERGY", "THIN", "Unit", "format_value", "grouped", "significant"]  # for pages

EMISSION = tuple(replace(unit, name=f"{unit.name} CO₂e") for unit in MASS)
KG = EMISSION[1]


def stored_unit(metric: str, currency: str = "") -> str:
    """Return the unit of the stored integers of a metric."""
    if metric == COST:
        return f"millionths of {currency}"
    return "mJ" if metric in ENERGY_METRICS else "µg CO₂e"


def units_of(metric: str) -> tuple[Unit, ...]:
    """Return the units of a metric, smallest first."""
    return ENERGY if metric in ENERGY_METRICS else EMISSION


def unit_for(
    metric: str, values: Iterable[int], *, column: bool = False, currency: str = ""
) -> Unit:
    """Return a unit that suits the largest of ``values``. For a whole ``column``: a smaller one,
    which suits small rows too. kWh or kg for no value. A cost is in its ``currency``.
    """
    if metric == COST:
        return money_unit(currency)
    return suitable_unit(units_of(metric), values, column=column)


def figure_text(metric: str, value: int) -> str:
    """Return a figure as text in the unit that suits it: '4.21 kWh', '1.39 kg CO₂e'."""
    return amount_text(value, units_of(metric))


BYTES = tuple(
    Unit(name, 1000**power) for power, name in enumerate(("B", "kB", "MB", "GB", "TB", "PB", "EB"))
)


def size_unit(values: Iterable[int]) -> Unit:
    """Return the decimal unit of bytes that suits the largest of ``values``."""
    largest = max(values, default=0)
    return [unit for unit in BYTES if largest >= unit.divisor or unit.divisor == 1][-1]


def size(number: int) -> str:
    """Return a number of bytes in decimal units, three significant digits: 91.2 MB."""
    return f"{format_size(number, size_unit([number]))} {size_unit([number]).name}"


def format_size(number: int, unit: Unit) -> str:
    """Return a number of bytes in ``unit``: single bytes have no decimals."""
    return grouped(number) if unit.divisor == 1 else format_value(number, unit)


def exact(value: int, metric: str, currency: str = "") -> str:
    """Return the stored integer with its unit, for tooltips."""
    return f"{grouped(value)} {stored_unit(metric, currency)}"


def share(part: float) -> str:
    """Return a share of one in whole percent, rounded down, so that only the whole is 100 %."""
    return f"{int(part * 100 + 1e-9)} %"


def percent(part: int, whole: int) -> str:
    """Return ``part`` of ``whole`` in percent, one decimal below 10 and above 90 (a bit less
    than all is never 100); '–' of nothing.
    """
    if whole == 0:
        return "–"
    value = Decimal(part) * 100 / whole
    places = Decimal("0.1") if abs(value) < 10 or value > 90 else Decimal(1)
    rounded = value.quantize(places, rounding=ROUND_HALF_UP)
    if part and rounded == 0:
        return f"<{THIN}0.1"
    if part < whole and rounded >= 100:
        return f">{THIN}99.9"
    text = str(rounded.normalize()) if rounded in (0, 100) else str(rounded)
    return "100" if rounded == 100 else text.replace("-", MINUS)


def duration(us: int) -> str:
    """Return a length of time in its two largest units: '3 h 12 min'; seconds only below ten
    minutes.
    """
    seconds = max(0, us) // 1_000_000
    seconds -= seconds % 60 if seconds >= 600 else 0
    parts = [
        (seconds // 86_400, "d"),
        (seconds // 3600 % 24, "h"),
        (seconds // 60 % 60, "min"),
        (seconds % 60, "s"),
    ]
    first = next((i for i, (number, _) in enumerate(parts) if number), 3)
    terms = [f"{number}{THIN}{name}" for number, name in parts[first : first + 2] if number]
    return " ".join(terms) or f"0{THIN}s"


def factor_value(ug_per_kwh: int | None) -> str:
    """Return the value of a factor: '330 g/kWh', or 'by hour' if it has one for each hour."""
    return "by hour" if ug_per_kwh is None else f"{grams_per_kwh(ug_per_kwh)} g/kWh"


def grams_per_kwh(ug_per_kwh: int) -> str:
    """Return a factor in g per kWh as loaded: whole numbers from 100 on, else three digits."""
    return significant(Decimal(ug_per_kwh) / UG_PER_G)


def pue(pue_ppm: int) -> str:
    """Return a PUE with three decimals."""
    return f"{Decimal(pue_ppm) / PPM:.3f}"


@dataclass(frozen=True)
class Range:
    """P5 and P95 of a figure, in its stored unit."""

    low: int
    high: int


@dataclass(frozen=True)
class Part:
    """A part of a figure from one kind of meter (key of METER_ERROR_PPM) and one factor edition.

    ``factor_low_ppm`` and ``factor_high_ppm`` are the factor's low and high relative to it.
    ``meter_ppm``: the error of this energy, None for the typical one of its meter.
    """

    value: int
    meter: str
    factor: int | None = None
    factor_low_ppm: int = 0
    factor_high_ppm: int = 0
    meter_ppm: tuple[int, int] | None = None


def uncertainty(parts: Iterable[Part]) -> Range:
    """Return the range of the sum of ``parts``, to first order.

    Errors of one source (a kind of meter, a factor edition) are fully correlated over time and add;
    different sources combine in quadrature. Typical errors are read as P5 and P95.
    """
    listed = list(parts)
    total = sum(part.value for part in listed)
    down: dict[tuple[str, object], int] = {}
    up: dict[tuple[str, object], int] = {}
    for part in listed:
        low, high = part.meter_ppm or METER_ERROR_PPM[part.meter]
        size = abs(part.value)
        sources: list[tuple[tuple[str, object], int, int]] = [(("meter", part.meter), low, high)]
        if part.factor is not None:
            sources.append((("factor", part.factor), part.factor_low_ppm, part.factor_high_ppm))
        for source, low_ppm, high_ppm in sources:
            down[source] = down.get(source, 0) + size * low_ppm // PPM
            up[source] = up.get(source, 0) + size * high_ppm // PPM
    return Range(
        total - isqrt(sum(value * value for value in down.values())),
        total + isqrt(sum(value * value for value in up.values())),
    )


def shares(parts: dict[str, int]) -> dict[str, Decimal]:
    """Return each part in percent of the sum with one decimal, for the widths of a bar (0 of
    nothing).
    """
    whole = sum(parts.values())
    return {
        name: (Decimal(value) * 100 / whole).quantize(Decimal("0.1")) if whole else Decimal(0)
        for name, value in parts.items()
    }
