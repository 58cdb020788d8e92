"""Statements show both totals, never added, or state why there is no market-based one."""

import csv
import io
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime

import pytest
import time_machine
from django.test import Client

from apps.carbon.market.choices import RuleEdition
from apps.carbon.market.market_years import compute_years
from apps.carbon.rollups import writer
from apps.core.jobs import run_until_idle
from apps.reports.market_totals import STATE
from apps.reports.models import Statement
from apps.reports.rows import LINE, canonical_text, digest_of_text
from apps.reports.selectors import frozen_rows
from apps.reports.services import close_period
from tests.builders import SmallLab, small_lab
from tests.carbon.market.instruments import RESIDUAL, add
from tests.carbon.market.test_market_years import use
from tests.dashboard.conftest import client_of
from tests.dashboard.support import text_of

pytestmark = pytest.mark.django_db(transaction=True)
LATER = int(datetime(2027, 1, 3, 12, tzinfo=UTC).timestamp()) * 10**6
NOVEMBER = date(2026, 11, 1), date(2026, 11, 30)
YEAR = date(2026, 1, 1), date(2026, 12, 31)


@pytest.fixture
def small() -> Iterator[SmallLab]:
    with time_machine.travel(LATER / 1e6, tick=False):
        small = small_lab()
        use(small, (1, 1_000_000), (30, 3_000_001))
        add(small.lab, **RESIDUAL)
        run_until_idle(worker="test")
        assert writer.roll_up(lab=small.lab, now=LATER)
        assert compute_years(lab=small.lab, now=LATER)
        run_until_idle(worker="test")
        yield small


@pytest.fixture
def owner(small: SmallLab) -> Client:
    return client_of(small.owner)


def close(small: SmallLab, days: tuple[date, date] = YEAR) -> Statement:
    return close_period(
        lab=small.lab, first_day=days[0], last_day=days[1], by=small.owner, now=LATER
    ).statement


def frozen(statement: Statement) -> dict[str, int]:
    """Return {rule edition: µg} of a statement."""
    return {
        row.subject.partition(":")[2]: row.number
        for row in frozen_rows(statement)
        if row.kind == LINE and row.is_market and row.metric == "emission_ug" and not row.factor
    }


@pytest.mark.parametrize("part", ["", "print/"])
def test_the_page_and_the_sheet_have_both_rule_editions(
    small: SmallLab, owner: Client, part: str
) -> None:
    statement = close(small)
    page = text_of(owner.get(f"/statements/{statement.pk}/{part}"))
    shown = re.findall(r'data-market="([\w-]+)"\s+data-ug="(\d+)"\s*(data-draft)?', page)
    assert {edition: int(ug) for edition, ug, _ in shown} == frozen(statement)
    assert [draft for _, _, draft in shown] == ["", "data-draft"]
    assert all(edition.label in page for edition in RuleEdition)
    assert "Never added" in page
    assert 'data-subject="market:' not in page


def test_downloads_have_the_integers_and_the_rule_editions(small: SmallLab, owner: Client) -> None:
    statement = close(small)
    content = owner.get(f"/statements/{statement.pk}/statement.csv")
    table = csv.DictReader(io.StringIO(text_of(content)))
    found = {
        row["subject"].partition(":")[2]: int(row["value"])
        for row in table
        if row["kind"] == "line"
        and row["accounting"] == "market"
        and row["metric"] == "emission_ug"
        and not row["factor"]
    }
    assert found == frozen(statement)
    assert set(found) == {edition.value for edition in RuleEdition}


@pytest.mark.parametrize(
    ("days", "state"), [(NOVEMBER, "other_period"), (YEAR, "outdated"), (YEAR, "")]
)
def test_a_statement_without_totals_states_why(
    small: SmallLab, owner: Client, days: tuple[date, date], state: str
) -> None:
    if state == "outdated":
        add(small.lab, name="Late", volume_wh=5)
    statement = close(small, days)
    if not state:  # a statement of before
        rows = [row for row in frozen_rows(statement) if row.metric != STATE and not row.is_market]
        text = canonical_text(rows)
        Statement.objects.filter(pk=statement.pk).update(content=text, sha256=digest_of_text(text))
    for part in ("", "print/"):
        page = text_of(owner.get(f"/statements/{statement.pk}/{part}"))
        assert f'data-market-state="{state}"' in page
        assert 'data-market="' not in page
        assert "none:" in page


def test_differences_name_the_totals(small: SmallLab, owner: Client) -> None:
    statement = close(small)
    add(small.lab, name="Wind park", volume_wh=500)
    run_until_idle(worker="test")
    assert compute_years(lab=small.lab, now=LATER)
    page = text_of(owner.get(f"/statements/{statement.pk}/differences/"))
    assert "Market-based, Scope 2 Guidance (2015)" in page
    assert "Energy covered by instruments" in page


def test_the_checklist_of_a_year_names_outdated_totals(small: SmallLab, owner: Client) -> None:
    address = "/statements/close/?first_day=2026-01-01&last_day=2026-12-31"
    assert re.search(r'data-check="market_based"\s+data-state="done"', text_of(owner.get(address)))
    add(small.lab, name="Late", volume_wh=5)
    page = text_of(owner.get(address))
    assert re.search(r'data-check="market_based"\s+data-state="open"', page)
    assert 'data-market-state="outdated"' in page
    month = text_of(owner.get("/statements/close/?first_day=2026-11-01&last_day=2026-11-30"))
    assert "market_based" not in month
