"""Plans of sharing one card, with slowdown and saved energy. Pure.

Energy has two parts: the idle power of the card for as long as jobs run on it, and the dynamic
energy of each job, which sharing does not change. So sharing saves idle power × (time one after
another − time side by side). Energy of the node is not included.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from itertools import combinations

from apps.core.units import PPM
from apps.planner.gpu_sharing.jobs import (
    MAX_JOBS,
    LeftOutReason,
    Range,
    SharedCard,
    SharedJob,
    is_memory_enough,
    job_obstacle,
)
from apps.planner.gpu_sharing.slices import pack_slices, slice_choices
from apps.planner.gpu_sharing.slowdown import (
    DIVIDED_SMS,
    DIVIDED_TIME,
    FIXED_SHARE,
    Exact,
    SlowdownModel,
    mps_finish_times,
    time_slicing_finish_times,
)

_NJ_PER_MJ = 1_000_000  # mW × µs = nJ


class SharingMode(StrEnum):
    """How jobs share a card."""

    MIG = "mig"
    MPS = "mps"  # of one user only
    TIME_SLICING = "time_slicing"


MODELS = {
    SharingMode.MIG: FIXED_SHARE,
    SharingMode.MPS: DIVIDED_SMS,
    SharingMode.TIME_SLICING: DIVIDED_TIME,
}


class Verdict(StrEnum):
    """Whether sharing saves energy, or time if the idle power is unknown. ``uncertain``: the likely
    saving is positive, its low end is not.
    """

    GAIN = "gain"
    UNCERTAIN = "uncertain"
    NO_GAIN = "no_gain"
    DOES_NOT_FIT = "does_not_fit"
    NO_SLICES = "no_slices"  # the card has no MIG, or its slices are unknown
    UNKNOWN_SMS = "unknown_sms"  # no number of SMs from the driver or the table


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """A job on the shared card. ``profile`` is '' without slices."""

    key: str
    profile: str
    slowdown_ppm: Range
    duration_us: Range


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A job that does not share the card."""

    key: str
    reason: LeftOutReason


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """Jobs side by side on one card, against the same jobs one after another on the whole card.

    Ranges are None if no two jobs share. ``alone_mj`` None: the energy of a job is unknown.
    ``saved_mj`` None: also if the idle power is unknown.
    """

    mode: SharingMode
    verdict: Verdict
    places: tuple[SharedPlace, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    alone_us: int = 0
    alone_mj: int | None = 0
    shared_us: Range | None = None
    saved_mj: Range | None = None

    @property
    def model(self) -> SlowdownModel:
        """Return the model that predicts the slowdown."""
        return MODELS[self.mode]

    @property
    def saved_us(self) -> Range | None:
        """Return the time on the card that sharing saves; negative if it takes longer."""
        if self.shared_us is None:
            return None
        shared = self.shared_us
        return Range(
            self.alone_us - shared.high, self.alone_us - shared.likely, self.alone_us - shared.low
        )


_Placed = tuple[SharedJob, str, Exact]  # job, profile, and its end in µs


def compare_sharing(jobs: Sequence[SharedJob], card: SharedCard) -> tuple[SharingPlan, ...]:
    """Return a plan for each mode, the one that likely saves most first."""
    plans = [plan_sharing(mode, jobs, card) for mode in SharingMode]
    return tuple(sorted(plans, key=_order))


def _order(plan: SharingPlan) -> int:
    """Return the saved energy, else the saved time, of all plans of one card, negated."""
    saved = plan.saved_mj or plan.saved_us
    return -saved.likely if saved else 2**63


def plan_sharing(mode: SharingMode, jobs: Sequence[SharedJob], card: SharedCard) -> SharingPlan:
    """Return the plan of two or more jobs that saves most time on the card."""
    if len(jobs) > MAX_JOBS:
        raise ValueError(f"{len(jobs)} jobs are more than {MAX_JOBS}")
    if len({job.key for job in jobs}) < len(jobs):
        raise ValueError("two jobs have the same key")
    able = [job for job in jobs if job_obstacle(job) is None]
    placed, verdict = _place(mode, able, card)
    left_out = tuple(_left_out(mode, jobs, card, placed, verdict))
    if not placed:
        return SharingPlan(mode, verdict, left_out=left_out)
    alone_us = sum(job.duration_us for job, _, _ in placed)
    shared = Exact(
        max(end.low for _, _, end in placed),
        max(end.likely for _, _, end in placed),
        max(end.high for _, _, end in placed),
    )
    energies = [job.gpu_mj for job, _, _ in placed if job.gpu_mj is not None]
    plan = SharingPlan(
        mode=mode,
        verdict=Verdict.NO_GAIN,
        places=tuple(
            SharedPlace(
                job.key, profile, _rounded(end, Fraction(PPM, job.duration_us)), _rounded(end)
            )
            for job, profile, end in placed
        ),
        left_out=left_out,
        alone_us=alone_us,
        alone_mj=sum(energies) if len(energies) == len(placed) else None,
        shared_us=_rounded(shared),
        saved_mj=_saved_mj(alone_us, shared, _baseline_mw(placed, card.idle_mw))
        if card.idle_mw
        else None,
    )
    saved = plan.saved_mj or plan.saved_us
    assert saved is not None, "jobs were placed"
    return replace(plan, verdict=_verdict(saved))


def _place(
    mode: SharingMode, jobs: Sequence[SharedJob], card: SharedCard
) -> tuple[tuple[_Placed, ...], Verdict]:
    """Return the jobs that share, and the verdict if none do: why it is so."""
    if mode is not SharingMode.MIG:
        return _place_side_by_side(mode, jobs, card), Verdict.DOES_NOT_FIT
    if card.mig is None:
        return (), Verdict.NO_SLICES
    if card.mig.sm_count is None or all(each.sm_count is None for each in card.mig.profiles):
        return (), Verdict.UNKNOWN_SMS
    return tuple(
        (choice.job, choice.profile.name, _times(choice.slowdown, choice.job.duration_us))
        for choice in pack_slices(jobs, card.mig)
    ), Verdict.DOES_NOT_FIT


def _place_side_by_side(
    mode: SharingMode, jobs: Sequence[SharedJob], card: SharedCard
) -> tuple[_Placed, ...]:
    finish_times = mps_finish_times if mode is SharingMode.MPS else time_slicing_finish_times
    best: tuple[tuple[Fraction, int], tuple[_Placed, ...]] | None = None
    for group in _groups(mode, jobs, card):
        ends = finish_times(group)
        saved_us = sum(job.duration_us for job in group) - max(end.likely for end in ends)
        rank = saved_us, len(group)
        if best is None or rank > best[0]:
            best = rank, tuple((job, "", end) for job, end in zip(group, ends, strict=True))
    return best[1] if best else ()


def _groups(
    mode: SharingMode, jobs: Sequence[SharedJob], card: SharedCard
) -> Iterator[tuple[SharedJob, ...]]:
    """Yield the groups of two or more jobs that can run side by side."""
    for size in range(2, len(jobs) + 1):
        for group in combinations(jobs, size):
            if mode is SharingMode.MPS and len({job.user for job in group}) > 1:
                continue
            if is_memory_enough(card.memory_bytes, *(job.memory_bytes or 0 for job in group)):
                yield group


def _left_out(
    mode: SharingMode,
    jobs: Sequence[SharedJob],
    card: SharedCard,
    placed: Sequence[_Placed],
    verdict: Verdict,
) -> Iterator[LeftOut]:
    keys = {job.key for job, _, _ in placed}
    users = {job.user for job, _, _ in placed}
    for job in jobs:
        if job.key in keys:
            continue
        reason = job_obstacle(job)
        if reason is None and verdict is Verdict.DOES_NOT_FIT:
            if not _has_room(mode, job, card):
                reason = LeftOutReason.MEMORY
            elif not placed:
                reason = LeftOutReason.NO_PARTNER
            elif mode is SharingMode.MPS and job.user not in users:
                reason = LeftOutReason.OTHER_USER
            else:
                reason = LeftOutReason.NO_GAIN
        if reason is not None:
            yield LeftOut(job.key, reason)


def _has_room(mode: SharingMode, job: SharedJob, card: SharedCard) -> bool:
    """Return whether the memory of a slice, or of the card, is enough for the job alone."""
    if mode is SharingMode.MIG and card.mig is not None:
        return bool(slice_choices(job, card.mig))
    return is_memory_enough(card.memory_bytes, job.memory_bytes or 0)


def _times(slowdown: Exact, duration_us: int) -> Exact:
    return Exact(
        slowdown.low * duration_us, slowdown.likely * duration_us, slowdown.high * duration_us
    )


def _baseline_mw(placed: Sequence[_Placed], idle: Range) -> tuple[Fraction, Fraction, Fraction]:
    """Return the idle power: low, likely, high. It is at most the mean power of each job, which
    contains it.
    """
    means = [
        Fraction(job.gpu_mj * _NJ_PER_MJ, job.duration_us)
        for job, _, _ in placed
        if job.gpu_mj is not None
    ]
    low, likely, high = (
        min([Fraction(power), *means]) for power in (idle.low, idle.likely, idle.high)
    )
    return low, likely, high


def _saved_mj(alone_us: int, shared: Exact, idle_mw: tuple[Fraction, Fraction, Fraction]) -> Range:
    low_mw, likely_mw, high_mw = idle_mw
    least_us, most_us = alone_us - shared.high, alone_us - shared.low
    return Range(
        _half_up(least_us * (high_mw if least_us < 0 else low_mw) / _NJ_PER_MJ),
        _half_up((alone_us - shared.likely) * likely_mw / _NJ_PER_MJ),
        _half_up(most_us * (low_mw if most_us < 0 else high_mw) / _NJ_PER_MJ),
    )


def _verdict(saved: Range) -> Verdict:
    if saved.low > 0:
        return Verdict.GAIN
    return Verdict.UNCERTAIN if saved.likely > 0 else Verdict.NO_GAIN


def _rounded(exact: Exact, factor: Fraction = Fraction(1)) -> Range:
    return Range(
        _half_up(exact.low * factor), _half_up(exact.likely * factor), _half_up(exact.high * factor)
    )


def _half_up(value: Fraction) -> int:
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)
