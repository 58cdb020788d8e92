"""Predicted slowdown of a job on a part of a card. Pure.

The model: ``max(1, SM use ÷ share of SMs, bandwidth use ÷ share of memory)``. Likely takes mean
use. Low is a tenth below it. High takes the 95th percentiles and a tenth more. Published
measurements of a job that fills an A100 (FP16 matrix products on slices of 14, 28, 42 of 108 SMs)
are 4 to 6 % below the model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from apps.catalog.mig_profiles import MigCard, MigProfile
from apps.core.units import PPM
from apps.planner.gpu_sharing.jobs import SharedJob

ERROR_PERCENT = 10


@dataclass(frozen=True, slots=True)
class SlowdownModel:
    """A model with its name. All sums are over the jobs that run at the same time."""

    name: str
    formula: str


FIXED_SHARE = SlowdownModel(
    "Fixed share", "max(1, SM use ÷ share of SMs, bandwidth use ÷ share of memory)"
)
DIVIDED_SMS = SlowdownModel("Divided SMs", "max(1, sum of SM use, sum of bandwidth use)")
DIVIDED_TIME = SlowdownModel("Divided time", "max(1, sum of the time in which a kernel ran)")


@dataclass(frozen=True, slots=True)
class Exact:
    """An exact result with its range, before rounding."""

    low: Fraction
    likely: Fraction
    high: Fraction


def slice_slowdown(job: SharedJob, card: MigCard, profile: MigProfile) -> Exact | None:
    """Return the slowdown on a slice. None: the number of SMs is unknown."""
    if profile.sm_count is None or card.sm_count is None:
        return None
    compute = Fraction(profile.sm_count, card.sm_count)
    memory = Fraction(profile.memory_slices, card.memory_slices)
    likely = max(job.likely_sm_ppm / compute, job.likely_bandwidth_ppm / memory) / PPM
    high = max(job.high_sm_ppm / compute, job.high_bandwidth_ppm / memory) / PPM
    return _with_error(likely, high)


def mps_finish_times(jobs: Sequence[SharedJob]) -> tuple[Exact, ...]:
    """Return when each job ends, in µs. Jobs share SMs and bandwidth; what is scarce is divided in
    proportion to its use.
    """
    return _finish_times(
        jobs,
        likely=[(job.likely_sm_ppm, job.likely_bandwidth_ppm) for job in jobs],
        high=[(job.high_sm_ppm, job.high_bandwidth_ppm) for job in jobs],
    )


def time_slicing_finish_times(jobs: Sequence[SharedJob]) -> tuple[Exact, ...]:
    """Return when each job ends, in µs. Kernels of different jobs take turns, so their time is
    divided.
    """
    uses = [job.busy for job in jobs]
    return _finish_times(
        jobs,
        likely=[(use.mean_ppm if use else PPM,) for use in uses],
        high=[(use.p95_ppm if use else PPM,) for use in uses],
    )


def _finish_times(
    jobs: Sequence[SharedJob], *, likely: Sequence[Sequence[int]], high: Sequence[Sequence[int]]
) -> tuple[Exact, ...]:
    durations = [job.duration_us for job in jobs]
    cases = (
        _end_times(durations, likely, 100 - ERROR_PERCENT),
        _end_times(durations, likely, 100),
        _end_times(durations, high, 100 + ERROR_PERCENT),
    )
    return tuple(Exact(*times) for times in zip(*cases, strict=True))


def _end_times(
    durations_us: Sequence[int], uses_ppm: Sequence[Sequence[int]], percent: int
) -> list[Fraction]:
    """Return when each job ends. All start together and slow down alike; when one ends, the others
    gain what it used.
    """
    ends = [Fraction(0)] * len(durations_us)
    time, done_us = Fraction(0), 0
    for done_next_us in sorted(set(durations_us)):
        active = [index for index, duration in enumerate(durations_us) if duration > done_us]
        time += (done_next_us - done_us) * _slowdown((uses_ppm[index] for index in active), percent)
        for index in active:
            if durations_us[index] == done_next_us:
                ends[index] = time
        done_us = done_next_us
    return ends


def _slowdown(uses_ppm: Iterable[Sequence[int]], percent: int) -> Fraction:
    most = max(sum(parts) for parts in zip(*uses_ppm, strict=True))
    return max(Fraction(1), Fraction(most * percent, PPM * 100))


def _with_error(likely: Fraction, high: Fraction) -> Exact:
    down, up = Fraction(100 - ERROR_PERCENT, 100), Fraction(100 + ERROR_PERCENT, 100)
    return Exact(
        max(Fraction(1), likely * down), max(Fraction(1), likely), max(Fraction(1), high * up)
    )
