"""Totals of a number of runs by measured runs of their family. Pure.

P10 and P90 are nearest ranks. The range of a total is that of as many equal runs: runs of a sweep
resemble each other, so their errors do not cancel. It contains the mean, which a single long run
can move beyond P90.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Total:
    """A total. ``measured``: number of runs it is computed from. ``low`` and ``high`` (P10, P90)
    are None if that is one.
    """

    measured: int
    likely: int
    low: int | None
    high: int | None


def total_of(values: Sequence[int], runs: int) -> Total | None:
    """Return the total of ``runs`` runs like those with ``values`` ≥ 0, None without any."""
    if not values:
        return None
    count = len(values)
    likely = (2 * sum(values) * runs + count) // (2 * count)
    if count == 1:
        return Total(1, likely, None, None)
    ascending = sorted(values)
    low, high = (ascending[-(-tenths * count // 10) - 1] for tenths in (1, 9))
    return Total(count, likely, min(low * runs, likely), max(high * runs, likely))
