"""Pages of budgets: list, one budget, forms, CSV, and who may see and change them."""

import csv
import json
import re
from datetime import date, timedelta
from html import unescape
from io import StringIO
from urllib.parse import parse_qsl

import pytest
import time_machine
from django.test import Client

from apps.accounts.models import Project
from apps.budgets.choices import BudgetMetric, PeriodKind
from apps.budgets.models import Budget
from apps.budgets.services import end_budget
from apps.carbon.figures.energy import figure
from apps.carbon.figures.query_parsing import parse_query
from tests.budgets.support import KWH, at, budget, use_days
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    HOSTILE,
    assert_needs_sign_in,
    fields_with_errors,
    figures_on,
    queries,
    text_of,
)

LIST = "/budgets/"
FORM = {"project": "", "metric": "energy_mj", "period": "month", "amount": "1,5"}
NOVEMBER = date(2026, 11, 1)
MJ = 10**7


@pytest.fixture(autouse=True)
def november(lab: SmallLab):  # type: ignore[no-untyped-def]
    """The 20th of November, 18:00 in the lab."""
    with time_machine.travel(at(lab, date(2026, 11, 20), 18) / 1e6, tick=False):
        yield


def use(lab: SmallLab, first: date = NOVEMBER, number: int = 20, project: str = "demo") -> None:
    days = {first + timedelta(days=place): MJ + place for place in range(number)}
    use_days(lab, days, project=project, number=len(project))


def get(client: Client, address: str, status: int = 200) -> str:
    reply = client.get(address)
    assert reply.status_code == status, text_of(reply)[:2000]
    return text_of(reply)


def post(client: Client, address: str, status: int, **data: str) -> str:
    reply = client.post(address, data)
    assert reply.status_code == status, text_of(reply)[:2000]
    return reply["Location"] if status == 302 else text_of(reply)


def rows_of(client: Client, address: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(get(client, address))))


def state_of(page: str) -> str:
    return re.findall(r'data-state="(\w+)"', page)[0]


def test_without_budgets_the_page_says_so(owner: Client, viewer: Client) -> None:
    assert 'data-empty="budgets"' in get(owner, LIST)
    assert 'data-form="add-budget"' in get(owner, LIST)
    assert 'data-form="add-budget"' not in get(viewer, LIST)


def test_add_change_and_end_a_budget(owner: Client, lab: SmallLab) -> None:
    use(lab)
    address = post(owner, LIST, 302, **FORM)
    stored = Budget.objects.get()
    assert stored.amount_on(NOVEMBER) == 3 * KWH // 2
    page = get(owner, address)
    assert state_of(page) == "within"
    assert 'value="1.5"' in page
    post(owner, address, 302, action="change", amount="0.05")
    assert Budget.objects.get().amount_on(NOVEMBER) == KWH // 20
    assert state_of(get(owner, address)) == "over"
    assert 'value="end"' in get(owner, f"{address}?end=1")
    post(owner, address, 302, action="end")
    page = get(owner, address)
    assert "data-ended" in page
    assert "data-form" not in page
    assert "data-ended" in get(owner, LIST)
    get(owner, f"{address}days.csv", 404)
    assert "data-form-errors" in post(owner, address, 409, action="end")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"amount": ""}, "amount"),
        ({"amount": "0"}, "amount"),
        ({"amount": "-1"}, "amount"),
        ({"amount": "1.2345"}, "amount"),
        ({"amount": "9999999999"}, "amount"),
        ({"amount": "many"}, "amount"),
        ({"metric": "cost_ucurrency"}, "metric"),
        ({"metric": "nope"}, "metric"),
        ({"period": "week"}, "period"),
        ({"project": "nope"}, "project"),
    ],
)
def test_errors_are_at_their_fields(owner: Client, changes: dict[str, str], field: str) -> None:
    assert field in fields_with_errors(post(owner, LIST, 400, **{**FORM, **changes}))
    assert not Budget.objects.exists()


def test_a_second_budget_of_the_same_kind_is_refused(owner: Client, lab: SmallLab) -> None:
    stored = budget(lab)
    assert fields_with_errors(post(owner, LIST, 400, **FORM)) == ["period"]
    assert fields_with_errors(
        post(owner, f"{LIST}{stored.pk}/", 400, action="change", amount="x")
    ) == ["amount"]
    assert Budget.objects.count() == 1


def test_who_may(viewer: Client, member: Client, outsider: Client, lab: SmallLab) -> None:
    use(lab)
    stored = budget(lab)
    address = f"{LIST}{stored.pk}/"
    for person in (viewer, member):
        assert 'data-form="change-budget"' not in get(person, address)
        get(person, f"{address}days.csv")
        post(person, LIST, 403, **FORM)
        post(person, address, 403, action="end")
    for own in (address, f"{address}days.csv"):
        get(outsider, own, 404)
        assert_needs_sign_in(own)
    post(outsider, address, 404, action="end")
    assert 'data-empty="budgets"' in get(outsider, LIST)
    assert rows_of(outsider, f"{LIST}budgets.csv") == []
    for read in (f"{LIST}budgets.csv", f"{address}days.csv"):
        post(member, read, 405)
    post(member, LIST, 403)
    assert Budget.objects.get().ended_us is None


def test_an_unknown_budget_is_not_found(owner: Client) -> None:
    for number in (0, 2**63):
        get(owner, f"{LIST}{number}/", 404)
        get(owner, f"{LIST}{number}/days.csv", 404)


