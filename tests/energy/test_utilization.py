"""Utilization per device-hour and consumer: sums over windows, bins, idle time, sharing; settle,
rebuild and the job after an upgrade write the same rows.
"""

from fractions import Fraction
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.energy.models import UtilizationHour
from apps.energy.selectors import utilization_of_run
from apps.energy.services.ledger import rebuild_ledger
from apps.energy.services.utilization import record_utilization_of_node
from apps.energy.utilization import (
    BINS,
    UseOfWindow,
    Utilization,
    bins_as_text,
    bins_from_text,
    utilization_by_hour,
)
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab

GPU = "gpu:GPU-0000-0005"
HOUR = T0 // US_PER_HOUR


@st.composite
def histories(draw: Any) -> list[UseOfWindow]:
    windows, start_us = [], HOUR * US_PER_HOUR
    for _ in range(draw(st.integers(0, 12))):
        start_us += draw(st.integers(0, US_PER_HOUR))
        end_us = start_us + draw(st.integers(1, 2 * US_PER_HOUR))
        mean_pm = draw(st.none() | st.integers(0, 1000))
        max_pm = None if mean_pm is None else draw(st.none() | st.integers(mean_pm, 1000))
        mean_mib = draw(st.none() | st.integers(0, 200_000))
        max_mib = None if mean_mib is None else draw(st.none() | st.integers(mean_mib, 200_000))
        consumers = draw(st.lists(st.integers(1, 4), unique=True, min_size=1))
        active = sum(consumer > 1 for consumer in consumers)  # 1 is the idle consumer
        windows.append(
            UseOfWindow(start_us, end_us, 7, mean_pm, max_pm, mean_mib, max_mib, consumers, active)
        )
        start_us = end_us
    return windows


def _total(parts: dict[tuple[int, int, int], Utilization], consumer: int) -> Utilization:
    total = Utilization()
    for (_, _, of), part in parts.items():
        if of == consumer:
            total.add(part)
    return total


@given(windows=histories(), cut=st.integers(0, 30))
def test_sums_are_those_of_the_windows_and_additive(windows: list[UseOfWindow], cut: int) -> None:
    whole = utilization_by_hour(windows, HOUR, HOUR + 100)
    parts = utilization_by_hour(windows, HOUR, HOUR + cut) | utilization_by_hour(
        windows, HOUR + cut, HOUR + 100
    )
    assert parts == whole
    for consumer in range(1, 5):
        total = _total(whole, consumer)
        own = [window for window in windows if consumer in window.consumers]
        used = [(w.util_mean_pm, w.end_us - w.start_us) for w in own if w.util_mean_pm is not None]
        assert total.util_us == sum(length for _, length in used)
        assert total.util_pm_us == sum(pm * length for pm, length in used)
        assert sum(total.util_bins) == total.util_us
        assert sum(total.mem_bins) == total.mem_us
        assert 0 <= total.idle_us <= total.util_us
        known = [mib for w in own for mib in (w.mem_mean_mib, w.mem_max_mib) if mib is not None]
        assert total.mem_max_mib == max(known, default=0)
        if not used:
            assert total.util_mean_pm is total.util_p95_pm is total.idle_pm is None
            continue
        # The 95th percentile: the least value that 95 % of the time does not exceed.
        levels = sorted(pm for pm, _ in used)
        at_most = {pm: sum(length for other, length in used if other <= pm) for pm in levels}
        p95_pm = next(
            pm for pm in levels if Fraction(at_most[pm], total.util_us) >= Fraction(95, 100)
        )
        assert total.util_p95_pm is not None
        assert p95_pm <= total.util_p95_pm <= p95_pm + 50


@given(bins=st.lists(st.integers(0, 2**53), min_size=BINS, max_size=BINS))
def test_bins_are_read_as_they_were_written(bins: list[int]) -> None:
    assert bins_from_text(bins_as_text(bins)) == bins


