"""Recurring activities: each period is recorded once after it is over, or states why it is not."""

from collections.abc import Callable
from datetime import date, datetime
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
import time_machine

from apps.accounts import audit
from apps.accounts.models import AuditEntry
from apps.activity.choices import RecurringState, RepetitionKind
from apps.activity.jobs import TURN_US, record_recurring_job, start_recurring_job
from apps.activity.models import Activity, RecurringActivity
from apps.activity.periods import period
from apps.activity.services import withdraw_activity
from apps.activity.services.recurring_activities import (
    RECORD,
    Repetition,
    add_recurring_activity,
    due_activities,
    end_recurring_activity,
    record_periods,
)
from apps.core.clock import now_us
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.core.units import MJ_PER_KWH
from apps.energy.models import LedgerEntry
from tests.activity.support import draft
from tests.builders import SmallLab, small_lab

pytestmark = pytest.mark.django_db
AUGUST = Repetition(RepetitionKind.MONTH, date(2026, 8, 1))
Clock = Callable[[str], None]


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


@pytest.fixture
def clock() -> Any:
    """Set the time of the server."""
    with time_machine.travel("2026-10-20T12:00:00+00:00", tick=False) as travel:
        yield lambda text: travel.move_to(f"{text}+00:00")


def add(
    lab: SmallLab, repetition: Repetition = AUGUST, form_key: str = "", **changes: Any
) -> RecurringActivity:
    added, _ = add_recurring_activity(
        lab=lab.lab,
        draft=draft(**changes),
        repetition=repetition,
        form_key=form_key,
        by=lab.owner,
        now=now_us(),
    )
    return added


def work() -> None:
    """Run the daily job and what it enqueues."""
    start_recurring_job()
    run_until_idle(worker="test")


def periods(lab: SmallLab) -> list[tuple[str, int, int]]:
    rows = Activity.objects.filter(lab=lab.lab).order_by("start_us")
    return [(row.external_id.rpartition(":")[2], row.start_us, row.end_us) for row in rows]


def test_periods_that_are_over_are_recorded_once(lab: SmallLab, clock: Clock) -> None:
    added = add(lab)
    run_until_idle(worker="test")  # those of the past at once
    edges = [f"2026-{day}T22:00:00+00:00" for day in ("07-31", "08-31", "09-30")]  # Berlin
    edges_us = [int(datetime.fromisoformat(edge).timestamp()) * 10**6 for edge in edges]
    assert periods(lab) == [("2026-08-01", *edges_us[:2]), ("2026-09-01", *edges_us[1:])]
    added.refresh_from_db()
    assert (added.next_first_day, added.recorded_periods) == (date(2026, 10, 1), 2)
    work()
    work()
    assert len(periods(lab)) == 2
    clock("2026-10-31T22:59:59")  # midnight in Berlin is 23:00 UTC
    work()
    assert len(periods(lab)) == 2
    clock("2026-10-31T23:00:00")
    work()
    work()
    assert [day for day, _, _ in periods(lab)] == ["2026-08-01", "2026-09-01", "2026-10-01"]
    entries = LedgerEntry.objects.filter(device__lab=lab.lab)
    assert sum(entries.values_list("energy_mj", flat=True)) == 3 * 12 * MJ_PER_KWH
    row = Activity.objects.order_by("start_us")[0]
    assert row.created_by == lab.owner
    assert row.project is not None
    assert row.project.slug == "demo"
    recorded = AuditEntry.objects.filter(lab=lab.lab, action="activity.recorded")
    assert [entry.user for entry in recorded] == [None, None, None]
    assert recorded[0].details["recurring"] == str(added.uuid)
    assert audit.verify(lab.lab) is None


def test_a_repeated_or_interrupted_job_counts_nothing_twice(lab: SmallLab, clock: Clock) -> None:
    added = add(lab)
    assert len(list(record_periods(pk=added.pk, now=now_us()))) == 2
    RecurringActivity.objects.filter(pk=added.pk).update(next_first_day=AUGUST.first_day)
    assert len(list(record_periods(pk=added.pk, now=now_us()))) == 2
    assert len(periods(lab)) == 2
    withdraw_activity(activity=Activity.objects.all()[0], reason="x", by=lab.owner, now=now_us())
    RecurringActivity.objects.filter(pk=added.pk).update(next_first_day=AUGUST.first_day)
    work()
    assert Activity.objects.filter(withdrawn_us=None).count() == 1  # it does not come back
    assert list(record_periods(pk=added.pk + 1, now=now_us())) == []


