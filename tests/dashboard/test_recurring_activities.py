"""Pages of recurring activities: add by the form of an activity, list, one with its end."""

from datetime import date
from typing import Any

import pytest
import time_machine
from django.test import Client

from apps.accounts.models import Project
from apps.activity.choices import RepetitionKind
from apps.activity.models import Activity, RecurringActivity
from apps.activity.services.recurring_activities import Repetition, add_recurring_activity
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from tests.activity.support import draft
from tests.builders import T0, SmallLab
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, queries
from tests.dashboard.test_activities import ADD, form_key, page, post

LIST = "/activities/recurring/"
FORM = {
    "name": "Backup",
    "project": "demo",
    "first_day": "2026-08-01",
    "repeats": "month",
    "zone": "DE",
    "provider": "aws",
    "tb_months": "12",
    "medium": "hdd",
    "replicas": "1",
}


@pytest.fixture(autouse=True)
def october(lab: SmallLab) -> Any:
    with time_machine.travel("2026-10-20T12:00:00+00:00", tick=False):
        yield


def recurring(lab: SmallLab, first_day: str = "2026-08-01", **changes: Any) -> RecurringActivity:
    added, _ = add_recurring_activity(
        lab=lab.lab,
        draft=draft(**changes),
        repetition=Repetition(RepetitionKind.MONTH, date.fromisoformat(first_day)),
        form_key="",
        by=lab.owner,
        now=now_us(),
    )
    return added


def test_the_form_adds_one_that_records_its_periods(owner: Client, lab: SmallLab) -> None:
    key = form_key(page(owner, ADD))
    text = post(owner, ADD, 200, **FORM, form_key=key, preview="1")
    assert "Result of one period, not saved yet" in text
    assert not RecurringActivity.objects.exists()
    address = post(owner, ADD, 302, **FORM, until="2027-07-31", form_key=key)
    assert post(owner, ADD, 302, **FORM, form_key=key) == address
    added = RecurringActivity.objects.get()
    assert address == f"{LIST}{added.uuid}/"
    assert (added.period, added.last_day) == ("month", date(2027, 7, 31))
    assert not Activity.objects.exists()
    run_until_idle(worker="test")
    text = page(owner, address)
    assert "nothing was added" in text
    assert 'data-state="active"' in text
    assert 'data-recorded="2"' in text
    assert 'data-next="2026-10-01"' in text
    assert 'data-periods="2"' in text
    assert "Every month from 1 Aug 2026 to 31 Jul 2027" in text
    text = page(owner, LIST)
    assert f'data-recurring="{added.uuid}"' in text
    assert 'data-recorded="2"' in text
    activity = Activity.objects.latest("start_us")
    text = page(owner, f"/activities/{activity.uuid}/")
    assert address in text
    assert activity.external_id not in text  # nobody entered it


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"repeats": "day"}, "repeats"),
        ({"first_day": ""}, "first_day"),
        ({"last_day": "2026-08-30"}, "last_day"),
        ({"until": "2026-08-30"}, "until"),
        ({"external_id": "bill-1"}, "external_id"),
        ({"repeats": "", "last_day": ""}, "last_day"),
        ({"repeats": "", "last_day": "2026-08-31", "until": "2026-12-31"}, "until"),
    ],
)
def test_invalid_repetitions_are_refused_at_their_field(
    owner: Client, changes: dict[str, str], field: str
) -> None:
    for button in ({}, {"preview": "1"}):
        text = post(owner, ADD, 400, **{**FORM, **changes}, **button)
        assert f'data-field-error="{field}"' in text
    assert not RecurringActivity.objects.exists()
    assert not Activity.objects.exists()


def test_the_last_day_of_the_first_period_can_be_entered(owner: Client) -> None:
    post(owner, ADD, 302, **FORM, last_day="2026-08-31")
    assert RecurringActivity.objects.get().last_day is None


