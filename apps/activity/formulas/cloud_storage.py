"""Energy of stored data: TB-months × hours of a month × power of a terabyte × replicas. Pure."""

from fractions import Fraction

from apps.activity.formulas.estimate import Estimate, Values, estimate, number, text
from apps.catalog.storage_power import MEDIUM_POWER
from apps.core.units import HOURS_PER_YEAR

HOURS_PER_MONTH = Fraction(HOURS_PER_YEAR, 12)
MEDIA = (
    ("hdd", "Hard disk"),
    ("ssd", "Solid state"),
    ("object", "Object storage (three copies)"),
    ("tape", "Tape"),
)


def compute(values: Values) -> Estimate:
    power = MEDIUM_POWER[str(values["medium"])]
    tb_months, replicas = number(values, "tb_months"), number(values, "replicas")
    tb_hours = tb_months * HOURS_PER_MONTH * replicas
    kwh, low, high = (tb_hours * uwh / 10**9 for uwh in (power.uwh, power.low_uwh, power.high_uwh))
    equation = (
        f"{text(tb_months)} TB-months × 730 h × {text(replicas)} replicas × "
        f"{text(Fraction(power.uwh, 10**6))} Wh per TB-hour"
    )
    return estimate(kwh, low, high, equation, power.source)
