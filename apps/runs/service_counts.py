"""Served requests and tokens of a service, and amounts per number of them. Pure.

A run with the intent ``service`` counts what it has served in the metrics ``requests`` and
``tokens``: running totals since its start.
"""

from dataclasses import dataclass
from enum import StrEnum

REQUESTS, TOKENS = "requests", "tokens"
# The number of each that an amount is stated for.
PER = {REQUESTS: 1_000, TOKENS: 1_000_000}
_MAX_EXACT = 2**53  # a float holds all whole numbers up to here


class CountState(StrEnum):
    """Whether a metric is a running total. ``fell``: a later value is smaller, as after a restart
    of the process, so what was served is unknown.
    """

    COUNTED = "counted"
    NONE_YET = "none_yet"
    FELL = "fell"
    NOT_A_COUNT = "not_a_count"


@dataclass(frozen=True)
class Served:
    """What a service has served. ``number`` is 0 unless ``state`` is counted."""

    state: CountState
    number: int = 0


def served(
    last: float | None, least: float | None, greatest: float | None, *, has_fallen: bool = False
) -> Served:
    """Return the running total of a metric from its last, least and greatest value.

    ``has_fallen``: whether a value is smaller than the one before.
    """
    if last is None or least is None or greatest is None:
        return Served(CountState.NOT_A_COUNT)
    if least < 0 or greatest > _MAX_EXACT or last != int(last):
        return Served(CountState.NOT_A_COUNT)
    if has_fallen or last < greatest:
        return Served(CountState.FELL)
    return Served(CountState.COUNTED, int(last)) if last else Served(CountState.NONE_YET)


def amount_per(amount: int, number: int, per: int) -> int:
    """Return ``amount`` (mJ or µg, not negative) per ``per`` of ``number`` served, half up.

    Raises ValueError for nothing served.
    """
    if number <= 0:
        raise ValueError("nothing was served")
    return (2 * amount * per + number) // (2 * number)