def test_hours_of_a_month_are_those_of_28_days(owner: Client) -> None:
    form = {**FORM, "device": "desktop", "watts": "90"}
    text = post(owner, "/activities/add/other_device/", 400, **form, hours="744")
    assert 'data-field-error="hours"' in text
    assert "672 hours of the shortest month" in text


def test_empty_list(owner: Client, viewer: Client) -> None:
    for client in (owner, viewer):
        assert 'data-empty="recurring"' in page(client, LIST)
    assert 'data-empty="page"' in page(owner, f"{LIST}?page=2")
    page(owner, f"{LIST}?page=x", 400)


def test_wrong_methods(owner: Client, lab: SmallLab) -> None:
    address = f"{LIST}{recurring(lab).uuid}/"
    assert owner.post(LIST).status_code == 405
    assert owner.put(address).status_code == 405
    post(owner, address, 400, action="delete")


def test_it_ends_after_a_confirmation(owner: Client, member: Client, lab: SmallLab) -> None:
    address = f"{LIST}{recurring(lab).uuid}/"
    run_until_idle(worker="test")
    assert 'data-form="end"' not in page(owner, address)
    assert "No period from 1 Oct 2026 on is recorded" in page(owner, f"{address}?end=1")
    assert "end=1" not in page(member, address)
    post(member, address, 403, action="end")  # another person added it
    assert post(owner, address, 302, action="end") == address
    text = page(owner, f"{address}?end=1")
    assert 'data-state="ended"' in text
    assert "data-ended" in text
    assert 'data-form="end"' not in text
    assert 'data-state="ended"' in page(owner, LIST)
    post(owner, address, 409, action="end")
    assert Activity.objects.filter(withdrawn_us=None).count() == 2


def test_a_member_ends_an_own_one(member: Client, lab: SmallLab) -> None:
    address = post(member, ADD, 302, **FORM)
    post(member, address, 302, action="end")
    assert RecurringActivity.objects.get().ended_by is not None


def test_viewers_read_and_other_labs_do_not(
    viewer: Client, outsider: Client, lab: SmallLab
) -> None:
    address = f"{LIST}{recurring(lab).uuid}/"
    page(viewer, address)
    assert "end=1" not in page(viewer, address)
    post(viewer, address, 403, action="end")
    post(viewer, ADD, 403, **FORM)
    page(outsider, address, 404)
    post(outsider, address, 404, action="end")
    assert "data-recurring" not in page(outsider, LIST)
    for each in (LIST, address):
        assert_needs_sign_in(each)


def test_a_problem_is_shown_as_text(owner: Client, lab: SmallLab) -> None:
    added = recurring(lab, name=HOSTILE)
    RecurringActivity.objects.update(problem=HOSTILE)
    text = page(owner, f"{LIST}{added.uuid}/") + page(owner, LIST)
    assert HOSTILE not in text
    assert "data-problem" in text
    assert 'data-state="problem"' in text


def test_pages_read_a_fixed_number_of_queries(owner: Client, lab: SmallLab) -> None:
    added = recurring(lab)
    address = f"{LIST}{added.uuid}/"
    run_until_idle(worker="test")
    page(owner, LIST)
    before = queries(owner, LIST), queries(owner, address)
    for number in range(5):
        project = Project.objects.create(
            lab=lab.lab, slug=f"p{number}", name=f"P{number}", created_us=T0
        )
        recurring(lab, name=f"nas-{number}", project=project.slug)
    run_until_idle(worker="test")
    assert (queries(owner, LIST), queries(owner, address)) == before


def test_it_shows_up_to_twelve_periods(owner: Client, lab: SmallLab) -> None:
    added = recurring(lab, "2025-06-15")
    run_until_idle(worker="test")
    text = page(owner, f"{LIST}{added.uuid}/")
    assert 'data-recorded="16"' in text
    assert 'data-periods="12"' in text
    assert text.count("data-energy=") == 12
