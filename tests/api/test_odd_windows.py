"""Windows whose values contradict each other: no energy from nothing, none lost, no 500."""

from typing import Any

import pytest

from apps.core.errors import Conflict
from apps.core.jobs import run_until_idle
from apps.energy.models import LedgerEntry
from apps.ingest.acceptance import CountedWindow, acceptance
from apps.ingest.models import ConsumerHour, QuarantinedWindow
from apps.ingest.services.decisions import accept_windows, undo_decision
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab

pytestmark = pytest.mark.django_db

GPU = "gpu:GPU-0000-1111"
SENT = T0 + 600 * MINUTE
YEAR_US = 365 * 24 * 60 * MINUTE


def _counted_mj() -> int:
    run_until_idle(worker="test")
    return sum(LedgerEntry.objects.values_list("energy_mj", flat=True))


def _actions(small: SmallLab) -> dict[str, Any]:
    return {"lab": small.lab, "by": small.owner, "now": SENT}


def _quarantine(small: SmallLab, windows: list[W]) -> list[QuarantinedWindow]:
    """Push windows of an earlier boot with a wrong clock."""
    results = push(small.node, windows, sent_at=SENT + 10**9, received_us=SENT)
    assert results == [["quarantined", "clock"]] * len(windows)
    return list(QuarantinedWindow.objects.order_by("sequence"))


def test_a_length_that_the_wall_clock_contradicts_is_no_time() -> None:
    """A year of energy in a microsecond: a thousand of them would exceed 64 bits."""
    node = small_lab().node
    meter = f"meter:{node.uuid}/m"
    year = W(
        meter,
        9 * 10**15,
        T0,
        T0 + 1,
        epoch="old/1",
        measurement="node_meter",
        mono_length_us=YEAR_US,
    )
    assert push(node, [year], sent_at=SENT) == [["quarantined", "clock"]]
    assert not ConsumerHour.objects.exists()
    steady = W(GPU, 70, T0, T0 + MINUTE, seq=2, epoch="old/1", mono_length_us=MINUTE - 10**7)
    assert push(node, [steady], sent_at=SENT) == [["accepted"]]


def test_many_windows_that_exceed_64_bits_together_are_no_500() -> None:
    node = small_lab().node
    windows = [
        W(
            f"meter:{node.uuid}/m",
            9 * 10**15,
            T0 + 10 * number,
            T0 + 10 * number + 1,
            seq=number,
            epoch="old/1",
            measurement="node_meter",
            mono_length_us=YEAR_US,
        )
        for number in range(1000)
    ]
    results = push(node, windows, sent_at=SENT)
    assert results == [["quarantined", "clock"]] * 1000


def _accepted_of(energy_mj: int, counters: tuple[int, int], counted: list[CountedWindow]) -> Any:
    return acceptance(
        energy_mj=energy_mj, counters=counters, start_us=0, end_us=MINUTE, counted=counted
    )


@pytest.mark.parametrize("energy_mj", [0, 7, 5_000])
def test_an_energy_that_is_not_the_difference_of_the_readings_is_accepted_whole(
    energy_mj: int,
) -> None:
    part = _accepted_of(energy_mj, (100, 200), [])
    assert (part.problem, part.energy_mj) == ("", energy_mj)
    elsewhere = CountedWindow(5 * MINUTE, 6 * MINUTE, 10, 150, 160, True)
    assert _accepted_of(energy_mj, (100, 200), [elsewhere]).problem == "readings"


def test_readings_up_to_zero_are_counted_once() -> None:
    counted = CountedWindow(5 * MINUTE, 6 * MINUTE, 100, -100, 0, True)
    assert _accepted_of(100, (-100, 0), [counted]).problem == "counted"


def test_extreme_readings_are_accepted_with_their_energy() -> None:
    small = small_lab()
    extreme = W(GPU, 5, T0, T0 + MINUTE, seq=2**63 - 1, epoch="old/1", measurement="nvml_power")
    [row] = _quarantine(small, [extreme])
    row.content |= {"counter_start": -(2**63), "counter_end": 2**63 - 1}
    row.save()
    assert accept_windows(pks=[row.pk], reason="right", **_actions(small)).energy_mj == 5
    assert _counted_mj() == 5


def test_an_accepted_window_inside_another_can_be_accepted_again_after_undo() -> None:
    small = small_lab()
    inner = W(GPU, 40, T0, T0 + MINUTE, seq=5, counter_start=2_000_030, epoch="old/1")
    outer = W(GPU, 100, T0, T0 + 10 * MINUTE, seq=6, counter_start=2_000_000, epoch="old/1")
    first, second = _quarantine(small, [inner, outer])
    for row in (first, second):
        accept_windows(pks=[row.pk], reason="right", **_actions(small))
    assert _counted_mj() == 100
    with pytest.raises(Conflict, match="sequence 6"):
        undo_decision(pk=first.pk, **_actions(small))
    for row in (second, first):
        undo_decision(pk=row.pk, **_actions(small))
    assert _counted_mj() == 0
    for row in (first, second):
        accept_windows(pks=[row.pk], reason="right", **_actions(small))
    assert _counted_mj() == 100
