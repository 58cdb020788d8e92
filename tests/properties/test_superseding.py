"""CodeCarbon beside our collector: nothing twice, nothing lost, whichever arrives first. Exact
integers.
"""

from fractions import Fraction

import time_machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from apps.accounts.models import Lab
from apps.core.intervals import split_by_hour
from apps.core.units import US_PER_HOUR
from apps.energy.ledger_entries import ShareRow
from apps.energy.models import LedgerEntry
from apps.energy.services.ledger import rebuild_ledger
from apps.energy.source_precedence import (
    US_PER_MINUTE,
    remaining_energy,
    superseded_mj,
    whole_minutes,
)
from apps.ingest.models import ConsumerHour
from apps.runs.models import Run
from apps.trackers.codecarbon.selectors import superseded_of_run
from tests.builders import MINUTE, T0, W, push, small_lab
from tests.trackers.support import tracker, work

SPANS = st.lists(
    st.tuples(st.integers(0, 7_500), st.integers(1, 900)).map(lambda t: (t[0], t[0] + t[1])),
    max_size=6,
)
SECOND = 1_000_000


@given(
    energy_mj=st.integers(0, 10**12),
    start=st.integers(0, 5_000),
    length=st.integers(1, 5_000),
    taken=SPANS,
)
def test_kept_and_superseded_make_the_whole(
    energy_mj: int, start: int, length: int, taken: list[tuple[int, int]]
) -> None:
    start_us, end_us = start * SECOND, (start + length) * SECOND
    minutes = whole_minutes((a * SECOND, b * SECOND) for a, b in taken)
    away = superseded_mj(energy_mj, start_us, end_us, minutes)
    touched = {
        us // US_PER_MINUTE for a, b in taken for us in range(a * SECOND, b * SECOND, SECOND)
    }
    seconds = sum(1 for s in range(start, start + length) if s * SECOND // US_PER_MINUTE in touched)
    assert 0 <= away <= energy_mj
    assert (
        abs(away - Fraction(energy_mj * seconds, length)) < len(minutes) + 1
    )  # each stretch is cut off at most once
    assert away == 0 if not seconds else True
    assert away == energy_mj if seconds == length else True


@given(
    energy_mj=st.integers(0, 10**12),
    start=st.integers(0, 5_000),
    length=st.integers(1, 9_000),
    taken=SPANS,
)
def test_hours_may_be_asked_for_one_by_one(
    energy_mj: int, start: int, length: int, taken: list[tuple[int, int]]
) -> None:
    start_us, end_us = start * SECOND, (start + length) * SECOND
    minutes = {7: whole_minutes((a * SECOND, b * SECOND) for a, b in taken)}
    share = ShareRow(start_us, end_us, 7, 1, 2, 2, energy_mj)
    hours = range(start_us // US_PER_HOUR, (end_us - 1) // US_PER_HOUR + 1)
    together = remaining_energy([share], frozenset(hours), minutes)
    apart = {
        key: mj
        for hour in hours
        for key, mj in remaining_energy([share], frozenset({hour}), minutes).items()
    }
    assert together == apart
    untouched = remaining_energy([share], frozenset(hours), {})
    assert {key.hour: mj for key, mj in untouched.items()} == split_by_hour(
        energy_mj, start_us, end_us
    )


START = T0 + 35 * MINUTE  # the hour ends among what happens

# What happens on one machine, in quarter minutes: CodeCarbon's intervals end to end; the
# collector's windows.
INTERVALS = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 3_000), st.integers(0, 3_000)),
    min_size=1,
    max_size=5,
)
WINDOWS = st.dictionaries(st.integers(0, 40), st.tuples(st.booleans(), st.booleans()), max_size=8)


