"""A run of which nothing is heard any more is lost after a while; until then nobody is kept busy
waiting for that.
"""

import pytest
import time_machine

from apps.core.jobs import run_until_idle
from apps.runs.models import Run
from tests.builders import MINUTE, T0, SmallLab
from tests.trackers.support import Tracker, tracker

pytestmark = pytest.mark.django_db


def _worked(minute: int) -> int:
    """Have the worker do what is due ``minute`` minutes in; return how many jobs that were."""
    with time_machine.travel((T0 + minute * MINUTE) / 1e6, tick=False):
        return run_until_idle(worker="test")


def _told(cc: Tracker, run: str, minute: int, length: int) -> None:
    with time_machine.travel((T0 + minute * MINUTE) / 1e6, tick=False):
        cc.emit(run, at_us=T0 + minute * MINUTE, duration=length * 60, gpu=0.01)


def _state() -> tuple[str, int | None]:
    run = Run.objects.get()
    return run.state, run.ended_us


def _begun(lab: SmallLab) -> tuple[Tracker, str]:
    with time_machine.travel(T0 / 1e6, tick=False):
        cc = tracker(lab)
        return cc, cc.begin()


def test_a_run_that_goes_on_keeps_nobody_busy(lab: SmallLab) -> None:
    cc, run = _begun(lab)
    done = []
    for minute in range(4, 40, 4):
        _told(cc, run, minute, 4)
        done += [_worked(minute), _worked(minute + 2)]
    assert _state() == ("running", None)
    assert max(done) < 20, done


def test_nothing_for_fifteen_minutes_is_lost_and_a_later_word_revives(lab: SmallLab) -> None:
    cc, run = _begun(lab)
    for minute in (2, 4, 6):
        _told(cc, run, minute, 2)
        _worked(minute)
    assert sum(_worked(minute) for minute in range(7, 21)) < 20
    assert _state() == ("running", None)
    _worked(22)
    assert _state() == ("lost", T0 + 6 * MINUTE)
    _told(cc, run, 30, 2)
    _worked(30)
    assert _state() == ("running", None)
    _worked(46)
    assert _state() == ("lost", T0 + 30 * MINUTE)


def test_who_speaks_seldom_is_waited_for_longer(lab: SmallLab) -> None:
    cc, run = _begun(lab)
    _told(cc, run, 20, 20)
    _worked(20)
    assert sum(_worked(minute) for minute in range(21, 80)) < 40, (
        "what waits is not asked again and again"
    )
    assert _state() == ("running", None)
    _worked(81)
    assert _state() == ("lost", T0 + 20 * MINUTE)
