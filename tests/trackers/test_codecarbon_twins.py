"""A client that creates its run several times has one run, and all of its energy counts."""

from itertools import pairwise
from typing import Any

import pytest
import time_machine

from apps.core.units import kwh_to_mj
from apps.energy.models import LedgerEntry
from apps.runs.models import ExternalId, Run
from apps.trackers.codecarbon.models import CodeCarbonInterval, CodeCarbonPost, SharedMachine
from apps.trackers.codecarbon.selectors import codecarbon_figures, runs_by_source
from tests.builders import MINUTE, T0, SmallLab
from tests.trackers.support import Tracker, iso, tracker, work

pytestmark = pytest.mark.django_db


def _created(cc: Tracker, minute: float, **facts: Any) -> str:
    at_us = int(T0 + minute * MINUTE)
    with time_machine.travel(at_us / 1e6, tick=False):
        return cc.begin(timestamp=iso(at_us), experiment_id="5b0fa12a", **facts)


def _sent(cc: Tracker, run: str, minute: float, length: float = 2, kwh: float = 0.01) -> None:
    at_us = int(T0 + minute * MINUTE)
    with time_machine.travel(at_us / 1e6, tick=False):
        cc.emit(run, at_us=at_us, duration=int(length * 60), gpu=kwh)


def _ledger_mj() -> int:
    work()
    return sum(LedgerEntry.objects.values_list("energy_mj", flat=True))


def test_an_id_that_is_never_used_creates_no_run(lab: SmallLab) -> None:
    cc = tracker(lab)
    _created(cc, 2)
    used = _created(cc, 2.1)
    _sent(cc, used, 4)
    work()
    assert Run.objects.count() == 1


@pytest.mark.parametrize("worked_between", [False, True])
@pytest.mark.parametrize("first", [0, 1])
def test_two_ids_of_one_client_are_one_run(lab: SmallLab, worked_between: bool, first: int) -> None:
    cc = tracker(lab)
    ids = [_created(cc, 2), _created(cc, 2.1)]
    if first:
        ids.reverse()
    _sent(cc, ids[0], 2.2)
    if worked_between:
        work()
    for minute in (4.2, 6.2):
        _sent(cc, ids[1], minute)
    _sent(cc, ids[0], 8.2)
    assert _ledger_mj() == 4 * kwh_to_mj(0.01)
    run = Run.objects.get()
    assert (run.started_us, run.state) == (int(T0 + 0.2 * MINUTE), "running")
    assert set(ExternalId.objects.values_list("value", flat=True)) == set(ids)
    figures = codecarbon_figures(run)
    assert figures is not None
    assert (figures.energy_mj, figures.counted, figures.superseded_mj) == (
        4 * kwh_to_mj(0.01),
        4,
        0,
    )
    assert runs_by_source(lab.lab) == {cc.source.pk: 1}
    assert not SharedMachine.objects.exists()


def test_intervals_of_several_ids_of_one_client_do_not_overlap(lab: SmallLab) -> None:
    cc = tracker(lab)
    ids = [_created(cc, 2), _created(cc, 2.1)]
    for i, late_s in enumerate((0, -2, -1, -2)):  # the time of an interval is read late, and cut
        _sent(cc, ids[i % 2], 2.2 + 2 * i + late_s / 60)
    assert _ledger_mj() == 4 * kwh_to_mj(0.01)
    spans = sorted(CodeCarbonInterval.objects.values_list("start_us", "end_us"))
    assert len(spans) == 4
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert not CodeCarbonPost.objects.exclude(problem="").exists()


def test_an_interval_inside_one_of_another_id_is_counted_too(lab: SmallLab) -> None:
    cc = tracker(lab)
    ids = [_created(cc, 2), _created(cc, 2.1)]
    _sent(cc, ids[0], 2.2)
    _sent(cc, ids[1], 2.2, length=0.04)
    assert _ledger_mj() == 2 * kwh_to_mj(0.01)
    assert Run.objects.count() == 1


def test_the_state_follows_all_ids(lab: SmallLab) -> None:
    cc = tracker(lab)
    ids = [_created(cc, 2), _created(cc, 2.1)]
    _sent(cc, ids[0], 2.2)
    for minute in range(4, 24, 2):
        _sent(cc, ids[1], minute + 0.2)
        with time_machine.travel((T0 + (minute + 0.3) * MINUTE) / 1e6, tick=False):
            work()
        assert Run.objects.get().state == "running", minute
    with time_machine.travel((T0 + 40 * MINUTE) / 1e6, tick=False):
        work()
    run = Run.objects.get()
    assert (run.state, run.ended_us) == ("lost", int(T0 + 22.2 * MINUTE))


def test_ranks_of_one_job_are_two_runs(lab: SmallLab) -> None:
    cc = tracker(lab)
    ids = [_created(cc, 2), _created(cc, 2.01)]
    for minute in (2.02, 4.02):
        for run in ids:
            _sent(cc, run, minute)
    assert _ledger_mj() == 4 * kwh_to_mj(0.01)
    assert Run.objects.count() == 2
    assert SharedMachine.objects.count() == 1


@pytest.mark.parametrize(
    ("minute", "facts"),
    [(3, {}), (2.1, {"gpu_count": 1}), (2.1, {"experiment_id_": "x"}), (13, {})],
    ids=["after the first interval", "other hardware", "other description", "much later"],
)
def test_another_run_is_another_run(lab: SmallLab, minute: float, facts: dict[str, Any]) -> None:
    cc = tracker(lab)
    one = _created(cc, 2)
    if minute == 13:  # both without an interval until then
        other = _created(cc, minute)
        _sent(cc, one, 13.1)
        _sent(cc, other, 15.1)
    else:
        if minute != 3:
            other = _created(cc, minute, **facts)
        _sent(cc, one, 2.2)
        if minute == 3:
            other = _created(cc, minute)
        _sent(cc, other, 4.2)
    assert _ledger_mj() == 2 * kwh_to_mj(0.01)
    assert Run.objects.count() == 2


def test_another_token_is_another_run(lab: SmallLab) -> None:
    one, other = tracker(lab), tracker(lab, name="cluster")
    ids = [_created(one, 2), _created(other, 2.1)]
    _sent(one, ids[0], 2.2)
    _sent(other, ids[1], 4.2)
    work()
    assert Run.objects.count() == 2
