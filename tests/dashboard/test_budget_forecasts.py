"""The stored forecasts of a budget: hit rate, table and CSV."""

import csv
import re
from collections.abc import Iterator
from datetime import date, timedelta
from html import unescape
from io import StringIO

import pytest
import time_machine
from django.test import Client

from apps.budgets.choices import BudgetMetric, ForecastScore, PeriodKind
from apps.budgets.models import Budget, BudgetForecast
from apps.budgets.services import end_budget
from apps.dashboard.budgets.stored_forecasts import FORECAST_HEADER, MAX_FORECASTS
from tests.budgets.support import KWH, at, budget
from tests.builders import T0, SmallLab
from tests.dashboard.support import assert_needs_sign_in, assert_only, queries, text_of

OCTOBER, NOVEMBER, DECEMBER = date(2026, 10, 1), date(2026, 11, 1), date(2026, 12, 1)


@pytest.fixture(autouse=True)
def december(lab: SmallLab) -> Iterator[None]:
    """The 20th of December, 18:00 in the lab."""
    with time_machine.travel(at(lab, date(2026, 12, 20), 18) / 1e6, tick=False):
        yield


def store(of: Budget, first_day: date, day: int, **changes: object) -> BudgetForecast:
    """Store a forecast of 10 kWh, 9 to 12, after a day of a month."""
    values = {"used": 5 * KWH, "total": 10 * KWH, "low": 9 * KWH, "high": 12 * KWH, **changes}
    return BudgetForecast.objects.create(
        budget=of, first_day=first_day, day=first_day + timedelta(days=day - 1), created_us=T0,
        **values,
    )  # fmt: skip


def store_each_kind(of: Budget) -> None:
    """Store a forecast of each score, latest last."""
    store(of, OCTOBER, 14, actual=11 * KWH, is_inside=True)
    store(of, OCTOBER, 15, actual=8 * KWH, is_inside=False)
    store(of, NOVEMBER, 14, actual=0, is_inside=False)
    store(of, NOVEMBER, 15, low=None, high=None, actual=11 * KWH)
    store(of, NOVEMBER, 16)
    store(of, DECEMBER, 14)
    store(of, DECEMBER, 15, low=None, high=None)


SCORES = ["running", "running", "unknown", "no_range", "outside", "outside", "inside"]
ERRORS = ["", "", "", "-90909", "", "250000", "-90909"]


def address_of(stored: Budget) -> str:
    return f"/budgets/{stored.pk}/forecasts.csv"


def page_of(client: Client, stored: Budget) -> str:
    response = client.get(f"/budgets/{stored.pk}/")
    assert response.status_code == 200
    page = text_of(response)
    return page[page.index('id="forecasts"') :].partition("</section>")[0]


def hit_rate_on(page: str) -> str:
    [state] = re.findall(r'data-hit-rate="([^"]+)"', page)
    return str(state)


def cells_of(page: str) -> list[list[str]]:
    """Return the texts of the cells of each row of the table."""
    return [
        [
            " ".join(unescape(re.sub(r"<[^>]+>", "", cell)).split())
            for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)
        ]
        for row in page[page.index("<tbody>") :].split("<tr>")[1:]
    ]


def test_works(member: Client, lab: SmallLab) -> None:
    stored = budget(lab)
    store_each_kind(stored)
    response = member.get(address_of(stored))
    assert response["Content-Disposition"] == (
        f'attachment; filename="cell-lab-budget-{stored.pk}-forecasts.csv"'
    )
    rows = list(csv.DictReader(StringIO(text_of(response))))
    assert list(rows[0]) == list(FORECAST_HEADER)
    assert [row["score"] for row in rows] == SCORES
    assert [row["error_ppm"] for row in rows] == ERRORS
    assert rows[-1] == {
        "period_first_day": "2026-10-01", "day": "2026-10-14", "basis": "",
        "used": str(5 * KWH), "forecast": str(10 * KWH), "forecast_p10": str(9 * KWH),
        "forecast_p90": str(12 * KWH), "actual": str(11 * KWH), "error_ppm": "-90909",
        "score": "inside", "unit": "mJ",
    }  # fmt: skip
    assert (rows[4]["actual"], rows[2]["actual"]) == ("0", ""), "zero is not unknown"
    assert (rows[3]["forecast_p10"], rows[3]["forecast_p90"]) == ("", "")


def test_wrong_method(member: Client, lab: SmallLab) -> None:
    assert_only(member, address_of(budget(lab)), "GET")


def test_other_lab(outsider: Client, lab: SmallLab) -> None:
    stored = budget(lab)
    store_each_kind(stored)
    assert outsider.get(address_of(stored)).status_code == 404
    assert_needs_sign_in(address_of(stored))


