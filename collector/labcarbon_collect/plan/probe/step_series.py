"""Steps of a training from what can be observed: its own reports, its output, or the rhythm of
sampled series. Pure.
"""

from __future__ import annotations

from collections import Counter as Count
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from labcarbon_collect.plan.probe.autocorrelation import Period, find_period
from labcarbon_collect.plan.probe.progress_lines import (
    EPOCH,
    is_evaluation,
    line_shape,
    parse_counters,
)
from labcarbon_collect.plan.probe.statistics import StepSeries, successive

REPORTS, OUTPUT, LINES = "reports", "output", "lines"
_MIN_COUNTS, _MIN_LINES, _MIN_EPOCHS = 4, 8, 4
# A program that prints "val_loss" in each line does not evaluate at each line.
_MAX_EVALUATION_SHARE = 3  # one third
Moment = Tuple[int, int]  # (µs, number of the step)
Line = Tuple[int, str]  # (µs, text)


class Samples(NamedTuple):
    """A series with equal intervals."""

    name: str
    start_us: int
    interval_us: int
    values: Sequence[int]


def find_steps(
    reports: Sequence[Moment], lines: Sequence[Line], sampled: Sequence[Samples]
) -> Optional[StepSeries]:
    """Return the steps from the best of three observations: reports of ``track``, counters or
    repeated lines in the output, the clearest rhythm of a sampled series.
    """
    return (
        steps_of_reports(reports)
        or steps_of_output(lines)
        or steps_of_lines(lines)
        or steps_of_rhythm(sampled)
    )


def steps_of_reports(reports: Sequence[Moment]) -> Optional[StepSeries]:
    """Return the steps that ``track`` or a callback reported."""
    events, restarts = _accumulate(reports, None)
    if len(events) < _MIN_COUNTS:
        return None
    return StepSeries(REPORTS, "steps reported with track", events, restarts, reports[0][1])


def steps_of_output(lines: Sequence[Line]) -> Optional[StepSeries]:
    """Return the steps of the counter that advances most often. Epochs count as steps if nothing
    else does.
    """
    counters: Dict[Tuple[str, Optional[int]], List[Moment]] = {}
    for at_us, text in lines:
        for counter in parse_counters(text):
            if not counter.is_evaluation:
                key = (counter.label, counter.total)
                counters.setdefault(key, []).append((at_us, counter.value))
    candidates = []
    for (label, total), moments in counters.items():
        events, restarts = _accumulate(moments, total)
        is_epoch = label == EPOCH
        if len(events) >= (_MIN_EPOCHS if is_epoch else _MIN_COUNTS):
            rank = (not is_epoch, len(events), total is not None)
            candidates.append((rank, label, total, moments, events, restarts))
    if not candidates:
        return None
    _, label, total, moments, events, restarts = max(candidates, key=lambda row: row[0])
    name = " ".join(part for part in (label, str(moments[-1][1])) if part)
    return StepSeries(
        OUTPUT,
        f"{name}/{total}" if total else name,
        events,
        restarts,
        moments[0][1],
        1 if label == EPOCH else total,
    )


def steps_of_lines(lines: Sequence[Line]) -> Optional[StepSeries]:
    """Return the steps of the most frequent line, numbers in it apart."""
    shapes = Count(shape for shape in map(line_shape, (text for _, text in lines)) if shape)
    if not shapes:
        return None
    shape, count = shapes.most_common(1)[0]
    if count < _MIN_LINES or is_evaluation(shape):
        return None
    moments = [at_us for at_us, text in lines if line_shape(text) == shape]
    events = tuple((at_us, index) for index, at_us in enumerate(moments))
    return StepSeries(LINES, f'lines "{shape[:60]}"', events)


def steps_of_rhythm(sampled: Sequence[Samples]) -> Optional[StepSeries]:
    """Return equally spaced steps of the clearest rhythm."""
    best: Optional[Tuple[Period, Samples]] = None
    for samples in sampled:
        period = find_period(samples.values, samples.interval_us)
        if period and (best is None or period.strength_ppm > best[0].strength_ppm):
            best = (period, samples)
    if best is None:
        return None
    period, samples = best
    length_us = samples.interval_us * len(samples.values)
    events = tuple(
        (samples.start_us + index * period.length_us, index)
        for index in range(length_us // period.length_us + 1)
    )
    return StepSeries(samples.name, f"rhythm of the {samples.name}", events, is_spread_known=False)


def evaluation_marks(lines: Sequence[Line]) -> List[int]:
    """Return the moments of lines about an evaluation, none if a third of all lines is."""
    marks = [at_us for at_us, text in lines if is_evaluation(text)]
    return marks if len(marks) * _MAX_EVALUATION_SHARE < len(lines) else _bar_marks(lines)


def equal_intervals(points: Sequence[Moment], interval_us: int, name: str) -> Samples:
    """Return a series with equal intervals from readings (µs, value): the last value up to each
    point in time.
    """
    if not points:
        return Samples(name, 0, interval_us, ())
    start_us, values, index = points[0][0], [], 0
    for at_us in range(start_us, points[-1][0] + 1, interval_us):
        while index + 1 < len(points) and points[index + 1][0] <= at_us:
            index += 1
        values.append(points[index][1])
    return Samples(name, start_us, interval_us, values)


def sampled_series(
    totals: Mapping[str, Sequence[Moment]],
    gauges: Mapping[str, Sequence[Moment]],
    *,
    from_us: int,
    interval_us: int,
    gauge_interval_us: int,
) -> List[Samples]:
    """Return the series in which a rhythm is looked for, from ``from_us`` on."""
    series = []
    for name, points in totals.items():
        readings = [point for point in points if point[0] >= from_us]
        samples = equal_intervals(readings, interval_us, name)
        values = [max(0, b - a) for a, b in successive(samples.values)]
        series.append(samples._replace(values=values))
    for name, points in gauges.items():
        readings = [point for point in points if point[0] >= from_us]
        series.append(equal_intervals(readings, gauge_interval_us, name))
    return series


def _bar_marks(lines: Sequence[Line]) -> List[int]:
    return [
        at_us
        for at_us, text in lines
        if any(counter.is_evaluation for counter in parse_counters(text))
    ]


def _accumulate(
    moments: Sequence[Moment], total: Optional[int]
) -> Tuple[Tuple[Moment, ...], Tuple[int, ...]]:
    """Return steps since the first moment, over restarts of the counter, and the restarts. Moments
    without progress are left out.
    """
    if not moments:
        return (), ()
    values = [value for _, value in moments]
    starts_at_zero = 0 in values and (total is None or max(values) < total)
    events, restarts, done = [(moments[0][0], 0)], [], 0
    for (_, before), (at_us, value) in successive(moments):
        if value < before:
            restarts.append(at_us)
        step = value - before if value >= before else value + (1 if starts_at_zero else 0)
        done += step
        if step > 0:
            events.append((at_us, done))
    return tuple(events), tuple(restarts)
