"""Energy of an activity with its range, and the values that a formula reads. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from apps.activity.formulas.labels import LABELS
from apps.carbon.meter_errors import DECLARED_ENERGY_PPM, DECLARED_POWER_PPM
from apps.core.errors import InvalidInput
from apps.core.units import PPM, kwh_to_mj

Values = Mapping[str, Fraction | str]


@dataclass(frozen=True)
class Estimate:
    """Energy in mJ, P5 to P95. ``equation``: the calculation with its numbers. ``source``: of its
    factors.
    """

    energy_mj: int
    low_mj: int
    high_mj: int
    equation: str
    source: str


def number(values: Values, name: str) -> Fraction:
    """Return a number, 0 without one."""
    value = values.get(name, Fraction(0))
    assert isinstance(value, Fraction)
    return value


def text(value: Fraction) -> str:
    """Return a number for an equation: exact up to six decimals."""
    return f"{float(value):.6f}".rstrip("0").rstrip(".")


def estimate(
    kwh: Fraction, low_kwh: Fraction, high_kwh: Fraction, equation: str, source: str
) -> Estimate:
    """Return an estimate; each amount is rounded half up once."""
    return Estimate(kwh_to_mj(kwh), kwh_to_mj(low_kwh), kwh_to_mj(high_kwh), equation, source)


def with_error(kwh: Fraction, error_ppm: int, equation: str, source: str) -> Estimate:
    """Return an estimate with an equal relative error below and above it."""
    error = kwh * error_ppm / PPM
    return estimate(kwh, kwh - error, kwh + error, equation, source)


def stated_energy(kwh: Fraction) -> Estimate:
    """Return the estimate of an energy that a meter or an operator states."""
    return with_error(
        kwh, DECLARED_ENERGY_PPM, f"{text(kwh)} kWh as stated", "Stated by the lab; range ±10 %"
    )


def stated_power(watt_hours: Fraction, equation: str) -> Estimate:
    """Return the estimate of stated or rated power × time."""
    return with_error(
        watt_hours / 1000, DECLARED_POWER_PPM, equation, "Power stated by the lab; range ±40 %"
    )


def missing(field: str, message: str, hint: str) -> InvalidInput:
    """Return the error of inputs from which no energy follows."""
    return InvalidInput(message, field=field, hint=hint)


def refuse_both(values: Values, first: str, *others: str) -> None:
    """Raise InvalidInput if ``first`` and one of ``others`` are stated."""
    both = [name for name in others if name in values]
    if first in values and both:
        raise missing(
            first,
            f"{LABELS[first]} and {LABELS[both[0]]} are both set.",
            "Enter the energy, or the power and time from which it follows.",
        )