def test_read_only(viewer: Client, lab: SmallLab) -> None:
    stored = budget(lab, metric=BudgetMetric.EMISSION, amount=10**9)
    store(stored, DECEMBER, 14, basis=lab.lab.basis)
    [row] = csv.DictReader(StringIO(text_of(viewer.get(address_of(stored)))))
    assert (row["unit"], row["basis"]) == ("µg CO₂e", lab.lab.basis)


@pytest.mark.parametrize("number", [0, 2**63, 2**64])
def test_invalid_input(member: Client, lab: SmallLab, number: int) -> None:
    assert member.get(f"/budgets/{number}/forecasts.csv").status_code == 404


def test_the_page_counts_and_lists_the_same_forecasts(viewer: Client, lab: SmallLab) -> None:
    stored = budget(lab)
    store_each_kind(stored)
    page = page_of(viewer, stored)
    assert hit_rate_on(page) == "333333"
    assert "1 of 3 forecasts were within their range." in " ".join(page.split())
    assert re.findall(r'data-score="(\w+)"', page) == SCORES
    assert f'href="{address_of(stored)}"' in page
    assert cells_of(page) == [
        ["15 Dec 2026", "10.0", "none", "–", "–", "running"],
        ["14 Dec 2026", "10.0", "9.00 to 12.0", "–", "–", "running"],
        ["16 Nov 2026", "10.0", "9.00 to 12.0", "–", "–", "actual unknown"],
        ["15 Nov 2026", "10.0", "none", "11.0", "\N{MINUS SIGN}9.1 %", "no range"],
        ["14 Nov 2026", "10.0", "9.00 to 12.0", "0", "–", "outside"],
        ["15 Oct 2026", "10.0", "9.00 to 12.0", "8.00", "+25 %", "outside"],
        ["14 Oct 2026", "10.0", "9.00 to 12.0", "11.0", "\N{MINUS SIGN}9.1 %", "inside"],
    ]


def test_one_forecast_is_singular(viewer: Client, lab: SmallLab) -> None:
    stored = budget(lab)
    store(stored, OCTOBER, 14, actual=11 * KWH, is_inside=True)
    page = " ".join(page_of(viewer, stored).split())
    assert "1 of 1 forecast was within its range." in page


def test_no_forecasts_and_none_scored_are_different(viewer: Client, lab: SmallLab) -> None:
    stored = budget(lab)
    page = page_of(viewer, stored)
    assert hit_rate_on(page) == "no-forecasts"
    assert "data-forecasts" not in page
    assert "forecasts.csv" not in page
    store(stored, DECEMBER, 14)
    store(stored, NOVEMBER, 14, low=None, high=None, actual=KWH)
    store(stored, OCTOBER, 14)
    page = page_of(viewer, stored)
    assert hit_rate_on(page) == "not-scored"
    assert re.findall(r'data-score="(\w+)"', page) == ["running", "no_range", "unknown"]


def test_an_ended_budget_keeps_its_forecasts(viewer: Client, lab: SmallLab) -> None:
    stored, other = budget(lab), budget(lab, period=PeriodKind.YEAR)
    store_each_kind(stored)
    for each in (stored, other):
        end_budget(budget=each, by=lab.owner, now=at(lab, date(2026, 12, 16)))
    assert re.findall(r'data-score="(\w+)"', page_of(viewer, stored)) == SCORES
    assert hit_rate_on(page_of(viewer, other)) == "no-forecasts"


def test_a_period_is_over_at_midnight_of_the_lab(lab: SmallLab) -> None:
    stored = store(budget(lab, period=PeriodKind.QUARTER), OCTOBER, 14)
    assert stored.score_on(date(2026, 12, 31)) == ForecastScore.RUNNING
    assert stored.score_on(date(2027, 1, 1)) == ForecastScore.UNKNOWN


def test_a_long_list_has_its_end_in_the_csv(viewer: Client, lab: SmallLab) -> None:
    stored = budget(lab, period=PeriodKind.YEAR)
    first = date(2026, 1, 1)
    store(stored, first, 14)
    before = queries(viewer, f"/budgets/{stored.pk}/")
    for day in range(15, 15 + MAX_FORECASTS - 1):
        store(stored, first, day)
    assert "data-more-forecasts" not in page_of(viewer, stored)
    store(stored, first, 300)
    page = page_of(viewer, stored)
    assert page.count("data-score") == MAX_FORECASTS
    assert "data-more-forecasts" in page
    assert queries(viewer, f"/budgets/{stored.pk}/") == before
    lines = text_of(viewer.get(address_of(stored))).splitlines()
    assert len(lines) == 1 + MAX_FORECASTS + 1
