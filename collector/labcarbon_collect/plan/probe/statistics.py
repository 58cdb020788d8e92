"""Figures of a probe: seconds per step, evaluation pauses, power, and the whole training. Pure.

Times are in µs, power in mW, energy in mJ, shares in ppm.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Iterator, List, Optional, Sequence, Tuple, TypeVar

Item = TypeVar("Item")

MILLION = 1_000_000
P10, P50, P90 = 100_000, 500_000, 900_000
# Power of the first minutes against the whole run, of 193 MLPerf runs at the wall: the estimate is
# at P10 7 % below the truth (first 60 s), at P90 8 % above it (30 to 90 s).
POWER_LOW_PPM, POWER_HIGH_PPM = 74_074, 75_269  # 1 - 1/1.08, 1/0.93 - 1
# Later epochs against the first one: 165 Wh against 180 Wh.
LATER_EPOCH_PPM = 916_667
_Z90 = 1_281_552  # quantile of the normal distribution, in ppm
_MIN_DURATION_PPM, _RHYTHM_DURATION_PPM = 30_000, 150_000
_BLOCKS = 10
_STEADY_RATIO_PPM = 1_500_000
_STEADY_STEPS = 5
_MIN_EPOCH_STEPS = 20


@dataclass(frozen=True)
class StepSeries:
    """Moments at which steps were counted.

    ``source``: reports | output | lines, or the name of a sampled series (then the steps are
    equally spaced). ``events``: (µs, steps since the first event). ``restarts``: moments at which
    the program's counter restarted, as at a new epoch. ``first``: the program's number of the first
    event. ``epoch_steps``: the total of the counter.
    """

    source: str
    name: str
    events: Tuple[Tuple[int, int], ...]
    restarts: Tuple[int, ...] = ()
    first: int = 1
    epoch_steps: Optional[int] = None
    is_spread_known: bool = True


@dataclass(frozen=True)
class Evaluation:
    """A pause of the steps for an evaluation. ``step``: steps since the first event before it."""

    start_us: int
    length_us: int
    step: int


@dataclass(frozen=True)
class StepFigures:
    """Steps of a probe. Quantiles and mean are µs per step without evaluations; the mean includes
    stalls. ``variation_ppm``: standard error of the mean, relative. ``startup_us``: time that the
    start and slower first steps take longer than measured steps.
    """

    seen: int
    measured: int
    p10_us: Optional[int]
    p50_us: int
    p90_us: Optional[int]
    mean_us: int
    first_epoch_us: Optional[int]  # mean in the first epoch, if a later one was seen too
    evaluations: Tuple[Evaluation, ...]
    evaluation_steps: Optional[int]  # steps from one evaluation to the next
    variation_ppm: int
    startup_us: int


@dataclass(frozen=True)
class PowerFigures:
    """Mean power past warm-up with the range of its samples."""

    mean_mw: int
    p10_mw: int
    p90_mw: int
    variation_ppm: int  # standard error of the mean, relative


@dataclass(frozen=True)
class Range:
    """An estimate with P10 and P90."""

    p10: int
    p50: int
    p90: int


@dataclass(frozen=True)
class Whole:
    """The whole training. ``reserve_us``: wall time to reserve, P90 in whole minutes."""

    steps: int
    evaluations: int
    duration_us: Range
    energy_mj: Optional[Range]
    reserve_us: int


def weighted_quantile(values: Sequence[Tuple[int, int]], ppm: int) -> int:
    """Return the smallest value up to which at least ``ppm`` of the weight lies. ``values``:
    (value, weight), not empty.
    """
    ordered = sorted(values)
    limit = sum(weight for _, weight in ordered) * ppm
    weight_sum = 0
    for value, weight in ordered:
        weight_sum += weight
        if weight_sum * MILLION >= limit:
            return value
    return ordered[-1][0]


def divide(dividend: int, divisor: int) -> int:
    """Divide, half up."""
    return (dividend * 2 + divisor) // (2 * divisor)


def successive(items: Sequence[Item]) -> Iterator[Tuple[Item, Item]]:
    """Return each item with the next one."""
    later = items[1:]
    return zip(items, later)


def measured_from_us(
    series: Optional[StepSeries], *, started_us: int, warm_up_us: int, ended_us: int
) -> int:
    """Return the end of the warm-up: ``warm_up_us`` after the start, later if the steps are not
    steady yet, but within the first half of the probe and of its steps.
    """
    earliest_us = started_us + min(warm_up_us, (ended_us - started_us) // 2)
    if series is None or len(series.events) < 2 * _STEADY_STEPS:
        return earliest_us
    events = series.events
    middle = len(events) // 2
    reference_us = weighted_quantile(_durations(events[middle:]), P50)
    for index in range(1, middle):
        at_us = events[index][0]
        if at_us < earliest_us:
            continue
        next_us = weighted_quantile(_durations(events[index : index + _STEADY_STEPS + 1]), P50)
        if next_us * MILLION <= reference_us * _STEADY_RATIO_PPM:
            is_first = events[index - 1][0] < earliest_us
            return earliest_us if is_first else at_us
    return max(earliest_us, min(events[middle][0], ended_us))


def measure_steps(
    series: StepSeries, *, started_us: int, from_us: int, evaluation_marks_us: Sequence[int] = ()
) -> Optional[StepFigures]:
    """Return the figures of the steps from ``from_us`` on, None with less than three intervals.

    ``evaluation_marks_us``: moments at which the program printed a line about an evaluation.
    """
    events = series.events
    intervals = [
        (start, end)
        for start, end in successive(events)
        if end[1] > start[1] and start[0] >= from_us
    ]
    if len(intervals) < 3:
        return None
    durations = _durations(events)
    median_us = weighted_quantile(durations, P50)
    evaluations = _evaluations(series, median_us, evaluation_marks_us)
    paused_us = {evaluation.start_us: evaluation.length_us for evaluation in evaluations}
    net = [
        (start[0], end[0] - start[0] - paused_us.get(start[0], 0), end[1] - start[1])
        for start, end in intervals
    ]
    per_step = [(divide(length_us, steps), steps) for _, length_us, steps in net]
    steps = sum(steps for _, _, steps in net)
    mean_us = divide(sum(length_us for _, length_us, _ in net), steps)
    boundary_us = series.restarts[0] if series.restarts else None
    first = [item for item in net if boundary_us is not None and item[0] < boundary_us]
    later = [item for item in net if boundary_us is not None and item[0] >= boundary_us]
    first_epoch_us = None
    if min(_steps(first), _steps(later)) >= _MIN_EPOCH_STEPS:
        first_epoch_us, mean_us = _mean_us(first), _mean_us(later)
    known = series.is_spread_known
    return StepFigures(
        seen=events[-1][1] + _steps_before(series),
        measured=steps,
        p10_us=weighted_quantile(per_step, P10) if known else None,
        p50_us=weighted_quantile(per_step, P50),
        p90_us=weighted_quantile(per_step, P90) if known else None,
        mean_us=mean_us,
        first_epoch_us=first_epoch_us,
        evaluations=evaluations,
        evaluation_steps=_evaluation_steps(series, evaluations),
        variation_ppm=_standard_error_ppm(_block_means(net)) if known else _RHYTHM_DURATION_PPM,
        startup_us=_startup_us(
            series, started_us, intervals[0][0], first_epoch_us or mean_us, evaluations
        ),
    )


def measure_power(samples: Sequence[Tuple[int, int]]) -> Optional[PowerFigures]:
    """Return the figures of power samples: (length in µs, mW). None without samples."""
    weighted = [(power_mw, length_us) for length_us, power_mw in samples if length_us > 0]
    if not weighted:
        return None
    mean_mw = divide(
        sum(power_mw * length_us for power_mw, length_us in weighted),
        sum(length_us for _, length_us in weighted),
    )
    return PowerFigures(
        mean_mw,
        weighted_quantile(weighted, P10),
        weighted_quantile(weighted, P90),
        _standard_error_ppm([power_mw for power_mw, _ in weighted]),
    )


def estimate_whole(
    figures: StepFigures,
    power: Optional[PowerFigures],
    *,
    total_steps: int,
    epoch_steps: Optional[int],
) -> Whole:
    """Return duration and energy of a training of ``total_steps``. ``epoch_steps``: steps an epoch,
    if known.

    Energy is mean power × duration. The first epoch has its own mean if a later one was seen; if
    not, P10 assumes that later epochs are faster.
    """
    first_steps = min(total_steps, epoch_steps or total_steps)
    first_us = figures.mean_us if figures.first_epoch_us is None else figures.first_epoch_us
    steps_us = first_steps * first_us + (total_steps - first_steps) * figures.mean_us
    evaluation_count, evaluation_us = 0, 0
    every = figures.evaluation_steps
    if figures.evaluations and every:
        evaluation_count = total_steps // every
        lengths_us = [evaluation.length_us for evaluation in figures.evaluations]
        evaluation_us = evaluation_count * divide(sum(lengths_us), len(lengths_us))
    duration_us = figures.startup_us + steps_us + evaluation_us
    spread_ppm = max(_MIN_DURATION_PPM, divide(figures.variation_ppm * _Z90, MILLION))
    low_ppm = min(spread_ppm, 900_000)
    shortest_us = divide(duration_us * (MILLION - low_ppm), MILLION)
    if figures.first_epoch_us is None and total_steps > first_steps:
        faster_us = (total_steps - first_steps) * divide(
            figures.mean_us * (MILLION - LATER_EPOCH_PPM), MILLION
        )
        shortest_us -= faster_us
    longest_us = divide(duration_us * (MILLION + spread_ppm), MILLION)
    duration = Range(max(0, shortest_us), duration_us, longest_us)
    minute_us = 60 * MILLION
    return Whole(
        total_steps,
        evaluation_count,
        duration,
        _energy(duration, power) if power is not None else None,
        -(-longest_us // minute_us) * minute_us,
    )


def _energy(duration: Range, power: PowerFigures) -> Range:
    """Return energy: power × time, with both relative ranges combined in quadrature."""
    variation_ppm = divide(power.variation_ppm * _Z90, MILLION)
    low_ppm = divide((duration.p50 - duration.p10) * MILLION, max(1, duration.p50))
    high_ppm = divide((duration.p90 - duration.p50) * MILLION, max(1, duration.p50))
    low_ppm = isqrt(low_ppm**2 + max(POWER_LOW_PPM, variation_ppm) ** 2)
    high_ppm = isqrt(high_ppm**2 + max(POWER_HIGH_PPM, variation_ppm) ** 2)
    energy_mj = divide(power.mean_mw * duration.p50, MILLION)
    return Range(
        divide(energy_mj * max(0, MILLION - low_ppm), MILLION),
        energy_mj,
        divide(energy_mj * (MILLION + high_ppm), MILLION),
    )


def _steps_before(series: StepSeries) -> int:
    """Return the steps up to the first event: more than one if the program counts in tens."""
    is_from_start = 0 < series.first <= max(1, series.events[1][1])
    return series.first if is_from_start else 1


def _startup_us(
    series: StepSeries,
    started_us: int,
    event: Tuple[int, int],
    step_us: int,
    evaluations: Sequence[Evaluation],
) -> int:
    """Return how much longer everything before an event took than its steps would take."""
    if not series.is_spread_known:
        return 0  # steps were not counted from the start
    steps_done = event[1] + _steps_before(series)
    evaluation_us = sum(item.length_us for item in evaluations if item.start_us < event[0])
    return max(0, event[0] - started_us - steps_done * step_us - evaluation_us)


def _durations(events: Sequence[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """Return µs per step of each interval with its number of steps."""
    return [
        (divide(end[0] - start[0], end[1] - start[1]), end[1] - start[1])
        for start, end in successive(events)
        if end[1] > start[1]
    ] or [(0, 1)]


def _evaluations(
    series: StepSeries, median_us: int, marks_us: Sequence[int]
) -> Tuple[Evaluation, ...]:
    """Return the evaluations: intervals that are longer than twice the usual time and contain a
    line about an evaluation or a restart of the counter.
    """
    evaluations = []
    for start, end in successive(series.events):
        steps = end[1] - start[1]
        usual_us = median_us * steps
        if steps <= 0 or end[0] - start[0] <= usual_us + max(median_us, 1):
            continue
        moments = (*marks_us, *series.restarts)
        if any(start[0] < moment_us <= end[0] for moment_us in moments):
            evaluations.append(Evaluation(start[0], end[0] - start[0] - usual_us, start[1]))
    return tuple(evaluations)


def _evaluation_steps(series: StepSeries, evaluations: Sequence[Evaluation]) -> Optional[int]:
    if len(evaluations) > 1:
        distances = [(later.step - earlier.step, 1) for earlier, later in successive(evaluations)]
        return max(1, weighted_quantile(distances, P50))
    if evaluations and series.first <= 1:
        return evaluations[0].step + 1
    return series.epoch_steps if evaluations else None


def _block_means(net: Sequence[Tuple[int, int, int]]) -> List[int]:
    """Return the mean µs per step of up to ten blocks of equally many intervals."""
    count = min(_BLOCKS, len(net))
    bounds = [len(net) * index // count for index in range(count + 1)]
    return [_mean_us(net[start:end]) for start, end in successive(bounds)]


def _standard_error_ppm(values: Sequence[int]) -> int:
    """Return the standard error of the mean relative to the mean, in ppm."""
    count = len(values)
    total = sum(values)
    if count < 2 or total <= 0:
        return 0
    squares = sum((value * count - total) ** 2 for value in values)  # count² × squared deviations
    return isqrt(squares * MILLION**2 // (count * (count - 1))) // total


def _steps(net: Sequence[Tuple[int, int, int]]) -> int:
    return sum(steps for _, _, steps in net)


def _mean_us(net: Sequence[Tuple[int, int, int]]) -> int:
    return divide(sum(length_us for _, length_us, _ in net), max(1, _steps(net)))
