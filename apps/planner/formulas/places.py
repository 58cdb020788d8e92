"""Time, energy, carbon and cost of one training on different cards. Pure.

Times are in µs, energies in mJ, power in mW, emissions in µg. docs/planner.md has the formulas and
where their ranges come from.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from apps.core.units import PPM, US_PER_HOUR, emission_ug
from apps.planner.choices import Basis
from apps.planner.formulas.byte_range import ByteRange
from apps.planner.formulas.memory import judge
from apps.planner.formulas.ranges import (
    EXACT,
    Range,
    Spread,
    around,
    combine,
    divide,
    rounded,
    times_or_divided,
    wider,
)
from apps.planner.formulas.time_and_energy import POWER_DIVISOR_PPM, POWER_SPREAD, Figures

# Another card: the ratio of the peaks, and the load of the power limit, ±40 %.
_OTHER_CARD_TIME = times_or_divided(2_400_000)
_OTHER_CARD_LOAD = Spread(600_000, 1_400_000)


class Fit(StrEnum):
    """Whether the memory of a card is enough."""

    FITS = "fits"
    BORDERLINE = "borderline"
    DOES_NOT_FIT = "does_not_fit"


def judge_fit(needed: Range, card_bytes: int) -> Fit:
    """Return the verdict of a need against a card, by the rule of the memory estimate."""
    return Fit(judge(ByteRange(needed.low, needed.likely, needed.high), card_bytes))


@dataclass(frozen=True, slots=True)
class Reference:
    """A training that was measured on ``gpus`` cards, by own runs or a probe. ``rated_mw``: power
    limit of one card, None: unknown.
    """

    figures: Figures
    gpus: int
    rated_mw: int | None = None


@dataclass(frozen=True, slots=True)
class PeakRatio:
    """How many times faster a card is, by its peaks: likely value and bounds, ppm."""

    low_ppm: int
    likely_ppm: int
    high_ppm: int


def on_other_card(reference: Reference, ratio: PeakRatio, rated_mw: int | None) -> Figures:
    """Return the use on as many cards of another model: an order of magnitude.

    Time is divided by the ratio of the peaks. Power is that of the reference × the ratio of the
    power limits, else the usual part of the limit.
    """
    reference_us, measured = reference.figures.time_us, reference.figures.gpu_energy_mj
    time_us = rounded(Fraction(reference_us.likely * PPM, ratio.likely_ppm))
    bounds = Spread(
        max(1, divide(ratio.likely_ppm * PPM, ratio.high_ppm)),
        divide(ratio.likely_ppm * PPM, ratio.low_ppm),
    )
    spread = combine(reference_us.spread, wider(bounds, _OTHER_CARD_TIME))
    time = around(time_us, spread)
    if rated_mw is None:
        return Figures(Basis.CATALOGUE, time, None, None)
    if measured is not None and reference.rated_mw:
        share = Fraction(measured.likely * PPM, reference_us.likely * reference.gpus) / (
            reference.rated_mw
        )
        load, load_spread = min(Fraction(1), share), _OTHER_CARD_LOAD
    else:
        load, load_spread = Fraction(PPM, POWER_DIVISOR_PPM), POWER_SPREAD
    energy = rounded(load * rated_mw * reference.gpus * time_us / PPM)
    gpu_energy_mj = around(energy, combine(spread, load_spread))
    return Figures(Basis.CATALOGUE, time, gpu_energy_mj, None)


def times_rate(energy_mj: Range, pue_ppm: int, per_kwh: int, spread: Spread = EXACT) -> Range:
    """Return facility energy × a rate in µg or millionths of a currency per kWh."""
    likely = emission_ug(energy_mj.likely, pue_ppm, per_kwh)
    return around(likely, combine(energy_mj.spread, spread))


def embodied_share(total_ug: Range, life_hours: int, share: Fraction, time_us: Range) -> Range:
    """Return the embodied carbon of service time: TE × share × time ÷ life (SCI, ISO/IEC 21031)."""
    likely = rounded(share * Fraction(total_ug.likely * time_us.likely, life_hours * US_PER_HOUR))
    return around(likely, combine(total_ug.spread, time_us.spread))


def add_ranges(ranges: Iterable[Range]) -> Range:
    """Return the sum of ranges, end by end."""
    items = list(ranges)
    return Range(
        sum(item.low for item in items),
        sum(item.likely for item in items),
        sum(item.high for item in items),
    )


def usamples_per_joule(samples_per_s: Fraction, watts: Fraction) -> int:
    """Return samples/s ÷ W in millionths, rounded half up."""
    return rounded(samples_per_s / watts * PPM)


def samples_per_energy(samples: int, energy_mj: Range) -> Range:
    """Return millionths of a sample per joule. The low end is that of the most energy."""
    high, likely, low = (
        divide(samples * 1000 * PPM, max(1, end))
        for end in (energy_mj.low, energy_mj.likely, energy_mj.high)
    )
    return Range(low, likely, high)


@dataclass(frozen=True, slots=True)
class Release:
    """What decides whether a newer card is greener. None is unknown."""

    key: str
    year: int | None
    emission_ug: int | None


def find_greener_older(releases: Sequence[Release]) -> dict[str, str]:
    """Return {key: key of the greenest place with an older card}, where that emits less."""
    known = [row for row in releases if row.year is not None and row.emission_ug is not None]
    ordered = sorted(known, key=lambda row: (row.emission_ug or 0, row.key))
    found = {}
    for row in known:
        for other in ordered:
            if (other.emission_ug or 0) >= (row.emission_ug or 0):
                break
            if (other.year or 0) < (row.year or 0):
                found[row.key] = other.key
                break
    return found


@dataclass(frozen=True, slots=True)
class ScalingStep:
    """A training on more nodes, compared with the fewest: ``speedup_ppm`` times faster, with
    ``energy_ppm`` times the energy.
    """

    nodes: int
    gpus: int
    time_us: int
    energy_mj: int
    speedup_ppm: int = PPM
    energy_ppm: int = PPM


def compare_scaling(steps: Iterable[ScalingStep]) -> list[ScalingStep]:
    """Return the steps by number of GPUs, each compared with the first."""
    ordered = sorted(steps, key=lambda step: step.gpus)
    first = ordered[0] if ordered else None
    return [
        ScalingStep(
            step.nodes,
            step.gpus,
            step.time_us,
            step.energy_mj,
            divide(first.time_us * PPM, step.time_us),
            divide(step.energy_mj * PPM, first.energy_mj),
        )
        for step in ordered
        if first is not None
    ]
