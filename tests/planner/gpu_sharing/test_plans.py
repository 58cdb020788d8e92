"""Sharing a card: hand-computed cases, refusals and unknown values."""

from dataclasses import replace
from fractions import Fraction

import pytest

from apps.planner.gpu_sharing.jobs import LeftOutReason, Range, SharedCard, SharedJob, Use
from apps.planner.gpu_sharing.plans import (
    LeftOut,
    SharingMode,
    SharingPlan,
    Verdict,
    compare_sharing,
    plan_sharing,
)
from apps.planner.gpu_sharing.slowdown import slice_slowdown
from tests.planner.gpu_sharing.examples import GB, HOUR_US, full_job, shared_card, small_job, use

MIG, MPS, SLICING = SharingMode.MIG, SharingMode.MPS, SharingMode.TIME_SLICING
WH = 3_600_000  # mJ


def reasons(plan: SharingPlan) -> dict[str, str]:
    return {each.key: each.reason.value for each in plan.left_out}


def slices(plan: SharingPlan) -> dict[str, str]:
    return {place.key: place.profile for place in plan.places}


def test_seven_small_jobs_on_seven_slices() -> None:
    """10 % of 108 SMs and 10 % more are below 14 SMs: nothing slows down. Six idle hours of
    50 W ± 20 % are saved.
    """
    jobs = [small_job(str(number)) for number in range(7)]
    plan = plan_sharing(MIG, jobs, shared_card())
    assert plan.verdict == Verdict.GAIN
    assert set(slices(plan).values()) == {"1g.10gb"}
    assert {place.slowdown_ppm for place in plan.places} == {Range(1_000_000, 1_000_000, 1_000_000)}
    assert plan.alone_us == 7 * HOUR_US
    assert plan.shared_us == Range(HOUR_US, HOUR_US, HOUR_US)
    assert plan.alone_mj == 7 * 80 * WH
    assert plan.saved_mj == Range(240 * WH, 300 * WH, 360 * WH)


def test_an_eighth_job_has_no_slice() -> None:
    jobs = [small_job(str(number)) for number in range(8)]
    plan = plan_sharing(MIG, jobs, shared_card())
    assert len(plan.places) == 7
    assert [each.reason for each in plan.left_out] == [LeftOutReason.NO_GAIN]
    assert plan.alone_us == 7 * HOUR_US, "only jobs that share are compared"


def test_the_slowdown_of_a_job_that_fills_an_a100() -> None:
    """NJIT Wulver, FP16 matrix products on one slice of an A100 80GB: 38.7, 79.3 and 118.9 of
    286.2 TFLOPS, so 7.40, 3.61 and 2.41. The range contains each.
    """
    card = shared_card().mig
    assert card is not None
    profiles = {profile.name: profile for profile in card.profiles}
    job = replace(full_job("a"), bandwidth=use(0))
    for name, sms, tflops in (("1g.10gb", 14, 387), ("2g.20gb", 28, 793), ("3g.40gb", 42, 1189)):
        slowdown = slice_slowdown(job, card, profiles[name])
        assert slowdown is not None
        assert slowdown.likely == Fraction(108, sms)
        assert slowdown.low <= 2862 / tflops <= slowdown.high


