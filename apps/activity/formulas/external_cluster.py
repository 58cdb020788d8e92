"""Energy of core-hours and GPU-hours on a cluster of somebody else. Pure."""

from apps.activity.formulas.estimate import (
    Estimate,
    Values,
    missing,
    number,
    refuse_both,
    stated_energy,
    stated_power,
    text,
)
from apps.activity.formulas.labels import LABELS

_PAIRS = (("core_hours", "watts_per_core"), ("gpu_hours", "watts_per_gpu"))


def compute(values: Values) -> Estimate:
    """Return the energy that the centre states, or hours × power that it states."""
    refuse_both(values, "kwh", "watts_per_core", "watts_per_gpu")
    if "kwh" in values:
        return stated_energy(number(values, "kwh"))
    for hours, watts in _PAIRS:
        if (hours in values) != (watts in values):
            field = watts if hours in values else hours
            raise missing(
                field,
                f"{LABELS[field]} is missing.",
                f"Enter both {LABELS[hours]} and {LABELS[watts]}.",
            )
    stated = [pair for pair in _PAIRS if pair[0] in values]
    if not stated:
        raise missing(
            "kwh", "No energy.", "Enter the kWh of the centre, or hours and watts per core or GPU."
        )
    if not any(number(values, hours) for hours, _ in stated):
        hours = stated[0][0]
        raise missing(hours, f"{LABELS[hours]} is 0.", "If nothing was used, record nothing.")
    watt_hours = sum((number(values, h) * number(values, w) for h, w in stated), number({}, ""))
    equation = " + ".join(
        f"{text(number(values, h))} {h.replace('_', '-').replace('gpu', 'GPU')} × "
        f"{text(number(values, w))} W"
        for h, w in stated
    )
    return stated_power(watt_hours, equation)
