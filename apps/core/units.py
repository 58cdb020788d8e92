"""Units as integers: millijoules, micrograms, parts per million, microseconds, whole UTC hours.
Pure.

- Energy: millijoules (mJ).
- Emissions: micrograms CO2e (µg).
- Emission factors: µg per kWh.
- PUE: parts per million (1.0 = 1 000 000).
- Time: microseconds since 1970 UTC.
- Hour: number of whole hours since 1970 UTC.
"""

from fractions import Fraction

MJ_PER_KWH = 3_600_000_000
PPM = 1_000_000
UG_PER_G = 1_000_000
UG_PER_KG = 1_000_000_000
US_PER_S = 1_000_000
US_PER_HOUR = 3_600 * US_PER_S
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
