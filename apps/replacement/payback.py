"""Payback time of a new card: its embodied carbon against the electricity that it saves. Pure.

``break-even years = TE_new / ((P_old − P_new × work ratio) × h × PUE × CI)``. The work ratio is the
new card's time for one hour of work of the old card. If idle power is known, both cards idle for
the rest of their hours on:

``saving a year = P_old·h + I_old·q − P_new·r·h − I_new·max(0, q + h − r·h)``, with h hours used and
q hours idle a year. A slower card that works longer than the old one is on does not idle.

With both idle powers 0 (unknown) this is the formula above. All arithmetic is exact: integers and
fractions of µg, mW, hours, ppm and µg/kWh. A year has 8 760 hours.

**Range.** It is first order, in closed form, and computed for the payback *rate* ``saving a year /
TE`` (1 / years), not for the years. Years have a pole where nothing is saved, while the rate passes
smoothly through 0. Each input alone is moved to either end of its range. Inputs are different
sources, so the changes combine in quadrature (docs/methodology.md). A rate of 0 or below is
"never", for the value and for either end of the range. Interval arithmetic, with all inputs at
their worst at once, would return "never" for nearly every card.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from math import isqrt, prod

from apps.core.units import PPM

_MWH_PER_KWH = 1_000_000
_SCALE = 10**15  # rates have a resolution of 10⁻¹⁵ a year, rounded outwards


@dataclass(frozen=True)
class Known:
    """A value with its range, integers of one unit: low ≤ value ≤ high."""

    value: int
    low: int
    high: int

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.low} ≤ {self.value} ≤ {self.high} does not hold")

    @classmethod
    def exact(cls, value: int) -> "Known":
        return cls(value, value, value)

    @classmethod
    def within(cls, value: int, down_ppm: int, up_ppm: int) -> "Known":
        """Return ``value`` ≥ 0 with a relative range."""
        return cls(value, value - value * down_ppm // PPM, value + value * up_ppm // PPM)


@dataclass(frozen=True)
class Inputs:
    """Inputs of the analysis.

    Power in mW in use (and idle), time in hours a year, ``ratio_ppm`` the work ratio.
    """

    te_ug: Known
    old_mw: Known
    new_mw: Known
    ratio_ppm: Known
    hours: Known
    pue_ppm: Known
    ci_ug_per_kwh: Known
    old_idle_mw: Known = Known(0, 0, 0)
    new_idle_mw: Known = Known(0, 0, 0)
    idle_hours: Known = Known(0, 0, 0)


NEEDED = ("te_ug", "old_mw", "new_mw", "ratio_ppm", "hours", "pue_ppm", "ci_ug_per_kwh")


@dataclass(frozen=True)
class Point:
    """One value for each input."""

    te_ug: int
    old_mw: int
    new_mw: int
    ratio_ppm: int
    hours: int
    pue_ppm: int
    ci_ug_per_kwh: int
    old_idle_mw: int
    new_idle_mw: int
    idle_hours: int

    def _emitted(self, mwh: Fraction) -> Fraction:
        return mwh / _MWH_PER_KWH * self.pue_ppm / PPM * self.ci_ug_per_kwh

    @property
    def old_ug_per_year(self) -> Fraction:
        """Return the annual emissions of the old card's electricity."""
        return self._emitted(
            Fraction(self.old_mw * self.hours + self.old_idle_mw * self.idle_hours)
        )

    @property
    def new_ug_per_year(self) -> Fraction:
        """Return the annual emissions of the new card's electricity, for the same work."""
        busy = Fraction(self.hours * self.ratio_ppm, PPM)
        idle = max(Fraction(0), self.idle_hours + self.hours - busy)
        return self._emitted(self.new_mw * busy + self.new_idle_mw * idle)

    @property
    def rate(self) -> Fraction:
        """Return the part of TE that is saved in a year. TE counts as at least 1 µg."""
        return (self.old_ug_per_year - self.new_ug_per_year) / max(1, self.te_ug)


