"""The clock rule (R9): a window is placed by wall time, else by its monotonic age, else set
aside; never lost.
"""

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.jobs import run_until_idle
from apps.energy.models import LedgerEntry
from apps.ingest.models import EnergyWindow, QuarantinedWindow
from apps.ingest.placement import AGREEMENT_US, BatchClocks, BootOffset, candidates
from apps.ingest.window_rules import WindowIn
from tests.builders import BOOT, MINUTE, T0, SmallLab, W, push, small_lab

GPU = "gpu:GPU-0000-1111"
HOUR, DAY = 60 * MINUTE, 24 * 60 * MINUTE


@dataclass(frozen=True)
class Case:
    """A collector whose clock is ``wrong_us`` ahead sends a window of this or an earlier boot."""

    wrong_us: int
    earlier_boot: bool
    answer: str
    shift_us: int = 0
    quality: int = 1


CASES = {
    "right": Case(0, False, "accepted"),
    "29 s ahead": Case(29_000_000, False, "accepted"),
    "29 s behind": Case(-29_000_000, False, "accepted"),
    "30 s ahead": Case(30_000_000, False, "accepted", -30_000_000, 2),
    "100 s behind": Case(-100_000_000, False, "accepted", 100_000_000, 2),
    "an hour ahead": Case(HOUR, False, "accepted", -HOUR, 2),
    "an hour behind": Case(-HOUR, False, "accepted", HOUR, 2),
    "a day ahead": Case(DAY, False, "accepted", -DAY, 2),
    "a day behind": Case(-DAY, False, "accepted", DAY, 2),
    "in 1970": Case(-T0, False, "accepted", T0, 2),
    "right, earlier boot": Case(0, True, "accepted"),
    "an hour ahead, earlier boot": Case(HOUR, True, "quarantined"),
    "in 1970, earlier boot": Case(-T0, True, "quarantined"),
}


@pytest.mark.django_db
@pytest.mark.parametrize("name", CASES)
def test_the_table(name: str) -> None:
    case, small = CASES[name], small_lab()
    start = T0 + case.wrong_us
    window = W(
        GPU,
        77,
        start_us=start,
        end_us=start + MINUTE,
        epoch="old/1" if case.earlier_boot else f"{BOOT}/1",
    )
    answers = push(small.node, [window], sent_at=start + 2 * MINUTE, received_us=T0 + 2 * MINUTE)
    assert answers[0][0] == case.answer
    if case.answer == "quarantined":
        assert answers[0] == ["quarantined", "clock"]
        assert not EnergyWindow.objects.exists()
        assert QuarantinedWindow.objects.get().energy_mj == 77
        return
    stored = EnergyWindow.objects.get()
    assert (stored.start_us, stored.clock_shift_us) == (start + case.shift_us, case.shift_us)
    assert stored.placement_quality == case.quality
    run_until_idle(worker="test")
    assert sum(LedgerEntry.objects.values_list("energy_mj", flat=True)) == 77
    small.node.refresh_from_db()
    assert small.node.skew_us == -case.wrong_us


@pytest.mark.django_db
def test_a_window_of_the_running_boot_before_any_possible_time_is_quarantined() -> None:
    """By a monotonic clock of decades, which no machine has, it would be placed in 1970."""
    window = W(GPU, 77, start_us=MINUTE, end_us=2 * MINUTE)
    assert push(small_lab().node, [window], sent_at=T0) == [["quarantined", "clock"]]


def _window(small: SmallLab, i: int, clock_us: int) -> W:
    start = T0 + i * MINUTE + clock_us
    return W(GPU, 10, start_us=start, end_us=start + MINUTE, seq=i)


@pytest.mark.django_db
def test_neighbours_stay_neighbours_while_the_clock_is_wrong() -> None:
    small = small_lab()
    for i in range(5):
        sent = T0 + (i + 1) * MINUTE + HOUR
        late = (0, 300_000, 50_000, 900_000, 10_000)[i]  # the network took its time
        assert push(
            small.node, [_window(small, i, HOUR)], sent_at=sent, received_us=sent - HOUR + late
        ) == [["accepted"]]
    placed = list(EnergyWindow.objects.order_by("sequence").values_list("start_us", "end_us"))
    assert all(one[1] == other[0] for one, other in itertools.pairwise(placed))


@pytest.mark.django_db
def test_a_step_of_the_clock_in_the_middle_loses_no_energy() -> None:
    small = small_lab()
    for i in range(6):
        wrong = 0 if i < 3 else -HOUR
        sent = T0 + (i + 1) * MINUTE + wrong
        assert push(
            small.node, [_window(small, i, wrong)], sent_at=sent, received_us=sent - wrong + 5_000
        )[0] == ["accepted"]
    run_until_idle(worker="test")
    assert sum(LedgerEntry.objects.values_list("energy_mj", flat=True)) == 60


@pytest.mark.django_db
def test_power_is_judged_by_the_measured_length() -> None:
    """After a step back a collector of version 1 uploads a minute of energy in seconds of time."""
    small = small_lab()
    window = W(
        GPU,
        27_600_000,
        start_us=T0,
        end_us=T0 + 5_000_000,
        mono_length_us=MINUTE,
    )
    assert push(small.node, [window], sent_at=T0 + MINUTE, received_us=T0 + MINUTE) == [
        ["accepted"]
    ]


@pytest.mark.django_db
def test_a_window_from_the_future_is_set_aside() -> None:
    small = small_lab()
    window = W(GPU, 5, start_us=T0 + 2 * DAY, end_us=T0 + 2 * DAY + MINUTE, epoch="old/1")
    assert push(small.node, [window], sent_at=T0, received_us=T0) == [["quarantined", "future"]]


@given(
    st.integers(-(10**15), 10**15),
    st.integers(0, 10**12),
    st.integers(1, 10**10),
    st.one_of(st.none(), st.integers(-DAY, DAY)),
)
def test_each_possible_time_is_within_thirty_seconds_of_the_true_one(
    wrong_us: int, age_us: int, length_us: int, known_error_us: int | None
) -> None:
    true_end = T0 + DAY - age_us
    window = WindowIn(
        device=GPU,
        epoch=f"{BOOT}/1",
        sequence=0,
        start_us=true_end - length_us + wrong_us,
        end_us=true_end + wrong_us,
        mono_start_us=10**13 - age_us - length_us,
        mono_end_us=10**13 - age_us,
        counter_start=None,
        counter_end=None,
        energy_mj=1,
        measurement="cpu_model",
        flags=0,
    )
    clocks = BatchClocks(T0 + DAY, T0 + DAY + wrong_us, 10**13, BOOT, {})
    known = None
    if known_error_us is not None:
        known = BootOffset(10**12, clocks.offset_us + known_error_us)
    possible = candidates(window, clocks, known)
    assert bool(possible.times) != bool(possible.reason)
    for placed in possible.times:
        assert abs(placed.end_us - true_end) < AGREEMENT_US
        assert abs(placed.start_us - (true_end - length_us)) < AGREEMENT_US
    if possible.times:
        assert (possible.times[0].quality == 2) == (abs(wrong_us) >= AGREEMENT_US)
