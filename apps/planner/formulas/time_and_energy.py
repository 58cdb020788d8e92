"""Time and energy of a training, in order of trust: own runs, probe, operations, catalogue. Pure.

Times are in µs, energies in mJ, power in mW. Energy of the GPUs and energy of the run (all devices
of its node, GPUs included) are two figures. docs/planner.md has the formulas and where their ranges
come from.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isqrt

from apps.core.units import PPM
from apps.planner.choices import Basis
from apps.planner.formulas.ranges import (
    EXACT,
    Range,
    Spread,
    around,
    combine,
    divide,
    mean_and_spread,
    rounded,
    times_or_divided,
    wider,
)
from apps.planner.formulas.work import Work, work_ratio

MAX_RUNS = 30  # of a family, the newest
_US_PER_MINUTE = 60_000_000
MIN_PROBE_US = 58_800_000  # 60 s past the warm-up, less 2 % for an incomplete interval

# Same configuration, other seeds, until a target is reached: −21/+21 %.
EARLY_STOP = Spread(790_000, 1_210_000)
# Least range of own runs, and range of a single one.
OWN_LEAST = Spread(900_000, 1_100_000)
OWN_SINGLE = times_or_divided(1_500_000)
_OTHER_MODEL = times_or_divided(1_500_000)  # of the family, with unknown model costs
# Power of 193 MLPerf runs, first minutes against the whole: at P10 7 % too low, at P90 8 % too
# high.
_PROBE_POWER = Spread(925_926, 1_075_269)
_PROBE_TIME_PPM = 30_000
_LATER_EPOCH_PPM = 916_667  # 165 Wh after 180 Wh
_NORMAL90_PPM = 1_281_552
# Energy per FLOP of another model on the same card, and of the same model with another batch.
_LARGE_NET, _SMALL_NET = times_or_divided(2_400_000), times_or_divided(20_000_000)
_SAME_MODEL = times_or_divided(1_240_000)
# Catalogue: a third of the peak, ×÷3. The power limit is 11, 53, 552 % above the mean power.
_PEAK_PART = 3
_PEAK_SPREAD = times_or_divided(3_000_000)
POWER_DIVISOR_PPM = 1_530_000
POWER_SPREAD = Spread(divide(1_530_000 * PPM, 6_520_000), divide(1_530_000 * PPM, 1_110_000))


@dataclass(frozen=True, slots=True)
class Figures:
    """An estimate of time and energy. None is unknown. ``facts``: what it rests on."""

    basis: Basis
    time_us: Range
    gpu_energy_mj: Range | None
    node_energy_mj: Range | None
    facts: Mapping[str, int | str | bool] = field(default_factory=dict)

    @property
    def reserve_us(self) -> int:
        """Return the wall time to reserve: P90 in whole minutes."""
        return -(-self.time_us.high // _US_PER_MINUTE) * _US_PER_MINUTE


@dataclass(frozen=True, slots=True)
class PastRun:
    """A finished run of the lab. ``is_same_recipe``: the compared parameters are equal. None is
    unknown.
    """

    time_us: int
    gpu_energy_mj: int | None
    node_energy_mj: int | None
    work: Work = field(default_factory=Work)
    macs: int | None = None
    parameters: int | None = None
    is_same_recipe: bool = False


def from_own_runs(
    runs: Sequence[PastRun],
    work: Work,
    *,
    macs: int | None = None,
    parameters: int | None = None,
) -> Figures | None:
    """Return the estimate from runs of the same family, scaled by work and model. None: no run can
    be scaled.

    Without a stated total, all count as they are, with the range of early stops. Three or more runs
    of the same recipe count alone.
    """
    scaled = [
        (run, ratio, other_model)
        for run in runs
        if run.time_us > 0 and (ratio := _work_ratio(work, run)) is not None
        for other_model in (_model_ratio(run, macs, parameters),)
    ]
    same = [row for row in scaled if row[0].is_same_recipe and row[2] in (None, 1)]
    if len(same) >= 3:
        scaled = same
    if not scaled:
        return None
    least = OWN_LEAST
    model_ratios = [ratio for _, _, ratio in scaled if ratio is not None]
    if len(scaled) < 3 and any(
        ratio is None and not run.is_same_recipe for run, _, ratio in scaled
    ):
        least = combine(least, _OTHER_MODEL)
    if model_ratios:
        least = combine(least, max(map(half_scaled, model_ratios), key=lambda s: s.high_ppm))
    if not work.is_known or work.stops_early:
        least = combine(least, EARLY_STOP)

    def of(value: Callable[[PastRun], int | None]) -> Range | None:
        values = [
            Fraction(amount) * ratio * (model or 1)
            for run, ratio, model in scaled
            if (amount := value(run))
        ]
        return _range(values, least, OWN_SINGLE) if values else None

    time_us = of(lambda run: run.time_us)
    assert time_us is not None
    return Figures(
        Basis.OWN_RUNS,
        time_us,
        of(lambda run: run.gpu_energy_mj),
        of(lambda run: run.node_energy_mj),
        {
            "runs": len(scaled),
            "same_recipe": sum(run.is_same_recipe for run, _, _ in scaled),
            "measured": sum(bool(run.node_energy_mj) for run, _, _ in scaled),
            "is_total_known": work.is_known,
        },
    )


def _work_ratio(work: Work, run: PastRun) -> Fraction | None:
    if not work.is_known:
        return Fraction(1)
    if not run.work.is_known:
        return Fraction(1) if run.is_same_recipe else None
    return work_ratio(work, run.work)


def _model_ratio(run: PastRun, macs: int | None, parameters: int | None) -> Fraction | None:
    for amount, past in ((macs, run.macs), (parameters, run.parameters)):
        if amount and past:
            return Fraction(amount, past)
    return None


def half_scaled(ratio: Fraction) -> Spread:
    """Return the spread of scaling by a model ratio: from its square root to its power of 1.5."""
    factor = max(ratio, 1 / ratio)
    return times_or_divided(max(PPM, isqrt(int(factor * PPM * PPM))))


@dataclass(frozen=True, slots=True)
class Probe:
    """What a probe measured past its warm-up. ``step_us``: mean µs a step, in later epochs if the
    first one ended; ``first_step_us``: in the first one, None if no later one was seen.
    ``variation_ppm``: standard error of the mean. Power is the mean; None is unknown.
    """

    measured_us: int
    steps: int
    step_us: int
    first_step_us: int | None = None
    variation_ppm: int = 0
    startup_us: int = 0
    epoch_steps: int | None = None
    evaluation_us: int = 0
    evaluation_steps: int | None = None
    gpu_mw: int | None = None
    node_mw: int | None = None


def from_probe(probe: Probe, work: Work) -> Figures | None:
    """Return the estimate from a probe: first + (n − 1) × later epochs. None: too short, or the
    total is unknown.
    """
    total = work.step_count
    epoch_steps = work.epoch_steps or probe.epoch_steps
    if total is None and work.epochs is not None and epoch_steps:
        total = work.epochs * epoch_steps
    if probe.measured_us < MIN_PROBE_US or probe.step_us <= 0 or not total:
        return None
    first_steps = min(total, epoch_steps or total)
    first_us = probe.step_us if probe.first_step_us is None else probe.first_step_us
    time_us = (
        probe.startup_us
        + first_steps * first_us
        + (total - first_steps) * probe.step_us
        + (total // probe.evaluation_steps * probe.evaluation_us if probe.evaluation_steps else 0)
    )
    error_ppm = min(900_000, max(_PROBE_TIME_PPM, divide(probe.variation_ppm * _NORMAL90_PPM, PPM)))
    spread = Spread(PPM - error_ppm, PPM + error_ppm)
    if probe.first_step_us is None and total > first_steps:
        later = divide((total - first_steps) * probe.step_us * (PPM - _LATER_EPOCH_PPM), time_us)
        spread = combine(spread, Spread(PPM - later, PPM))
    if work.stops_early:
        spread = combine(spread, EARLY_STOP)
    energy_spread = combine(spread, _PROBE_POWER)

    def energy(power_mw: int | None) -> Range | None:
        return None if power_mw is None else around(divide(power_mw * time_us, PPM), energy_spread)

    return Figures(
        Basis.PROBE,
        around(time_us, spread),
        energy(probe.gpu_mw),
        energy(probe.node_mw),
        {"measured_us": probe.measured_us, "measured_steps": probe.steps, "steps": total},
    )


@dataclass(frozen=True, slots=True)
class PastOperations:
    """A finished run with known operations on the same card, precision and kind of model."""

    flops: int
    time_us: int
    gpu_energy_mj: int | None
    node_energy_mj: int | None
    is_same_model: bool = False


def from_operations(
    flops: int, past: Sequence[PastOperations], *, is_large: bool, gpus: int, stops_early: bool
) -> Figures | None:
    """Return the estimate from operations and the lab's own energy and time per operation. Runs of
    the same model count alone. None: no such run.
    """
    usable = [run for run in past if run.flops > 0 and run.time_us > 0]
    same = [run for run in usable if run.is_same_model]
    usable = same or usable
    if not usable or flops <= 0:
        return None
    least = _SAME_MODEL if same else _net_spread(is_large=is_large)
    if stops_early:
        least = combine(least, EARLY_STOP)

    def of(value: Callable[[PastOperations], int | None]) -> Range | None:
        values = [Fraction(flops * amount, run.flops) for run in usable if (amount := value(run))]
        return _range(values, least, EXACT) if values else None

    time_us = of(lambda run: run.time_us)
    assert time_us is not None
    return Figures(
        Basis.OPERATIONS,
        time_us,
        of(lambda run: run.gpu_energy_mj),
        of(lambda run: run.node_energy_mj),
        {
            "runs": len(usable),
            "same_model": len(same),
            "is_large": is_large,
            "gpus": gpus,
        },
    )


@dataclass(frozen=True, slots=True)
class Card:
    """Rated figures of a card: peak at the precision in GFLOP/s, and power, None: unknown."""

    peak_gflops: int
    rated_mw: int | None


def from_catalogue(
    flops: int, card: Card, *, is_large: bool, gpus: int, stops_early: bool
) -> Figures | None:
    """Return the order of magnitude of time and energy of the GPUs from rated figures: a third of
    the peak, at the usual mean of the rated power. None: no operations.
    """
    if flops <= 0:
        return None
    spread = combine(_net_spread(is_large=is_large), _PEAK_SPREAD)
    if stops_early:
        spread = combine(spread, EARLY_STOP)
    time = Fraction(flops * _PEAK_PART, card.peak_gflops * 1000 * gpus)  # GFLOP/s × 1000 = FLOP/µs
    energy = None
    if card.rated_mw is not None:
        likely = rounded(Fraction(card.rated_mw * gpus, POWER_DIVISOR_PPM) * time)
        energy = around(likely, combine(spread, POWER_SPREAD))
    return Figures(
        Basis.CATALOGUE,
        around(rounded(time), spread),
        energy,
        None,
        {"is_large": is_large, "gpus": gpus},
    )


def _net_spread(*, is_large: bool) -> Spread:
    """Return the range of energy per FLOP of another model on the same card."""
    return _LARGE_NET if is_large else _SMALL_NET


def _range(values: Sequence[Fraction], least: Spread, single: Spread) -> Range:
    likely, spread = mean_and_spread(values)
    return around(rounded(likely), wider(least, spread or single))
