"""Forecast of a period's total, and its range. Integers of one metric, rounded half up. Pure.

A day is a day of the lab, whatever its number of hours. ``day`` is a number of complete days since
the start of a period.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.core.units import PPM

FIRST_DAY = 14  # complete days before the first forecast
LAST_DAYS = 7  # whose mean is carried on
LEAST_PERIODS = 6  # past periods that a range needs
NEAR_PERCENT = 80


@dataclass(frozen=True)
class Forecast:
    """The expected total at the end of a period. ``low`` and ``high``: P10 and P90, None without a
    range. ``rest``: the part that is expected after the complete days by their pace.
    """

    total: int
    rest: int
    low: int | None = None
    high: int | None = None

    def with_planned(self, low: int, likely: int, high: int) -> "Forecast":
        """Return the forecast with runs that are planned beside the usual use. Ends are added: the
        range is at least as wide as that of independent parts.
        """
        return Forecast(
            self.total + likely,
            self.rest,
            None if self.low is None else self.low + low,
            None if self.high is None else self.high + high,
        )


def rest_at_pace(last_days: Sequence[int], remaining_days: int) -> int:
    """Return the use of the remaining days, if each is the mean of the last seven."""
    return _half_up(sum(last_days) * remaining_days, len(last_days))


def forecast(
    days: Sequence[int], day_count: int, ratios_ppm: Sequence[int] = (), *, used_today: int = 0
) -> Forecast:
    """Return the forecast of a period of ``day_count`` days after its complete ``days``.

    ``ratios_ppm``: of past periods at the same share, see :func:`past_ratio_ppm`. With fewer than
    six, or without use in the last seven days, there is no range. No value is less than the use of
    the complete days and ``used_today``.
    """
    used = sum(days)
    rest = rest_at_pace(days[-LAST_DAYS:], day_count - len(days))
    total = used + max(rest, used_today)
    if len(ratios_ppm) < LEAST_PERIODS or rest <= 0:
        return Forecast(total, rest)
    low, high = (
        used + max(_half_up(rest * quantile(ratios_ppm, tenths), PPM), used_today)
        for tenths in (1, 9)
    )
    return Forecast(total, rest, low, high)


def same_share(day: int, day_count: int, past_day_count: int) -> int:
    """Return the day of a past period at the same share of it as ``day`` of ``day_count``. At
    least one day remains.
    """
    return min(_half_up(day * past_day_count, day_count), past_day_count - 1)


def past_ratio_ppm(days: Sequence[int], day: int) -> int | None:
    """Return actual ÷ forecast use of the days after ``day`` of a past period, in parts per
    million. None without use in the seven days before: no pace could be carried on.
    """
    rest = rest_at_pace(days[day - LAST_DAYS : day], len(days) - day)
    return _half_up(sum(days[day:]) * PPM, rest) if rest > 0 else None


def quantile(values: Sequence[int], tenths: int) -> int:
    """Return a quantile in tenths, interpolated between the two nearest values."""
    ordered = sorted(values)
    place, part = divmod((len(ordered) - 1) * tenths, 10)
    following = ordered[min(place + 1, len(ordered) - 1)]
    return _half_up(ordered[place] * (10 - part) + following * part, 10)


def is_near(used: int, amount: int, expected: int | None) -> bool:
    """Return whether 80 % of an amount is used, or the forecast exceeds it."""
    return used * 100 >= amount * NEAR_PERCENT or (expected is not None and expected > amount)


def is_inside(low: int, high: int, actual: int) -> bool:
    """Return whether the actual total is within a range. Its bounds are part of it."""
    return low <= actual <= high


def error_ppm(expected: int, actual: int) -> int | None:
    """Return how far a forecast is above the actual total (below: negative), in parts per million
    of it. None without a total above 0.
    """
    return _half_up((expected - actual) * PPM, actual) if actual > 0 else None


def hit_rate_ppm(inside: int, scored: int) -> int | None:
    """Return the share of scored ranges with the actual total inside. None without any."""
    return _half_up(inside * PPM, scored) if scored else None


def _half_up(dividend: int, divisor: int) -> int:
    return (2 * dividend + divisor) // (2 * divisor)
