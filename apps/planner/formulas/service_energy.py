"""Energy of serving a model: requests a day × energy a request. Pure."""

from collections.abc import Sequence
from fractions import Fraction

from apps.planner.formulas.ranges import (
    Range,
    Spread,
    around,
    mean_and_spread,
    rounded,
    times_or_divided,
)

MONTH_DAYS = Fraction(1461, 48)  # a twelfth of 365.25 days
# Energy a request depends on the load, which one service run does not show.
OWN_SERVICE = times_or_divided(1_500_000)
MLPERF = times_or_divided(10_000_000)  # another card, fully loaded: an order of magnitude


def monthly_energy(
    requests_per_day: int, uj_per_request: Sequence[Fraction], spread: Spread
) -> Range:
    """Return the energy of a month in mJ. ``uj_per_request``: measured values, not empty; the
    likely one is their geometric mean.
    """
    likely, _ = mean_and_spread(uj_per_request)
    return around(rounded(likely * requests_per_day * MONTH_DAYS / 1000), spread)
