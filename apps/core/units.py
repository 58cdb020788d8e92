"""Units as integers: millijoules, micrograms, parts per million, microseconds, whole UTC hours.
Amounts as text for people. Pure.

- Energy: millijoules (mJ).
- Emissions: micrograms CO2e (µg).
- Emission factors: µg per kWh.
- PUE: parts per million (1.0 = 1 000 000).
- Time: microseconds since 1970 UTC.
- Hour: number of whole hours since 1970 UTC.

Text is in J, Wh, kWh, MWh, and in g, kg, t: three significant digits, whole numbers from 100 on. An
amount other than 0 that is below the smallest step of its unit is "< 0.1 Wh", never 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

MJ_PER_KWH = 3_600_000_000
PPM = 1_000_000
UG_PER_G = 1_000_000
UG_PER_KG = 1_000_000_000
US_PER_S = 1_000_000
US_PER_HOUR = 3_600 * US_PER_S
HOURS_PER_YEAR = 8_760
INT64_MAX = 2**63 - 1
END_HOUR = 3_000_000  # represents an open end in derived tables: the year 2312

_EMISSION_DIVISOR = MJ_PER_KWH * PPM  # 3.6e15
_EMISSION_HALF = _EMISSION_DIVISOR // 2  # 1.8e15


def emission_ug(energy_mj: int, pue_ppm: int, factor_ug_per_kwh: int) -> int:
    """Return µg CO2e of ``energy_mj`` of IT energy: mJ × PUE × factor, rounded half up once.

    The only place where energy becomes carbon. SQLite uses this function as ``emission_ug``,
    PostgreSQL uses ``div()`` with equal results. Negative energy (an overhead finding) is floored
    in the same way.
    """
    return (energy_mj * pue_ppm * factor_ug_per_kwh + _EMISSION_HALF) // _EMISSION_DIVISOR


def facility_mj(energy_mj: int, pue_ppm: int) -> int:
    """Return the energy that the facility used for ``energy_mj`` of IT energy, in mJ, rounded half
    up.
    """
    return (energy_mj * pue_ppm + PPM // 2) // PPM


def it_part(amount: int, pue_ppm: int) -> int:
    """Return the part of an amount of facility energy, such as its cost, that belongs to the IT
    energy: amount ÷ PUE, rounded half up. The rest belongs to cooling and distribution.
    """
    return (2 * amount * PPM + pue_ppm) // (2 * pue_ppm)


def kwh_to_mj(kwh: Fraction) -> int:
    """Return ``kwh`` in mJ, rounded half up."""
    return int((kwh * MJ_PER_KWH * 2 + 1) // 2)


def hour_of(time_us: int) -> int:
    """Return the whole UTC hour (hours since 1970) that contains ``time_us``."""
    return time_us // US_PER_HOUR


def prorated(amount: int, from_hour: int, to_hour: int, start: int, end: int) -> int:
    """Return the part of ``amount``, spread evenly over ``[from_hour, to_hour)``, that falls in
    ``[start, end)``.

    ``amount × end div length`` minus the same of its start, floored. Parts of adjacent periods sum
    to the amount exactly.
    """
    length = to_hour - from_hour
    low, high = (min(max(hour - from_hour, 0), length) for hour in (start, end))
    return amount * high // length - amount * low // length if high > low else 0


def largest_remainder(total: int, weights: list[int]) -> list[int]:
    """Split ``total`` ≥ 0 into integers in proportion to ``weights`` ≥ 0 that sum to ``total``
    exactly.

    Ties go to the earlier weight, so order the weights by their key. If all weights are zero, the
    first gets everything.
    """
    weight_sum = sum(weights)
    if weight_sum == 0:
        return [total if i == 0 else 0 for i in range(len(weights))]
    parts = [total * weight // weight_sum for weight in weights]
    remainder = total - sum(parts)
    order = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % weight_sum), i))
    for i in order[:remainder]:
        parts[i] += 1
    return parts


THIN = "\u202f"  # narrow no-break space: between thousands, and before a unit
MINUS = "−"
_THOUSANDTH, _HUNDREDTH, _TENTH = Decimal("0.001"), Decimal("0.01"), Decimal("0.1")


@dataclass(frozen=True)
class Unit:
    """A unit as printed, and how many of the stored integer (mJ, µg, millionths of a currency) make
    one. ``least``: the smallest number shown in it. ``is_money``: two decimals below 100.
    """

    name: str
    divisor: int
    least: Decimal = _THOUSANDTH
    is_money: bool = False


JOULE = Unit("J", 1000, _TENTH)
ENERGY = (
    Unit("Wh", MJ_PER_KWH // 1000, _TENTH),
    Unit("kWh", MJ_PER_KWH),
    Unit("MWh", MJ_PER_KWH * 1000),
)
MASS = (Unit("g", UG_PER_G, _TENTH), Unit("kg", UG_PER_KG), Unit("t", UG_PER_KG * 1000))


def suitable_unit(units: Sequence[Unit], values: Iterable[int], *, column: bool = False) -> Unit:
    """Return the unit that suits the largest of ``values``: the largest one in which it is 1.00 or
    more. For a whole ``column``: 10 or more, which suits small rows too. The second for no value.
    """
    largest = max((abs(value) for value in values), default=None)
    if largest is None:
        return units[1]
    fitting = [
        unit
        for unit in units[1:]
        if (largest >= unit.divisor * 10 if column else largest * 2000 >= unit.divisor * 1999)
    ]
    return fitting[-1] if fitting else units[0]


def grouped(number: int) -> str:
    """Return an integer with a thin space between thousands: 4 212 000."""
    return f"{MINUS if number < 0 else ''}{abs(number):,}".replace(",", THIN)


def significant(value: Decimal, least: Decimal = _THOUSANDTH) -> str:
    """Return three significant digits, whole numbers from 100 on, and '< 0.001' for values below
    ``least`` except 0.
    """
    size = abs(value)
    if size == 0:
        return "0"
    sign = MINUS if value < 0 else ""
    if size < least:
        return f"{(sign and '>') or '<'}{THIN}{sign}{least}"
    places = max(0, 2 - size.adjusted())
    rounded = size.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    if places and rounded.adjusted() > size.adjusted():  # 9.999 → 10.0, not 10.00
        rounded = rounded.quantize(Decimal(1).scaleb(-max(0, places - 1)))
    if rounded >= 100:
        return sign + grouped(int(rounded.quantize(Decimal(1), rounding=ROUND_HALF_UP)))
    return f"{sign}{rounded}"


def format_value(value: int, unit: Unit) -> str:
    """Return a stored integer in ``unit``, three significant digits; money to the hundredth."""
    number = Decimal(value) / unit.divisor
    if unit.is_money and unit.least <= abs(number):
        rounded = number.quantize(_HUNDREDTH, rounding=ROUND_HALF_UP)
        if abs(rounded) < 100:
            return str(rounded).replace("-", MINUS)
    return significant(number, unit.least)


def money_unit(currency: str) -> Unit:
    """Return the unit of costs, which are stored in millionths of a currency."""
    return Unit(currency, 1_000_000, _HUNDREDTH, is_money=True)


def amount_text(value: int, units: Sequence[Unit]) -> str:
    """Return a stored integer in the unit that suits it: '4.21 kWh'."""
    unit = suitable_unit(units, [value])
    return f"{format_value(value, unit)} {unit.name}"


def window_energy_text(energy_mj: int) -> str:
    """Return the energy of single windows: in J below 0.1 Wh, where each joule is counted."""
    small = 0 < abs(energy_mj) < ENERGY[0].least * ENERGY[0].divisor
    return amount_text(energy_mj, (JOULE,) * 2 if small else ENERGY)


def plain_amount(value: int, units: Sequence[Unit]) -> str:
    """Return the same in ASCII, for terminals."""
    return amount_text(value, units).replace(THIN, " ").replace(MINUS, "-")
