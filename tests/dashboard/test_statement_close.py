"""/statements/close/ : the checklist of a period, and closing it."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import time_machine
from django.test import Client

from apps.ingest.models import DirtyHour
from apps.reports.models import Statement
from tests.builders import SmallLab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import assert_needs_sign_in, assert_only, fields_with_errors, text_of
from tests.reports.support import DECEMBER_US, HOUR, close, full_lab

PAGE = "/statements/close/"
DAYS = {"first_day": "2026-11-01", "last_day": "2026-11-30"}


@pytest.fixture
def lab(db: None) -> Iterator[SmallLab]:
    with time_machine.travel(datetime.fromtimestamp(DECEMBER_US // 10**6, tz=UTC), tick=False):
        yield full_lab()


def checks(page: str) -> dict[str, str]:
    return dict(re.findall(r'data-check="(\w+)" data-state="(\w+)"', page))


def test_the_last_month_is_the_default_and_one_button_closes_it(
    lab: SmallLab, owner: Client
) -> None:
    page = text_of(owner.get(PAGE))
    assert 'name="first_day" value="2026-11-01"' in page
    assert checks(page) == {
        "over": "done", "data": "done", "settled": "done", "coverage": "open",
        "quarantined": "done", "unattributed": "open", "provisional": "open", "priced": "open",
    }  # fmt: skip
    answer = owner.post(PAGE, DAYS)
    statement = Statement.objects.get()
    assert answer.status_code == 302
    assert answer["Location"] == f"/statements/{statement.pk}/"
    assert (statement.created_by, statement.revision) == (lab.owner, 1)
    page = text_of(owner.get(PAGE, DAYS))
    assert f'data-closed="{statement.pk}"' in page
    assert "<button" in page
    assert 'type="hidden" name="first_day"' not in page
    assert owner.post(PAGE, DAYS)["Location"] == f"/statements/{statement.pk}/"
    assert Statement.objects.count() == 1


def test_what_is_required_blocks(lab: SmallLab, owner: Client) -> None:
    running = {"first_day": "2026-11-01", "last_day": "2026-12-31"}
    page = text_of(owner.get(PAGE, running))
    assert checks(page)["over"] == "blocks"
    assert "data-blocked" in page
    answer = owner.post(PAGE, running)
    assert answer.status_code == 400
    assert fields_with_errors(text_of(answer)) == []
    assert 'role="alert"' in text_of(answer)
    DirtyHour.objects.create(device=lab.node.devices.get(), hour=HOUR)
    page = text_of(owner.get(PAGE, DAYS))
    assert checks(page)["settled"] == "blocks"
    answer = owner.post(PAGE, DAYS)
    assert answer.status_code == 409
    assert not Statement.objects.exists()


@pytest.mark.parametrize(
    "days",
    [
        {"first_day": "2026-11-30", "last_day": "2026-11-01"},
        {"first_day": "1980-01-01", "last_day": "2026-11-01"},
        {"first_day": "x", "last_day": "2026-11-01"},
        {"first_day": "2026-11-01"},
        {"first_day": "", "last_day": ""},
        {"first_day": "2026-11-01\0", "last_day": "2026-11-30"},
    ],
)
def test_invalid_days(lab: SmallLab, owner: Client, days: dict[str, str]) -> None:
    assert owner.get(PAGE, days).status_code == 400
    assert owner.post(PAGE, days).status_code == 400
    assert not Statement.objects.exists()


def test_only_pis_and_admins_close(lab: SmallLab, viewer: Client, member: Client) -> None:
    for client in (viewer, member):
        assert client.get(PAGE).status_code == 403
        assert client.post(PAGE, DAYS).status_code == 403
    assert not Statement.objects.exists()


def test_another_lab_closes_its_own_period(lab: SmallLab, outsider: Client) -> None:
    close(lab)
    page = text_of(outsider.get(PAGE, DAYS))
    assert "data-closed" not in page
    assert checks(page)["data"] == "blocks"  # the other lab has no data
    assert outsider.post(PAGE, DAYS).status_code == 400
    assert Statement.objects.get().lab == lab.lab


def test_a_period_before_all_data_is_refused(lab: SmallLab, owner: Client) -> None:
    early = {"first_day": "2025-03-01", "last_day": "2025-03-31"}
    page = text_of(owner.get(PAGE, early))
    assert checks(page)["data"] == "blocks"
    assert "2026-11-02" in page
    assert "data-blocked" in page
    answer = owner.post(PAGE, early)
    assert answer.status_code == 400
    assert "2026-11-02" in text_of(answer)
    assert not Statement.objects.exists()


def test_access() -> None:
    assert_needs_sign_in(PAGE)


def test_methods(lab: SmallLab) -> None:
    assert_only(client_of(lab.owner), PAGE, "GET", "POST")
