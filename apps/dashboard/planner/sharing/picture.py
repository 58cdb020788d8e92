"""A picture of a plan: time to the right, the SMs of the card from top to bottom. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from apps.core.units import PPM
from apps.planner.gpu_sharing.jobs import SharedJob
from apps.planner.gpu_sharing.plans import SharingMode, SharingPlan

COLOURS = ("s1", "s2", "s3", "s4", "s5", "s6", "s-more", "s-overhead")


@dataclass(frozen=True)
class Lane:
    """SMs that a job has for a time, in percent of the picture. ``used``: the part of them that it
    uses, in percent of the lane, None unknown. ``place``: among the lanes below each other.
    """

    key: str
    number: int
    colour: str
    left: str
    top: str
    width: str
    height: str
    used: str | None
    place: int = 0


@dataclass(frozen=True)
class Share:
    """A share of the card for a job, in ppm of its SMs, and the time that it ends."""

    key: str
    sm_ppm: int
    used_ppm: int | None
    end_us: int


def alone_lanes(jobs: Sequence[SharedJob], numbers: Mapping[str, int], whole_us: int) -> list[Lane]:
    """Return jobs one after another, each on the whole card. ``whole_us``: the scale."""
    return list(_one_after_another(jobs, 0, whole_us, numbers))


def plan_lanes(
    plan: SharingPlan,
    jobs: Sequence[SharedJob],
    later: Sequence[SharedJob],
    slice_sms_ppm: Mapping[str, int],
    numbers: Mapping[str, int],
    whole_us: int,
) -> list[Lane]:
    """Return jobs side by side, then ``later`` ones alone. ``slice_sms_ppm``: SMs of a slice by
    profile.
    """
    if plan.shared_us is None:
        return []
    lanes = list(_side_by_side(_shares(plan, jobs, slice_sms_ppm), whole_us, numbers))
    return [*lanes, *_one_after_another(later, plan.shared_us.likely, whole_us, numbers)]


def _shares(
    plan: SharingPlan, jobs: Sequence[SharedJob], slice_sms_ppm: Mapping[str, int]
) -> list[Share]:
    by_key = {job.key: job for job in jobs}
    uses = [_use_ppm(plan.mode, by_key[place.key]) for place in plan.places]
    whole = max(PPM, sum(uses))
    return [
        Share(place.key, slice_sms_ppm[place.profile], use, place.duration_us.likely)
        if place.profile
        else Share(place.key, use * PPM // whole, use * PPM // whole, place.duration_us.likely)
        for place, use in zip(plan.places, uses, strict=True)
    ]


def _use_ppm(mode: SharingMode, job: SharedJob) -> int:
    """Return what a job uses of the card: SMs, or the time in which a kernel ran."""
    if mode is SharingMode.TIME_SLICING and job.busy:
        return job.busy.mean_ppm
    return job.likely_sm_ppm


def _side_by_side(
    shares: Iterable[Share], whole_us: int, numbers: Mapping[str, int]
) -> Iterator[Lane]:
    top_ppm = 0
    for place, share in enumerate(shares):
        used_ppm = min(share.used_ppm or 0, share.sm_ppm)
        yield Lane(
            share.key,
            numbers[share.key],
            _colour(numbers[share.key]),
            "0",
            _percent(top_ppm, PPM),
            _percent(share.end_us, whole_us),
            _percent(share.sm_ppm, PPM),
            _percent(used_ppm, share.sm_ppm),
            place,
        )
        top_ppm += share.sm_ppm


def _one_after_another(
    jobs: Iterable[SharedJob], start_us: int, whole_us: int, numbers: Mapping[str, int]
) -> Iterator[Lane]:
    for job in jobs:
        is_known = job.sm is not None or job.busy is not None
        yield Lane(
            job.key,
            numbers[job.key],
            _colour(numbers[job.key]),
            _percent(start_us, whole_us),
            "0",
            _percent(job.duration_us, whole_us),
            "100",
            _percent(job.likely_sm_ppm, PPM) if is_known else None,
        )
        start_us += job.duration_us


def _colour(number: int) -> str:
    return COLOURS[number - 1]


def _percent(part: int, whole: int) -> str:
    return f"{Decimal(100 * part) / whole:.2f}" if whole else "0"