def test_edges_of_bins_and_of_unused() -> None:
    for mean_pm, max_pm, place, is_unused in (
        (0, 0, 0, True), (10, 10, 0, True), (5, 11, 0, False), (49, None, 0, False),
        (50, 60, 1, False), (999, 1000, 19, False), (1000, 1000, 20, False), (10, None, 0, True),
    ):  # fmt: skip
        found = Utilization()
        found.add_window(UseOfWindow(0, 60, 1, mean_pm, max_pm, None, None, [1], 1), 60)
        assert found.util_bins[place] == 60, mean_pm
        assert (found.idle_us == 60) == is_unused, mean_pm
        assert found.mem_us == 0


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


def _rows() -> list[dict[str, Any]]:
    order = ("device_id", "hour", "node_id", "consumer_id")
    return list(UtilizationHour.objects.order_by(*order).values())


def _history(lab: SmallLab) -> list[str]:
    """Push a busy, an unused, a shared and an unknown window of two runs. Return the runs."""
    runs = [str(uuid4()), str(uuid4())]
    one, two = (f"run:{uuid}" for uuid in runs)
    said = (
        (((one, 500),), 900, 1000, 40_000, 41_000),
        (((one, 500),), 0, 0, 40_000, 40_000),
        (((one, 200), (two, 300)), 500, 700, 60_000, 70_000),
        (((two, 400), ("idle", 100)), 100, 200, None, None),
        (((one, 500),), None, None, None, None),
    )
    start = (HOUR + 1) * US_PER_HOUR - 2 * MINUTE
    windows = [
        W(
            GPU, 500, start_us=start + i * MINUTE, end_us=start + (i + 1) * MINUTE, seq=i,
            shares=shares, util_mean_pm=mean, util_max_pm=most, mem_mean_mib=mib,
            mem_max_mib=most_mib,
        )
        for i, (shares, mean, most, mib, most_mib) in enumerate(said)
    ]  # fmt: skip
    push(lab.node, windows)
    run_until_idle(worker="test")
    return runs


def test_runs_have_the_utilization_of_their_windows(lab: SmallLab) -> None:
    one, two = _history(lab)
    (of_one,) = utilization_of_run(lab.lab, one).values()
    assert (of_one.util_us, of_one.util_mean_pm) == (3 * MINUTE, (900 + 0 + 500) // 3)
    assert (of_one.idle_us, of_one.shared_us, of_one.most_consumers) == (MINUTE, MINUTE, 2)
    assert (of_one.mem_us, of_one.mem_max_mib) == (3 * MINUTE, 70_000)
    (of_two,) = utilization_of_run(lab.lab, two).values()
    assert (of_two.util_us, of_two.util_mean_pm, of_two.idle_us) == (2 * MINUTE, 300, 0)
    assert of_two.mem_us == MINUTE
    idle = UtilizationHour.objects.filter(consumer__kind="idle").values_list("util_us", flat=True)
    assert list(idle) == [MINUTE]


def test_a_rebuild_and_the_job_after_an_upgrade_write_the_same(lab: SmallLab) -> None:
    _history(lab)
    before = _rows()
    assert len({row["hour"] for row in before}) == 2
    rebuild_ledger(lab=lab.lab)
    assert _rows() == before
    UtilizationHour.objects.all().delete()
    assert record_utilization_of_node(node=lab.node) >= 2
    assert _rows() == before
    record_utilization_of_node(node=lab.node)
    assert _rows() == before


def test_a_processor_that_reports_its_utilization_has_rows_too(lab: SmallLab) -> None:
    run = str(uuid4())
    window = W(
        f"cpu:{lab.node.uuid}/0",
        500,
        measurement="cpu_model",
        counter_start=None,
        shares=((f"run:{run}", 500),),
        util_mean_pm=250,
        util_max_pm=300,
    )
    push(lab.node, [window])
    run_until_idle(worker="test")
    (found,) = utilization_of_run(lab.lab, run).values()
    assert (found.util_mean_pm, found.mem_mean_mib) == (250, None)
