"""The overhead of a node: its static power while a device of it was measured, minus the meters of
its processors, hour by hour, in a fixed number of statements.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.core.units import US_PER_HOUR
from apps.energy.models import DeviceHour, LedgerEntry
from apps.energy.services.ledger import settle_overhead
from apps.fleet.services import set_static_power
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab

pytestmark = pytest.mark.django_db

STATIC_MW = 100_000
GPU = "gpu:GPU-0000-0007"
HOUR = T0 // US_PER_HOUR


@pytest.fixture
def lab() -> SmallLab:
    small = small_lab()
    set_static_power(node=small.node, static_power_mw=STATIC_MW, by=small.owner, now=T0)
    return small


def _windows(small: SmallLab, device: str, energy_mj: int, hours: list[int]) -> list[W]:
    return [
        W(
            device=device,
            energy_mj=energy_mj,
            start_us=(HOUR + hour) * US_PER_HOUR + MINUTE,
            end_us=(HOUR + hour) * US_PER_HOUR + 11 * MINUTE,
            seq=hour,
            counter_start=1_000_000 * (hour + 1),
            measurement="nvml_counter" if device == GPU else "rapl",
        )
        for hour in hours
    ]


def _overhead(small: SmallLab) -> dict[int, int]:
    entries = LedgerEntry.objects.filter(lab=small.lab, consumer__key="overhead")
    return {row.hour - HOUR: row.energy_mj for row in entries}


def test_each_hour_has_the_overhead_of_its_own_coverage_and_meters(lab: SmallLab) -> None:
    cpu = f"cpu:{lab.node.uuid}/0"
    push(lab.node, _windows(lab, GPU, 500_000, [0, 1, 2, 5]))
    push(lab.node, _windows(lab, cpu, 30_000, [1, 2]))
    static_mj = STATIC_MW * 600  # ten minutes
    assert _overhead(lab) == {
        0: static_mj,
        1: static_mj - 30_000,
        2: static_mj - 30_000,
        5: static_mj,
    }
    push(lab.node, _windows(lab, cpu, 99_000_000, [5]))
    assert _overhead(lab)[5] == 0


def test_without_a_static_power_the_entries_end(lab: SmallLab) -> None:
    push(lab.node, _windows(lab, GPU, 500_000, [0, 1, 4]))
    assert set(_overhead(lab)) == {0, 1, 4}
    lab.node.static_power_mw = None
    lab.node.save(update_fields=["static_power_mw"])
    settle_overhead(node=lab.node, hours={HOUR, HOUR + 1, HOUR + 4})
    assert not _overhead(lab)


def test_a_hundred_hours_need_as_many_statements_as_two(lab: SmallLab) -> None:
    push(lab.node, _windows(lab, GPU, 500_000, list(range(100))))
    hours = set(DeviceHour.objects.filter(node=lab.node).values_list("hour", flat=True))
    assert len(hours) == 100
    counts = []
    for number in (2, 100):
        with CaptureQueriesContext(connection) as queries:
            settle_overhead(node=lab.node, hours=set(sorted(hours)[:number]))
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert len(_overhead(lab)) == 100
