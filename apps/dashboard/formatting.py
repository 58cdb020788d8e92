"""Text of numbers, units and uncertainties on pages. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from math import isqrt

from apps.carbon.figures.figure_query import ENERGY_METRICS, METRICS
from apps.carbon.meter_errors import METER_ERROR_PPM
from apps.core.units import MJ_PER_KWH, PPM, UG_PER_G, UG_PER_KG

THIN = "\u202f"  # narrow no-break space: between thousands, and before a unit
MINUS = "−"


@dataclass(frozen=True)
class Unit:
    """A unit as printed, and how many of the stored integer (mJ or µg) make one."""

    name: str
    divisor: int


ENERGY = (
    Unit("mWh", MJ_PER_KWH // 1_000_000),
    Unit("Wh", MJ_PER_KWH // 1000),
    Unit("kWh", MJ_PER_KWH),
    Unit("MWh", MJ_PER_KWH * 1000),
)
KG = Unit("kg CO₂e", UG_PER_KG)
EMISSION = (
    Unit("mg CO₂e", UG_PER_G // 1000),
    Unit("g CO₂e", UG_PER_G),
    KG,
    Unit("t CO₂e", UG_PER_KG * 1000),
)
STORED = {metric: "mJ" if metric in ENERGY_METRICS else "µg CO₂e" for metric in METRICS}


def unit_for(metric: str, values: Iterable[int], *, column: bool = False) -> Unit:
    """Return a unit that suits the largest of ``values``. For a whole ``column``: a smaller one,
    which suits small rows too. kWh or kg for no value.
    """
    units = ENERGY if metric in ENERGY_METRICS else EMISSION
    largest = max((abs(value) for value in values), default=units[2].divisor * 10)
    step = 10 if column else 1
    fitting = [unit for unit in units[1:] if largest >= unit.divisor * step]
    return fitting[-1] if fitting else units[0]


def grouped(number: int) -> str:
    """Return an integer with a thin space between thousands: 4 212 000."""
    return f"{MINUS if number < 0 else ''}{abs(number):,}".replace(",", THIN)


def significant(value: Decimal) -> str:
    """Return three significant digits, whole numbers from 100 on, and '<0.001' for smaller
    values except 0.
    """
    size = abs(value)
    if size == 0:
        return "0"
    sign = MINUS if value < 0 else ""
    if size < Decimal("0.001"):
        return f"{sign}<{THIN}0.001" if not sign else f">{THIN}{MINUS}0.001"
    places = max(0, 2 - size.adjusted())
    rounded = size.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    if places and rounded.adjusted() > size.adjusted():  # 9.999 → 10.0, not 10.00
        rounded = rounded.quantize(Decimal(1).scaleb(-max(0, places - 1)))
    if rounded >= 100:
        return sign + grouped(int(rounded.quantize(Decimal(1), rounding=ROUND_HALF_UP)))
    return f"{sign}{rounded}"


def format_value(value: int, unit: Unit) -> str:
    """Return a stored integer in ``unit``, three significant digits."""
    return significant(Decimal(value) / unit.divisor)


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


def exact(value: int, metric: str) -> str:
    """Return the stored integer with its unit, for tooltips."""
    return f"{grouped(value)} {STORED[metric]}"


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
