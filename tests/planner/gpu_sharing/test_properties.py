"""Properties of sharing, and an oracle that tries every assignment."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.catalog.mig_profiles import MigCard
from apps.planner.gpu_sharing.jobs import SharedJob
from apps.planner.gpu_sharing.plans import SharingMode, Verdict, plan_sharing
from tests.planner.gpu_sharing.examples import (
    GB,
    card_names,
    full_job,
    jobs_strategy,
    mig_card,
    shared_card,
    small_job,
    use,
)


def able(jobs: Sequence[SharedJob]) -> list[SharedJob]:
    return [
        job
        for job in jobs
        if not job.is_distributed and job.memory_bytes is not None and job.busy is not None
    ]


def mean_sm(job: SharedJob) -> int:
    use = job.sm or job.busy
    assert use is not None
    return use.mean_ppm


def best_mig_saving(jobs: Sequence[SharedJob], card: MigCard) -> Fraction | None:
    """Try each profile, or none, for each job."""
    best = None
    for choice in product([None, *card.profiles], repeat=len(jobs)):
        placed = [(job, slice_) for job, slice_ in zip(jobs, choice, strict=True) if slice_]
        if len(placed) < 2:
            continue
        if sum(slice_.compute_slices for _, slice_ in placed) > card.compute_slices:
            continue
        if sum(slice_.memory_slices for _, slice_ in placed) > card.memory_slices:
            continue
        if any(10 * slice_.memory_bytes < 11 * (job.memory_bytes or 0) for job, slice_ in placed):
            continue
        ends = []
        for job, slice_ in placed:
            assert slice_.sm_count is not None
            assert card.sm_count is not None
            bandwidth = job.bandwidth.mean_ppm if job.bandwidth else 0
            slowdown = max(
                Fraction(1),
                Fraction(mean_sm(job) * card.sm_count, slice_.sm_count * 10**6),
                Fraction(bandwidth * card.memory_slices, slice_.memory_slices * 10**6),
            )
            ends.append(slowdown * job.duration_us)
        saved = sum(job.duration_us for job, _ in placed) - max(ends)
        best = saved if best is None else max(best, saved)
    return best


def best_shared_saving(jobs: Sequence[SharedJob], memory: int, mps: bool) -> Fraction | None:
    """Try each group, and run it until the last job has no work left."""
    best = None
    for size in range(2, len(jobs) + 1):
        for group in combinations(jobs, size):
            if 11 * sum(job.memory_bytes or 0 for job in group) > 10 * memory:
                continue
            if mps and len({job.user for job in group}) > 1:
                continue
            left = {job.key: Fraction(job.duration_us) for job in group}
            now = Fraction(0)
            while left:
                running = [job for job in group if job.key in left]
                if mps:
                    compute = sum(mean_sm(job) for job in running)
                    memory_use = sum(
                        job.bandwidth.mean_ppm if job.bandwidth else 0 for job in running
                    )
                    rate = 1 / max(Fraction(1), Fraction(max(compute, memory_use), 10**6))
                else:
                    busy = sum(job.busy.mean_ppm if job.busy else 0 for job in running)
                    rate = 1 / max(Fraction(1), Fraction(busy, 10**6))
                step = min(left.values()) / rate
                now += step
                left = {key: rest - step * rate for key, rest in left.items() if rest > step * rate}
            saved = sum(job.duration_us for job in group) - now
            best = saved if best is None else max(best, saved)
    return best


@settings(max_examples=150, deadline=None)
@given(jobs_strategy(most=4), card_names())
def test_no_assignment_saves_more(jobs: list[SharedJob], name: str) -> None:
    card = shared_card(name)
    assert card.mig is not None
    oracles = {
        SharingMode.MIG: best_mig_saving(able(jobs), card.mig),
        SharingMode.MPS: best_shared_saving(able(jobs), card.memory_bytes, mps=True),
        SharingMode.TIME_SLICING: best_shared_saving(able(jobs), card.memory_bytes, mps=False),
    }
    for mode, best in oracles.items():
        plan = plan_sharing(mode, jobs, card)
        if best is None:
            assert plan.verdict == Verdict.DOES_NOT_FIT
            continue
        assert plan.shared_us is not None
        assert plan.shared_us.likely == (plan.alone_us - best + Fraction(1, 2)) // 1


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 12), st.integers(0, 11)), max_size=6),
)
def test_no_assignment_saves_more_where_slices_are_scarce(
    jobs: list[tuple[int, int, int]],
) -> None:
    """Up to six jobs of 0 to 60 % use on the four slices of an A30."""
    card = shared_card("NVIDIA A30")
    assert card.mig is not None
    candidates = [
        replace(
            small_job(str(index), hours=hours),
            busy=use(twentieths * 50_000),
            bandwidth=use(0),
            memory_bytes=memory * GB,
        )
        for index, (hours, twentieths, memory) in enumerate(jobs)
    ]
    plan = plan_sharing(SharingMode.MIG, candidates, card)
    best = best_mig_saving(candidates, card.mig)
    assert (plan.shared_us is None) == (best is None)
    if plan.shared_us is not None and best is not None:
        assert plan.shared_us.likely == (plan.alone_us - best + Fraction(1, 2)) // 1


@settings(max_examples=150, deadline=None)
@given(jobs_strategy(most=8), card_names(), st.sampled_from(SharingMode))
def test_nothing_is_packed_too_tightly(jobs: list[SharedJob], name: str, mode: SharingMode) -> None:
    card = shared_card(name)
    plan = plan_sharing(mode, jobs, card)
    by_key = {job.key: job for job in jobs}
    placed = [by_key[place.key] for place in plan.places]
    assert len(placed) != 1
    assert sorted(by_key) == sorted(
        [place.key for place in plan.places] + [each.key for each in plan.left_out]
    )
    assert not any(job.is_distributed for job in placed)
    if mode is SharingMode.MIG:
        profiles = {profile.name: profile for profile in mig_card(name).profiles}
        used = [profiles[place.profile] for place in plan.places]
        assert sum(each.compute_slices for each in used) <= mig_card(name).compute_slices
        assert sum(each.memory_slices for each in used) <= mig_card(name).memory_slices
        for each in used:
            assert used.count(each) <= each.max_instances
        for job, each in zip(placed, used, strict=True):
            assert (job.memory_bytes or 0) * 11 <= each.memory_bytes * 10
    else:
        assert sum(job.memory_bytes or 0 for job in placed) * 11 <= card.memory_bytes * 10
    if mode is SharingMode.MPS:
        assert len({job.user for job in placed}) <= 1
    if plan.saved_mj is not None:
        assert plan.shared_us is not None
        longest = max((job.duration_us for job in placed), default=0)
        assert longest <= plan.shared_us.low
        assert plan.saved_mj.high <= plan.alone_mj
        assert (plan.verdict == Verdict.GAIN) == (plan.saved_mj.low > 0)


@settings(max_examples=100, deadline=None)
@given(
    jobs_strategy(most=5),
    card_names(),
    st.sampled_from(SharingMode),
    st.data(),
    st.integers(1, 40),
)
def test_more_memory_never_fits_better(
    jobs: list[SharedJob], name: str, mode: SharingMode, data: st.DataObject, more: int
) -> None:
    card = shared_card(name)
    before = plan_sharing(mode, jobs, card)
    if not jobs:
        return
    index = data.draw(st.integers(0, len(jobs) - 1))
    memory = jobs[index].memory_bytes
    if memory is None:
        return
    larger = [*jobs]
    larger[index] = replace(jobs[index], memory_bytes=memory + more * GB)
    after = plan_sharing(mode, larger, card)
    if after.shared_us is not None:
        assert before.shared_us is not None
        saved_before = before.alone_us - before.shared_us.likely
        assert after.alone_us - after.shared_us.likely <= saved_before


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=7),
    st.sampled_from(["NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"]),
    st.sampled_from(SharingMode),
)
def test_small_jobs_gain(hours: list[int], name: str, mode: SharingMode) -> None:
    jobs = [small_job(str(index), hours=count) for index, count in enumerate(hours)]
    plan = plan_sharing(mode, jobs, shared_card(name))
    assert plan.verdict == Verdict.GAIN
    assert len(plan.places) == len(jobs)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=7), card_names(), st.sampled_from(SharingMode)
)
def test_full_jobs_do_not_gain(hours: list[int], name: str, mode: SharingMode) -> None:
    jobs = [
        replace(
            full_job(str(index)),
            memory_bytes=2 * GB,
            duration_us=count * 3_600_000_000,
            gpu_mj=count * 400_000 * 3600,
        )
        for index, count in enumerate(hours)
    ]
    assert plan_sharing(mode, jobs, shared_card(name)).verdict == Verdict.NO_GAIN
