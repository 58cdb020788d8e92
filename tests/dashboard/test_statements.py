"""/statements/ : the list of closed periods."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import time_machine
from django.test import Client

from apps.reports.models import Statement
from tests.builders import SmallLab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import assert_needs_sign_in, assert_only, queries, text_of
from tests.reports.support import DECEMBER_US, close, full_lab, provisional

PAGE = "/statements/"


@pytest.fixture
def lab(db: None) -> Iterator[SmallLab]:
    with time_machine.travel(datetime.fromtimestamp(DECEMBER_US // 10**6, tz=UTC), tick=False):
        yield full_lab()


def test_an_empty_list_says_what_to_do(owner: Client, viewer: Client) -> None:
    page = text_of(owner.get(PAGE))
    assert 'data-empty="statements"' in page
    assert 'href="/statements/close/"' in page
    assert 'href="/statements/close/"' not in text_of(viewer.get(PAGE))


def test_a_closed_period_is_the_same_until_its_figures_change(
    lab: SmallLab, viewer: Client
) -> None:
    statement = close(lab).statement
    page = text_of(viewer.get(PAGE))
    assert f'data-statement="{statement.pk}" data-revision="1"' in page
    assert "data-same" in page
    assert "data-stale" not in page
    provisional(lab.lab, {0: 999})
    page = text_of(viewer.get(PAGE))
    assert "data-stale" in page
    assert "data-same" not in page


def test_figures_that_were_changed_in_the_database_are_not_shown(
    lab: SmallLab, owner: Client
) -> None:
    statement = close(lab).statement
    content = statement.content.replace("energy_mj", "energy_mJ", 1)
    Statement.objects.filter(pk=statement.pk).update(content=content)
    page = text_of(owner.get(PAGE))
    assert "data-damaged" in page
    assert "data-same" not in page
    assert owner.get(f"{PAGE}{statement.pk}/").status_code == 409
    assert owner.get(f"{PAGE}{statement.pk}/statement.json").status_code == 409


def test_each_row_needs_one_query(lab: SmallLab, owner: Client) -> None:
    _copies(close(lab).statement, 0)
    one = queries(owner, PAGE)
    _copies(Statement.objects.get(), 4)
    assert queries(owner, PAGE) == one + 4


def _copies(statement: Statement, number: int) -> None:
    for _ in range(number):
        statement.pk, statement.from_hour = None, statement.from_hour - 1
        statement.save(force_insert=True)


def test_pages_of_the_list(lab: SmallLab, owner: Client) -> None:
    _copies(close(lab).statement, 12)
    page = text_of(owner.get(PAGE))
    assert page.count("data-statement=") == 12
    assert 'href="?page=2" rel="next"' in page
    page = text_of(owner.get(f"{PAGE}?page=2"))
    assert page.count("data-statement=") == 1
    assert 'rel="prev"' in page
    assert owner.get(f"{PAGE}?page=x").status_code == 400
    assert owner.get(f"{PAGE}?page=0").status_code == 400


def test_another_lab_sees_none(lab: SmallLab, outsider: Client) -> None:
    close(lab)
    assert 'data-empty="statements"' in text_of(outsider.get(PAGE))


def test_access() -> None:
    assert_needs_sign_in(PAGE)


def test_methods(lab: SmallLab) -> None:
    assert_only(client_of(lab.owner), PAGE, "GET")
