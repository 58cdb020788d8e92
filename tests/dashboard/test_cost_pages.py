"""Costs on pages: explanation, project, run and their CSV."""

import csv
import io
import re

import pytest
from django.test import Client

from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import COST, FigureQuery
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.fleet.services import set_price
from tests.builders import T0, SmallLab
from tests.dashboard.support import (
    HOUR,
    PERIOD,
    assert_each_figure_explains_itself,
    many_projects,
    queries,
    text_of,
    use,
)

QUERY = FigureQuery(metric=COST, from_hour=HOUR - 5, to_hour=HOUR + 5)
PROJECT = f"/projects/demo/?{PERIOD}"


def price(lab: SmallLab, ucurrency: int, hour: int = HOUR - 5, currency: str = "EUR") -> None:
    set_price(
        site=lab.site,
        ucurrency_per_kwh=ucurrency,
        currency=currency,
        from_us=hour * US_PER_HOUR,
        by=lab.owner,
        now=T0,
    )
    run_until_idle(worker="test")
    lab.lab.refresh_from_db()


def test_the_explanation_names_price_site_date_and_the_exact_cost(
    lab: SmallLab, owner: Client
) -> None:
    use(lab)
    price(lab, 310_000_000)  # 310 EUR per kWh, so that a minute costs something
    page = text_of(owner.get(f"/explain/?{QUERY.to_query_string()}"))
    cost = figure(lab.lab, QUERY).cost_ucurrency
    assert cost == 516_667 + 344_444  # 6 000 001 mJ and 4 000 000 mJ, each rounded
    assert f'data-explain-value="{cost}"' in page
    assert "0.86" in page
    assert "861\u202f111 millionths of EUR" in page
    assert len(re.findall("data-price", page)) == 2
    assert "310 EUR per kWh" in page
    assert f'href="/sites/{lab.site.pk}/prices/"' in page
    assert lab.owner.username in page
    assert "<span data-known>100 %</span>" in page
    assert "rounded half up once per ledger entry" in page
    assert "data-unpriced" not in page
    assert assert_each_figure_explains_itself(owner, page) >= 3


def test_without_a_price_the_cost_is_unknown_and_the_site_is_named(
    lab: SmallLab, owner: Client
) -> None:
    use(lab)
    page = text_of(owner.get(f"/explain/?{QUERY.to_query_string()}"))
    assert 'data-explain-value="unknown"' in page
    assert 'data-without-price="Room 1"' in page
    assert "data-unpriced" in page
    assert "Exact value" not in page
    assert "The error of declared energy is unknown" not in page
    content = text_of(owner.get(PROJECT)).partition("<main")[2]
    assert content
    assert "cost" not in content.partition('id="chart-title"')[0].lower()


def test_a_cost_of_some_hours_is_a_lower_bound(lab: SmallLab, owner: Client) -> None:
    use(lab)
    use(lab, first=60)
    price(lab, 310_000_000, HOUR + 1)
    page = text_of(owner.get(f"/explain/?{QUERY.to_query_string()}"))
    assert "≥" in page
    assert page.count("data-part") == 2
    assert 'data-without-price="Room 1"' in page
    known = re.search(r"<span data-known>(\d+) %</span>", page)
    assert known
    assert known[1] == "50"


def test_another_currency_is_apart_and_has_its_own_explanation(
    lab: SmallLab, owner: Client
) -> None:
    use(lab)
    use(lab, first=60)
    price(lab, 310_000_000)
    price(lab, 100_000_000, HOUR + 1, "CHF")
    page = text_of(owner.get(f"/explain/?{QUERY.to_query_string()}"))
    assert "data-not-added" in page
    assert "data-other-currency" in page
    assert "currency=CHF" in page
    assert f'data-explain-value="{516_667 + 344_444}"' in page
    assert assert_each_figure_explains_itself(owner, page) >= 3


def test_project_and_run_show_their_cost(lab: SmallLab, owner: Client) -> None:
    [run] = use(lab)
    price(lab, 310_000_000)
    for address in (PROJECT, f"/runs/{run}/"):
        page = text_of(owner.get(address))
        assert re.search(r'data-figure="metric=cost_ucurrency[^"]*currency=EUR"', page), address
        assert 'data-value="516667"' in page
        assert_each_figure_explains_itself(owner, page)


def test_csv_have_the_cost_with_its_currency(lab: SmallLab, owner: Client) -> None:
    use(lab)
    use(lab, first=60)
    price(lab, 310_000_000, HOUR + 1)
    rows = list(
        csv.DictReader(
            io.StringIO(
                text_of(owner.get(f"/explain/ledger.csv?{QUERY.to_query_string()}")).lstrip(
                    "\ufeff"
                )
            )
        )
    )
    assert (
        sum(int(row["cost_ucurrency"] or 0) for row in rows)
        == figure(lab.lab, QUERY).cost_ucurrency
    )
    assert {(row["currency"], bool(row["cost_ucurrency"])) for row in rows} == {
        ("EUR", True), ("", False),
    }  # fmt: skip
    project = text_of(owner.get(f"/projects/demo/energy.csv?{PERIOD}")).lstrip("\ufeff")
    lines = list(csv.DictReader(io.StringIO(project)))
    assert [(line["cost_ucurrency"], line["without_price_mj"]) for line in lines] == [
        ("", "6000001"), ("516667", "0"),
    ]  # fmt: skip


def test_a_currency_belongs_to_a_cost(lab: SmallLab, owner: Client) -> None:
    address = QUERY.to_query_string()
    assert owner.get(f"/explain/?{address}&currency=XXQ").status_code == 400
    energy = QUERY.replace(metric="energy_mj").to_query_string()
    assert owner.get(f"/explain/?{energy}&currency=EUR").status_code == 400


@pytest.mark.parametrize("page", ["/explain/?" + QUERY.to_query_string(), PROJECT])
def test_the_number_of_queries_is_constant(lab: SmallLab, owner: Client, page: str) -> None:
    use(lab)
    price(lab, 310_000, HOUR + 1)
    before = queries(owner, page)
    many_projects(lab, 5)
    price(lab, 320_000, HOUR + 2)
    price(lab, 330_000, HOUR + 3, "CHF")
    assert queries(owner, page) == before