def test_the_days_sum_to_the_headline_and_to_its_explanation(owner: Client, lab: SmallLab) -> None:
    use(lab)
    stored = budget(lab, project=Project.objects.get(slug="demo"))
    page = get(owner, f"{LIST}{stored.pk}/")
    whole, *_ = figures_on(page)
    rows = rows_of(owner, f"{LIST}{stored.pk}/days.csv")
    assert len(rows) == 20
    assert sum(int(row["used"]) for row in rows) == int(rows[-1]["used_so_far"]) == whole[1]
    assert [int(row["remaining"]) for row in rows] == [
        KWH - int(row["used_so_far"]) for row in rows
    ]
    table = page[page.index("data-days") : page.index("</table>", page.index("data-days"))]
    *days, total = figures_on(table)
    assert total == whole
    assert sum(value for _, value in days) == whole[1]
    for query, value in (whole, days[3]):
        params = dict(parse_qsl(unescape(query)))
        asked = parse_query(params, basis=lab.lab.basis, profile=lab.lab.profile)
        assert figure(lab.lab, asked).energy_mj == value


def test_the_chart_ends_at_the_remaining_amount(owner: Client, lab: SmallLab) -> None:
    use(lab)
    stored = budget(lab)
    page = get(owner, f"{LIST}{stored.pk}/")
    found = re.search(r'<script id="burn-down" type="application/json">(.*?)</script>', page)
    assert found
    lines = {line["name"]: line for line in json.loads(found[1])["data"]}
    remaining = KWH - figures_on(page)[0][1]
    assert lines["Remaining"]["y"][-1] == pytest.approx(remaining / KWH)
    assert lines["Even use (dashed)"]["y"][-1] == 0


def test_no_energy_and_no_data_are_different(owner: Client, lab: SmallLab) -> None:
    idle = Project.objects.create(lab=lab.lab, slug="idle", name="Idle", created_us=T0)
    stored = budget(lab, project=idle)
    page = get(owner, LIST)
    assert 'data-used="unknown"' in page
    assert state_of(page) == "unknown"
    use(lab)
    page = get(owner, LIST)
    assert 'data-used="none"' in page
    assert state_of(page) == "within"
    assert "data-chart" not in get(owner, f"{LIST}{stored.pk}/")
    row = rows_of(owner, f"{LIST}budgets.csv")[0]
    assert (row["used"], row["state"]) == ("0", "within")


@pytest.mark.parametrize(
    ("first", "forecast"),
    [(NOVEMBER, "few_periods"), (date(2026, 3, 1), "range"), (date(2026, 11, 30), "no_use")],
)
def test_forecast_with_range_or_its_reason(
    owner: Client, lab: SmallLab, first: date, forecast: str
) -> None:
    if first <= date(2026, 11, 20):
        use(lab, first, (date(2026, 11, 21) - first).days)
    else:
        use(lab, NOVEMBER, 5)
    stored = budget(lab)
    for address in (LIST, f"{LIST}{stored.pk}/"):
        assert f'data-forecast="{forecast}"' in get(owner, address)
    row = rows_of(owner, f"{LIST}budgets.csv")[0]
    assert bool(row["forecast_p10"]) == (forecast == "range")
    assert row["forecast"]


def test_before_day_fourteen_the_page_names_the_first_day(owner: Client, lab: SmallLab) -> None:
    use(lab)
    budget(lab, period=PeriodKind.MONTH, now=at(lab, NOVEMBER))
    with time_machine.travel(at(lab, date(2026, 11, 10)) / 1e6, tick=False):
        page = get(owner, LIST)
    assert 'data-forecast="early"' in page
    assert "15 Nov" in page


def test_earlier_periods_have_their_own_amount(owner: Client, lab: SmallLab) -> None:
    use(lab, date(2026, 9, 10), 60)
    stored = budget(lab, amount=MJ, now=at(lab, date(2026, 9, 11)))
    page = get(owner, f"{LIST}{stored.pk}/")
    past = page[page.index("data-past") :]
    assert past.count('data-state="over"') == 2


def test_emissions_without_factor_are_unknown() -> None:
    dark = small_lab(name="Dark", zone="")
    use(dark)
    stored = budget(dark, metric=BudgetMetric.EMISSION)
    page = get(client_of(dark.owner), f"{LIST}{stored.pk}/")
    assert state_of(page) == "unknown"
    assert 'data-forecast="unknown"' in page
    [row] = rows_of(client_of(dark.owner), f"{LIST}budgets.csv")
    assert (row["used"], row["forecast"]) == ("", "")
    assert int(row["without_value_mj"]) > 0


def test_texts_of_persons_are_escaped(owner: Client, lab: SmallLab) -> None:
    use(lab)
    Project.objects.filter(slug="demo").update(name=HOSTILE)
    stored = budget(lab, project=Project.objects.get(slug="demo"))
    end_budget(budget=budget(lab), by=lab.owner, now=T0)
    for address in (LIST, f"{LIST}{stored.pk}/"):
        assert "<script>alert" not in get(owner, address)


def test_the_list_needs_the_same_queries_for_many_budgets(owner: Client, lab: SmallLab) -> None:
    use(lab)
    budget(lab)
    queries(owner, LIST)
    one = queries(owner, LIST)
    for number in range(10):
        project = Project.objects.create(
            lab=lab.lab, slug=f"p{number}", name=f"P{number}", created_us=T0
        )
        budget(lab, project=project)
    assert queries(owner, LIST) == one
