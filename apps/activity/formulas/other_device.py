"""Energy of devices without a collector: stated, or number × power × hours. Pure."""

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

DEVICES = (
    ("laptop", "Laptop"),
    ("desktop", "Desktop"),
    ("single_board", "Single-board computer"),
    ("neuromorphic", "Neuromorphic board"),
    ("fpga", "FPGA board"),
    ("other", "Other"),
)


def compute(values: Values) -> Estimate:
    refuse_both(values, "kwh", "watts", "hours")
    if "kwh" in values:
        return stated_energy(number(values, "kwh"))
    for name in ("watts", "hours"):
        if name not in values:
            raise missing(
                name, f"{LABELS[name]} is missing.", "Enter kWh, or both power and hours."
            )
    count, watts, hours = (number(values, name) for name in ("count", "watts", "hours"))
    equation = f"{text(count)} devices × {text(watts)} W × {text(hours)} h"
    return stated_power(count * watts * hours, equation)