def test_missed_weeks_are_recorded_in_turns(
    lab: SmallLab, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = add(lab, Repetition(RepetitionKind.WEEK, date(2026, 8, 31)))
    Job.objects.all().delete()
    times = iter(range(0, 100 * TURN_US, TURN_US // 2))
    start = now_us()
    monkeypatch.setattr("apps.activity.jobs.now_us", lambda: start + next(times))
    record_recurring_job(str(added.pk))
    assert len(periods(lab)) == 1
    assert Job.objects.filter(kind=RECORD, key=str(added.pk)).count() == 1
    monkeypatch.undo()
    run_until_idle(worker="test")
    assert len(periods(lab)) == 7
    assert due_activities(now=now_us()) == []


def test_the_last_period_is_over_on_the_last_day(lab: SmallLab, clock: Clock) -> None:
    for last_day, number in ((date(2026, 9, 29), 1), (date(2026, 9, 30), 2)):
        added = add(lab, Repetition(RepetitionKind.MONTH, AUGUST.first_day, last_day))
        run_until_idle(worker="test")
        added.refresh_from_db()
        assert (added.recorded_periods, added.state) == (number, RecurringState.ENDED)
    assert len(periods(lab)) == 3
    with pytest.raises(InvalidInput) as error:
        add(lab, Repetition(RepetitionKind.MONTH, AUGUST.first_day, date(2026, 8, 30)))
    assert error.value.field == "until"
    with pytest.raises(Conflict):
        end_recurring_activity(recurring=added, by=lab.owner, now=now_us())


def test_a_refused_period_states_why_and_is_tried_again(lab: SmallLab, clock: Clock) -> None:
    wrong, right = add(lab, name="wrong", zone="PL"), add(lab, name="right")
    rows = RecurringActivity.objects.filter(pk=wrong.pk)
    rows.update(zone="XX")  # a zone that has no factor any more
    for _ in range(2):
        work()
        wrong.refresh_from_db()
        assert (wrong.state, wrong.recorded_periods) == (RecurringState.PROBLEM, 0)
        assert wrong.problem.startswith("'XX' is")
        right.refresh_from_db()
        assert (right.state, right.recorded_periods) == (RecurringState.ACTIVE, 2)
    rows.update(zone="PL")
    clock("2026-10-21T12:00:00")
    work()
    wrong.refresh_from_db()
    assert (wrong.problem, wrong.recorded_periods) == ("", 2)


def test_an_ended_one_records_nothing_more(lab: SmallLab, clock: Clock) -> None:
    added = add(lab)
    run_until_idle(worker="test")
    end_recurring_activity(recurring=added, by=lab.owner, now=now_us())
    clock("2027-01-20T12:00:00")
    work()
    assert len(periods(lab)) == 2
    added.refresh_from_db()
    assert added.state == RecurringState.ENDED
    with pytest.raises(Conflict):
        end_recurring_activity(recurring=added, by=lab.owner, now=now_us())
    actions = AuditEntry.objects.filter(lab=lab.lab).values_list("action", flat=True)
    assert {"activity.recurring_added", "activity.recurring_ended"} <= set(actions)


def test_a_form_that_is_sent_twice_adds_one(lab: SmallLab, clock: Clock) -> None:
    key = str(uuid4())
    assert add(lab, form_key=key) == add(lab, form_key=key, name="other")
    other = small_lab(name="Other")
    assert add(other, form_key=key).lab == other.lab
    assert RecurringActivity.objects.count() == 2


def test_hours_fit_into_the_shortest_period(lab: SmallLab, clock: Clock) -> None:
    inputs = {"disks": "2", "watts_per_disk": "8"}
    with pytest.raises(InvalidInput) as error:
        add(lab, inputs={**inputs, "hours": "672.5"})
    assert error.value.field == "hours"
    assert "672 hours of the shortest month" in error.value.message
    add(lab, inputs={**inputs, "hours": "672"})
    week = Repetition(RepetitionKind.WEEK, date(2026, 3, 23))  # one hour shorter
    add(lab, week, inputs={**inputs, "hours": "168"})
    run_until_idle(worker="test")
    assert Activity.objects.get(
        start_us=period("week", week.first_day, 0).bounds_us(ZoneInfo(lab.lab.time_zone))[0]
    )
    assert not RecurringActivity.objects.exclude(problem="").exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"external_id": "bill-1"}, "external_id"),
        ({"name": " "}, "name"),
        ({"project": "nope"}, "project"),
        ({"zone": "nowhere"}, "zone"),
        ({"inputs": {}}, None),
    ],
)
def test_invalid_input_adds_nothing(lab: SmallLab, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        add(lab, **changes)
    assert field is None or error.value.field == field
    assert not RecurringActivity.objects.exists()


def test_a_first_period_can_be_in_the_future(lab: SmallLab, clock: Clock) -> None:
    added = add(lab, Repetition(RepetitionKind.YEAR, date(2199, 1, 1)))
    work()
    assert (added.state, periods(lab)) == (RecurringState.ACTIVE, [])
