"""Energy of a file server without a collector: its meter, or disks × power × hours. Pure."""

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

_FACTORS = ("disks", "watts_per_disk", "hours")


def compute(values: Values) -> Estimate:
    refuse_both(values, "kwh", *_FACTORS)
    if "kwh" in values:
        return stated_energy(number(values, "kwh"))
    for name in _FACTORS:
        if name not in values:
            raise missing(
                name,
                f"{LABELS[name]} is missing.",
                "Enter the kWh of its meter, or disks, W and hours.",
            )
    disks, watts, hours = (number(values, name) for name in _FACTORS)
    equation = f"{text(disks)} disks × {text(watts)} W × {text(hours)} h"
    return stated_power(disks * watts * hours, equation)