class WhicheverComesFirst(TestCase):
    """The same figures for the collector first, CodeCarbon first, and in between; whether work
    is done at once or later.
    """

    @settings(
        max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )
    @given(intervals=INTERVALS, measured=WINDOWS, order=st.randoms(use_true_random=False))
    def test_the_ledger_does_not_depend_on_the_order(self, intervals, measured, order) -> None:  # type: ignore[no-untyped-def]
        first = self._told(intervals, measured, order, lambda steps: steps)
        last = self._told(intervals, measured, order, lambda steps: steps[::-1])
        mixed = self._told(
            intervals, measured, order, lambda steps: order.sample(steps, len(steps))
        )
        assert first == last == mixed
        assert first == _oracle(intervals, measured)

    def _told(self, intervals, measured, chance, arranged):  # type: ignore[no-untyped-def]
        """Return {(component, hour): mJ} that stays of what CodeCarbon told, after all arrived
        in some order.
        """
        small = small_lab(name=f"Lab {Lab.objects.count()}")
        cc = tracker(small, node=small.node)
        run = cc.begin()
        at_us, steps = START, []
        for quarter, gpu, cpu in intervals:
            at_us += quarter * 15 * SECOND
            told = {
                "at_us": at_us,
                "duration": quarter * 15,
                "gpu": gpu / 3_600_000,
                "cpu": cpu / 3_600_000,
            }
            steps.append((at_us, lambda told=told: cc.emit(run, **told)))
        for minute, (gpu, cpu) in measured.items():
            keys = [f"gpu:GPU-{small.node.uuid}"] * gpu + [f"cpu:{small.node.uuid}/0"] * cpu
            windows = [
                W(
                    key,
                    777,
                    start_us=START + minute * MINUTE,
                    end_us=START + (minute + 1) * MINUTE,
                    seq=minute,
                    measurement="nvml_counter" if key[0] == "g" else "rapl",
                )
                for key in keys
            ]
            if windows:
                steps.append(
                    (
                        START,
                        lambda windows=windows: push(
                            small.node, windows, sent_at=START + 60 * MINUTE, settle=False
                        ),
                    )
                )
        last = len(steps) - 1
        for i, (when_us, step) in enumerate(arranged(steps)):
            with time_machine.travel(
                when_us / 1e6, tick=True
            ):  # a client's message is believed if it is not old
                step()
            if i < last and chance.random() < 0.5:
                continue
            with time_machine.travel((START + 61 * MINUTE) / 1e6, tick=True):
                work()
        found = _ledger(small.lab)
        whole = sum(
            ConsumerHour.objects.filter(consumer__lab=small.lab, consumer__kind="run").values_list(
                "energy_mj", flat=True
            )
        )
        [row] = Run.objects.filter(lab=small.lab)
        assert sum(found.values()) + superseded_of_run(row) == whole
        rebuild_ledger(lab=small.lab)
        assert _ledger(small.lab) == found
        return found


def _ledger(lab: Lab) -> dict[tuple[str, int], int]:
    rows = LedgerEntry.objects.filter(lab=lab, device__kind="declared").values_list(
        "device__facts__component", "hour", "energy_mj"
    )
    result: dict[tuple[str, int], int] = {}
    for component, hour, energy_mj in rows:
        if energy_mj:
            result[component, hour] = result.get((component, hour), 0) + energy_mj
    return result


def _oracle(intervals, measured) -> dict[tuple[str, int], int]:  # type: ignore[no-untyped-def]
    """Say the same by walking along the minutes, without the code under test."""
    result: dict[tuple[str, int], int] = {}
    end = START
    for quarters, gpu, cpu in intervals:
        start, end = end, end + quarters * 15 * SECOND
        for component, index, watt_s in (("gpu", 0, gpu), ("cpu", 1, cpu)):
            for hour, part in split_by_hour(watt_s * 1000, start, end).items():
                a, b = max(start, hour * US_PER_HOUR), min(end, (hour + 1) * US_PER_HOUR)
                stays, at = part, a
                while at < b:
                    minute = (at - START) // MINUTE
                    stop = min(b, START + (minute + 1) * MINUTE)
                    if minute in measured and measured[minute][index]:
                        stays -= part * (stop - a) // (b - a) - part * (at - a) // (b - a)
                    at = stop
                if stays:
                    result[component, hour] = result.get((component, hour), 0) + stays
    return result
