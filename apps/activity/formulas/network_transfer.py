"""Energy of data sent over networks between data centres. Pure.

Published figures differ by orders of magnitude, so the range is wide.
"""

from fractions import Fraction

from apps.activity.formulas.estimate import Estimate, Values, estimate, number, text

# kWh per GB: value, low, high.
KWH_PER_GB = (Fraction(1, 1000), Fraction(1, 10_000), Fraction(6, 100))
SOURCE = (
    "0.001 kWh per GB: Cloud Carbon Footprint, Methodology (2021), Apache-2.0. High: 0.06 kWh per "
    "GB, Aslan et al. 2018, fixed networks of 2015. Low: 0.0001 kWh per GB, assumption of LabCarbon"
)


def compute(values: Values) -> Estimate:
    gigabytes = number(values, "gigabytes")
    kwh, low, high = (gigabytes * factor for factor in KWH_PER_GB)
    return estimate(kwh, low, high, f"{text(gigabytes)} GB × 0.001 kWh per GB", SOURCE)