@dataclass(frozen=True)
class Payback:
    """Years until break-even: value and both ends of the range. None: never."""

    years: Fraction | None
    low: Fraction | None
    high: Fraction | None


@dataclass(frozen=True)
class Unknown:
    """No result: names of the missing inputs."""

    missing: tuple[str, ...]


def middle(inputs: Inputs) -> Point:
    """Return the values of the inputs."""
    return Point(**{field.name: getattr(inputs, field.name).value for field in fields(inputs)})


def payback(inputs: Inputs) -> Payback:
    """Return the payback time. The module docstring has the formula and its range."""
    rate = middle(inputs).rate
    up = down = Fraction(0)
    for gain in _gains(inputs):
        up += max(gain, Fraction(0)) ** 2
    for gain in _gains(inputs, worst=True):
        down += min(gain, Fraction(0)) ** 2
    return Payback(_years(rate), _years(rate + _root(up)), _years(rate - _root(down)))


def _gains(inputs: Inputs, *, worst: bool = False) -> Iterator[Fraction]:
    """Yield the change of the rate by each input at its better (or worse) end."""
    point = middle(inputs)
    values = {field.name: getattr(point, field.name) for field in fields(point)}
    for field in fields(inputs):
        known: Known = getattr(inputs, field.name)
        if known.low == known.high:
            continue
        moved = [
            Point(**{**values, field.name: end}).rate - point.rate
            for end in (known.low, known.high)
        ]
        yield min(moved) if worst else max(moved)


def _years(rate: Fraction) -> Fraction | None:
    return 1 / rate if rate > 0 else None


def _root(square: Fraction) -> Fraction:
    """Return the square root, rounded up, so that a range never excludes a valid value."""
    if square == 0:
        return Fraction(0)
    return Fraction(isqrt(square.numerator * _SCALE * _SCALE // square.denominator) + 1, _SCALE)


@dataclass(frozen=True)
class Scenarios:
    """Cumulative emissions of each scenario by year, µg, from today on.

    The old card's embodied carbon is sunk in all three.
    """

    year: int
    keep_ug: int
    replace_ug: int
    wait_ug: int


def ways(inputs: Inputs, years: int, wait_years: int) -> list[Scenarios]:
    """Return the cumulative emissions at the end of every year up to ``years``.

    Scenarios: keep, replace now, or replace after ``wait_years`` (the new card's embodied carbon
    counts from then on).
    """
    point = middle(inputs)
    return [
        Scenarios(
            year,
            round(point.old_ug_per_year * year),
            round(point.te_ug + point.new_ug_per_year * year),
            round(point.old_ug_per_year * min(year, wait_years) + _later(point, year, wait_years)),
        )
        for year in range(years + 1)
    ]


def _later(point: Point, year: int, wait_years: int) -> Fraction:
    if year < wait_years:
        return Fraction(0)
    return point.te_ug + point.new_ug_per_year * (year - wait_years)


def work_ratio(pairs: Sequence[tuple[int, int]], decisive: int | None = None) -> Known | None:
    """Return the work ratio from peak figures (old, new), ppm. None: no pair is known.

    ``decisive`` is the index of the pair that decides. None: the geometric mean, as work is bound
    by each in turn. The others bound the range, since the limit of a task is unknown. For a single
    pair the range is ±30 %.
    """
    ratios = [(old * PPM + new // 2) // new for old, new in pairs if old > 0 and new > 0]
    if not ratios:
        return None
    if len(ratios) == 1:
        return Known.within(ratios[0], 300_000, 300_000)
    value = _whole_root(prod(ratios), len(ratios)) if decisive is None else ratios[decisive]
    return Known(value, min(ratios), max(ratios))


def _whole_root(number: int, degree: int) -> int:
    """Return the largest integer whose ``degree``-th power is at most ``number``."""
    low, high = 0, 1 << (number.bit_length() // degree + 1)
    while high - low > 1:
        half = (low + high) // 2
        low, high = (half, high) if half**degree <= number else (low, half)
    return low