@pytest.mark.parametrize("mode", SharingMode)
@pytest.mark.parametrize("name", ["NVIDIA A30", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_jobs_that_fill_the_card_do_not_gain(mode: SharingMode, name: str, count: int) -> None:
    jobs = [replace(full_job(str(number)), memory_bytes=2 * GB) for number in range(count)]
    plan = plan_sharing(mode, jobs, shared_card(name))
    assert plan.verdict == Verdict.NO_GAIN
    assert plan.saved_mj is not None
    assert plan.saved_mj.likely <= 0


def test_mps_divides_what_is_scarce_until_a_job_ends() -> None:
    """Uses of 60 % and 60 %: both take 1.2 times as long while both run. The first ends after 1.2
    h, the second had 1 h left: 2.2 h. Saved: 0.8 h × 50 W.
    """
    jobs = [
        replace(small_job("a"), busy=use(900_000), sm=use(600_000), bandwidth=use(0)),
        replace(small_job("b", hours=2), busy=use(900_000), sm=use(600_000), bandwidth=use(0)),
    ]
    plan = plan_sharing(MPS, jobs, shared_card())
    first, second = plan.places
    assert first.duration_us.likely == 12 * HOUR_US // 10
    assert first.slowdown_ppm.likely == 1_200_000
    assert second.duration_us.likely == 22 * HOUR_US // 10
    assert second.slowdown_ppm.likely == 1_100_000
    assert plan.saved_mj is not None
    assert plan.saved_mj.likely == 40 * WH
    sliced = plan_sharing(SLICING, jobs, shared_card())
    assert sliced.places[0].slowdown_ppm.likely == 1_800_000, "kernels take turns"


def test_mps_is_for_one_user() -> None:
    jobs = [small_job("a"), small_job("b"), small_job("c", "bob")]
    plan = plan_sharing(MPS, jobs, shared_card())
    assert {place.key for place in plan.places} == {"a", "b"}
    assert reasons(plan) == {"c": "other_user"}
    for mode in (MIG, SLICING):
        assert len(plan_sharing(mode, jobs, shared_card()).places) == 3
    alone = plan_sharing(MPS, [small_job("a"), small_job("c", "bob")], shared_card())
    assert alone.verdict == Verdict.DOES_NOT_FIT
    assert reasons(alone) == {"a": "no_partner", "c": "no_partner"}


def test_memory_needs_a_tenth_more() -> None:
    """9.0 GB × 1.1 fits a slice of 10 GB, 9.1 GB does not."""
    jobs = [replace(small_job(key), memory_bytes=9_090_909_090) for key in "ab"]
    assert set(slices(plan_sharing(MIG, jobs, shared_card())).values()) == {"1g.10gb"}
    jobs = [replace(small_job(key), memory_bytes=9_090_909_091) for key in "ab"]
    assert set(slices(plan_sharing(MIG, jobs, shared_card())).values()) == {"1g.20gb"}
    jobs = [replace(small_job(key), memory_bytes=36_363_636_364) for key in "abc"]
    for mode in SharingMode:
        plan = plan_sharing(mode, jobs[:2], shared_card())
        assert plan.verdict == Verdict.DOES_NOT_FIT
    huge = replace(small_job("h"), memory_bytes=73 * GB)
    assert reasons(plan_sharing(MIG, [huge, small_job("a")], shared_card())) == {
        "h": "memory",
        "a": "no_partner",
    }


@pytest.mark.parametrize("mode", SharingMode)
def test_refused_and_unknown_jobs(mode: SharingMode) -> None:
    jobs = [
        small_job("a"),
        small_job("b"),
        replace(small_job("d"), is_distributed=True),
        replace(small_job("m"), memory_bytes=None),
        replace(small_job("u"), busy=None),
        replace(small_job("x"), memory_bytes=400 * GB),
    ]
    plan = plan_sharing(mode, jobs, shared_card())
    assert {place.key for place in plan.places} == {"a", "b"}
    assert reasons(plan) == {
        "d": "distributed", "m": "unknown_memory", "u": "unknown_use", "x": "memory",
    }  # fmt: skip


def test_unknown_bandwidth_counts_in_the_high_end_only() -> None:
    """Bandwidth is at most used while kernels run: 90 % of the time. A slice has an eighth."""
    jobs = [
        replace(small_job(key), busy=Use(80_000, 900_000), sm=use(80_000), bandwidth=None)
        for key in "ab"
    ]
    place = plan_sharing(MIG, jobs, shared_card()).places[0]
    assert place.slowdown_ppm == Range(1_000_000, 1_000_000, 7_920_000)
    assert plan_sharing(MIG, jobs, shared_card()).verdict == Verdict.UNCERTAIN


def test_a_card_without_slices_and_one_without_sm_counts() -> None:
    jobs = [small_job("a"), small_job("b")]
    card = shared_card("NVIDIA B200")
    plan = plan_sharing(MIG, jobs, card)
    assert (plan.verdict, plan.places, plan.saved_mj) == (Verdict.UNKNOWN_SMS, (), None)
    assert card.mig is not None
    known = card.mig.with_driver_values(sm_count=148, profile_sm_counts={"1g.23gb": 18})
    assert plan_sharing(MIG, jobs, replace(card, mig=known)).verdict == Verdict.GAIN
    whole = SharedCard(memory_bytes=24 * GB, idle_mw=Range(20_000, 20_000, 20_000))
    assert plan_sharing(MIG, jobs, whole).verdict == Verdict.NO_SLICES
    assert plan_sharing(MPS, jobs, whole).verdict == Verdict.GAIN


def test_idle_power_is_at_most_the_power_of_a_job() -> None:
    """A job of 30 W mean power on a card of 50 W idle power: 30 W are saved."""
    jobs = [replace(small_job(key), gpu_mj=30_000 * 3600) for key in "ab"]
    plan = plan_sharing(MIG, jobs, shared_card())
    assert plan.saved_mj == Range(30 * WH, 30 * WH, 30 * WH)


def test_the_mode_that_saves_most_is_first() -> None:
    jobs = [small_job(str(number), user) for number, user in enumerate("aabbb")]
    plans = compare_sharing(jobs, shared_card())
    assert [plan.mode for plan in plans] == [MIG, SLICING, MPS]
    assert [len(plan.places) for plan in plans] == [5, 5, 3]
    nothing = compare_sharing([], shared_card())
    assert {plan.verdict for plan in nothing} == {Verdict.DOES_NOT_FIT}


def test_invalid_input() -> None:
    with pytest.raises(ValueError, match="8"):
        plan_sharing(MPS, [small_job(str(number)) for number in range(9)], shared_card())
    with pytest.raises(ValueError, match="same key"):
        plan_sharing(MPS, [small_job("a"), small_job("a")], shared_card())
    with pytest.raises(ValueError, match="duration"):
        replace(small_job("a"), duration_us=0)
    with pytest.raises(ValueError, match="does not hold"):
        Use(2, 1)
    with pytest.raises(ValueError, match="does not hold"):
        Range(2, 1, 3)


def test_left_out_names_job_and_reason() -> None:
    job: SharedJob = replace(small_job("a"), is_distributed=True)
    plan = plan_sharing(MIG, [job], shared_card())
    assert plan.left_out == (LeftOut("a", LeftOutReason.DISTRIBUTED),)


def test_unknown_energy_of_a_job_and_unknown_idle_power() -> None:
    """Unknown energy is no limit of the idle power. Without idle power the verdict is by time."""
    jobs = [replace(small_job("a"), gpu_mj=None), small_job("b")]
    plan = plan_sharing(MIG, jobs, shared_card())
    assert plan.alone_mj is None
    assert plan.saved_mj == Range(40 * WH, 50 * WH, 60 * WH)
    card = replace(shared_card(), idle_mw=None)
    unknown = plan_sharing(MIG, jobs, card)
    assert (unknown.saved_mj, unknown.verdict) == (None, Verdict.GAIN)
    assert unknown.saved_us == Range(HOUR_US, HOUR_US, HOUR_US)
    full = [full_job("a"), full_job("b")]
    assert plan_sharing(MPS, full, card).verdict == Verdict.NO_GAIN
    modes = [plan.mode for plan in compare_sharing([small_job("a"), small_job("c", "bob")], card)]
    assert modes == [MIG, SLICING, MPS], "what cannot share is last"


@pytest.mark.parametrize("mode", SharingMode)
def test_each_mode_names_its_model(mode: SharingMode) -> None:
    plan = plan_sharing(mode, [small_job("a"), small_job("b")], shared_card())
    assert plan.model.name
    assert plan.model.formula.startswith("max(1, ")
