"""Packing of jobs onto the MIG slices of one card. Pure.

Saved is time on the card: the jobs one after another, less the longest of them on its slice. The
packing that saves most is found exactly: for each possible longest time, a knapsack over compute
and memory slices takes the jobs with the most work.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from apps.catalog.mig_profiles import MigCard, MigProfile
from apps.planner.gpu_sharing.jobs import SharedJob, is_memory_enough
from apps.planner.gpu_sharing.slowdown import Exact, slice_slowdown


@dataclass(frozen=True, slots=True)
class SliceChoice:
    """A job on a slice of its own."""

    job: SharedJob
    profile: MigProfile
    slowdown: Exact

    @property
    def likely_us(self) -> Fraction:
        return self.job.duration_us * self.slowdown.likely


def slice_choices(job: SharedJob, card: MigCard) -> list[SliceChoice]:
    """Return the slices whose memory is enough for the job. Slices with an unknown number of SMs
    are omitted.
    """
    return [
        SliceChoice(job, profile, slowdown)
        for profile in card.profiles
        if is_memory_enough(profile.memory_bytes, job.memory_bytes or 0)
        and (slowdown := slice_slowdown(job, card, profile)) is not None
    ]


def pack_slices(jobs: Sequence[SharedJob], card: MigCard) -> tuple[SliceChoice, ...]:
    """Return the packing of two or more jobs that saves most time, even if that is negative. Of
    equal ones, that with more jobs, then fewer slices. Empty if no two jobs fit.
    """
    choices = [slice_choices(job, card) for job in jobs]
    times = sorted({choice.likely_us for each in choices for choice in each})
    best: tuple[tuple[Fraction, int, int], tuple[SliceChoice, ...]] | None = None
    for longest_us in times:
        for packing in _packings(choices, card, longest_us):
            rank = _rank(packing)
            if best is None or rank > best[0]:
                best = rank, packing
    return best[1] if best else ()


def saved_us(packing: Sequence[SliceChoice]) -> Fraction:
    """Return the time on the card that a packing saves."""
    alone = sum(choice.job.duration_us for choice in packing)
    return alone - max(choice.likely_us for choice in packing)


def _rank(packing: tuple[SliceChoice, ...]) -> tuple[Fraction, int, int]:
    return saved_us(packing), len(packing), -sum(each.profile.compute_slices for each in packing)


def _packings(
    choices: Sequence[Sequence[SliceChoice]], card: MigCard, longest_us: Fraction
) -> Iterator[tuple[SliceChoice, ...]]:
    """Yield, for each number of used slices, the packing of two or more jobs with the most work of
    which none takes longer.
    """
    # Most work of (compute slices, memory slices, one job or more than one).
    best: dict[tuple[int, int, int], tuple[SliceChoice, ...]] = {(0, 0, 0): ()}
    for options in choices:
        allowed = [each for each in options if each.likely_us <= longest_us]
        if not allowed:
            continue
        choice = min(allowed, key=_slices)  # uses no more of either kind than any other
        for (compute, memory, count), packing in list(best.items()):
            state = (
                compute + choice.profile.compute_slices,
                memory + choice.profile.memory_slices,
                min(2, count + 1),
            )
            longer = (*packing, choice)
            if state[0] > card.compute_slices or state[1] > card.memory_slices:
                continue
            if state not in best or _work(longer) > _work(best[state]):
                best[state] = longer
    for (_, _, count), packing in best.items():
        if count > 1:
            yield packing


def _slices(choice: SliceChoice) -> tuple[int, int]:
    return choice.profile.compute_slices, choice.profile.memory_slices


def _work(packing: Sequence[SliceChoice]) -> tuple[int, int]:
    return sum(choice.job.duration_us for choice in packing), len(packing)
