"""Ranks of one job, each with a tracker of its own, each told of the whole machine: found, told,
and nothing taken away.
"""

from hypothesis import given
from hypothesis import strategies as st

from apps.energy.models import LedgerEntry
from apps.runs.models import Run
from apps.trackers.codecarbon.models import CodeCarbonRun
from apps.trackers.codecarbon.parsing import Interval, same_readings
from apps.trackers.codecarbon.selectors import (
    codecarbon_figures,
    counted_twice_mj,
    possible_double_counts,
    shared_machines,
    shared_machines_of_run,
)
from tests.builders import T0, SmallLab
from tests.trackers.support import Tracker, tracker, work

S = 1_000_000


def _train(
    cc: Tracker, ranks: int, *, each: list[float] | None = None, rounds: int = 2, **facts: object
) -> list[str]:
    """Let ranks tell of one machine, each some tenths of a second after the other, with readings
    that differ by 0.1 %.
    """
    runs = [cc.begin(**facts) for _ in range(ranks)]
    for turn in range(1, rounds + 1):
        for rank, run in enumerate(runs):
            gpu = (each[rank] if each else 0.010) * (1 + rank / 1000)
            cc.emit(
                run,
                at_us=T0 + turn * 60 * S + rank * 300_000,
                duration=60,
                gpu=gpu,
                cpu=0.002 * (1 + rank / 1000),
                ram=0.0003,
            )
    work()
    return runs


def test_eight_ranks_are_found(lab: SmallLab) -> None:
    cc = tracker(lab)
    _train(cc, 8)
    assert shared_machines(lab.lab).count() == 8 * 7 // 2
    told = [row.intervals for row in shared_machines(lab.lab)]
    assert told == [2] * 28
    first = CodeCarbonRun.objects.order_by("id")[0].run
    assert first is not None
    assert shared_machines_of_run(first).count() == 7
    # Seven of eight measured what the first did; nothing was taken out of the ledger for it.
    sums = dict.fromkeys(CodeCarbonRun.objects.order_by("id").values_list("pk", flat=True), 0)
    for run in CodeCarbonRun.objects.all():
        sums[run.pk] = sum(run.intervals.values_list("energy_mj", flat=True))
    assert counted_twice_mj(lab.lab) == sum(list(sums.values())[1:])
    assert sum(LedgerEntry.objects.values_list("energy_mj", flat=True)) == sum(sums.values())


def test_two_trainings_on_equal_machines_are_not(lab: SmallLab) -> None:
    """They draw differently, by a twentieth."""
    _train(tracker(lab), 2, each=[0.010, 0.0105])
    assert shared_machines(lab.lab).count() == 0


def test_other_hardware_at_equal_power_is_not(lab: SmallLab) -> None:
    cc = tracker(lab)
    _train(cc, 1)
    _train(cc, 1, gpu_model="2 x NVIDIA H100")
    assert shared_machines(lab.lab).count() == 0


def test_one_stretch_of_several_is_no_proof(lab: SmallLab) -> None:
    cc = tracker(lab)
    one, other = cc.begin(), cc.begin()
    for turn, (a, b) in enumerate([(0.01, 0.01), (0.01, 0.02)], 1):
        for run, gpu in ((one, a), (other, b)):
            cc.emit(run, at_us=T0 + turn * 60 * S, duration=60, gpu=gpu, cpu=0.002)
    work()
    assert shared_machines(lab.lab).count() == 0


def test_what_a_run_was_told_is_shown_beside_what_counts(lab: SmallLab) -> None:
    cc = tracker(lab)
    _train(cc, 1)
    told = codecarbon_figures(Run.objects.get())
    assert told is not None
    assert (told.energy_mj, told.superseded_mj, told.counted, told.not_counted, told.bound) == (
        88_560_000,
        0,
        2,
        0,
        False,
    )
    assert told.client_ug == 88_560_000 * 400_000_000 // 3_600_000_000
    [source] = possible_double_counts(lab.lab)
    assert (source.energy_mj, source.run_count) == (88_560_000, 1)  # type: ignore[attr-defined]
    tracker(lab, node=lab.node, name="bound")
    assert possible_double_counts(lab.lab).count() == 1


STRETCHES = st.builds(
    lambda a, n, g, c, r: Interval(a, a + n, g, c, r),
    st.integers(0, 10**9),
    st.integers(1, 10**9),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
)


@given(one=STRETCHES, other=STRETCHES)
def test_likeness_goes_both_ways(one: Interval, other: Interval) -> None:
    if one.gpu_mj + one.cpu_mj and other.gpu_mj + other.cpu_mj:
        assert same_readings(one, other) == same_readings(other, one)
    assert same_readings(one, one) == (one.gpu_mj + one.cpu_mj > 0)
