"""Status of budgets: those of the lab on the overview, those of a project on its page."""

import re
from collections.abc import Iterator
from datetime import date, timedelta

import pytest
import time_machine
from django.test import Client

from apps.accounts.models import Project
from apps.budgets.choices import BudgetMetric, PeriodKind
from apps.budgets.models import Budget
from apps.budgets.services import end_budget
from apps.fleet.services import set_price
from tests.budgets.support import at, budget, use_days
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    HOSTILE,
    assert_each_figure_explains_itself,
    figures_on,
    queries,
    text_of,
)

OVERVIEW, PROJECT = "/", "/projects/demo/"
NOVEMBER = date(2026, 11, 1)
MJ = 10**7
USED_MJ = 20 * MJ  # of the project in November


@pytest.fixture(autouse=True)
def november(lab: SmallLab) -> Iterator[None]:
    """The 20th of November, 18:00 in the lab."""
    with time_machine.travel(at(lab, date(2026, 11, 20), 18) / 1e6, tick=False):
        yield


@pytest.fixture
def demo(lab: SmallLab) -> Project:
    return lab.lab.projects.get(slug="demo")


def use(lab: SmallLab, first: date = NOVEMBER, last: date = date(2026, 11, 20)) -> None:
    number = (last - first).days + 1
    use_days(lab, {first + timedelta(days=place): MJ for place in range(number)})


def lines_on(client: Client, address: str) -> dict[int, str]:
    """Return {budget: its line}."""
    page = text_of(client.get(address))
    parts = re.split(r'<li data-budget="(\d+)">', page)
    return {
        int(pk): line.partition("</li>")[0]
        for pk, line in zip(parts[1::2], parts[2::2], strict=True)
    }


def state_and_forecast(line: str) -> tuple[str, str]:
    [state] = re.findall(r'data-state="(\w+)"', line)
    [forecast] = re.findall(r'data-forecast="(\w+)"', line)
    return state, forecast


def test_each_page_has_its_own_budgets(viewer: Client, lab: SmallLab, demo: Project) -> None:
    other = Project.objects.create(lab=lab.lab, slug="other", name="Other", created_us=T0)
    use(lab)
    of_lab, of_year = budget(lab), budget(lab, period=PeriodKind.YEAR)
    of_demo, of_other = budget(lab, project=demo), budget(lab, project=other)
    ended = budget(lab, metric=BudgetMetric.EMISSION)
    end_budget(budget=ended, by=lab.owner, now=T0)
    assert set(lines_on(viewer, OVERVIEW)) == {of_lab.pk, of_year.pk}
    lines = lines_on(viewer, PROJECT)
    assert set(lines) == {of_demo.pk}
    assert f'href="/budgets/{of_demo.pk}/"' in lines[of_demo.pk]
    assert set(lines_on(viewer, "/projects/other/")) == {of_other.pk}


def test_without_budgets_nothing_is_shown(
    viewer: Client, outsider: Client, lab: SmallLab, demo: Project
) -> None:
    use(lab)
    for address in (OVERVIEW, PROJECT):
        assert 'id="budgets-title"' not in text_of(viewer.get(address))
    budget(lab)
    budget(lab, project=demo)
    assert lines_on(outsider, OVERVIEW) == {}
    assert lines_on(outsider, PROJECT) == {}


@pytest.mark.parametrize(
    ("amount_mj", "state", "label"),
    [
        (USED_MJ - 1, "over", "over"),
        (USED_MJ, "near", "near"),
        (USED_MJ * 5 // 4, "near", "near"),
        (USED_MJ * 5 // 4 + 1, "near", "forecast over"),
        (30 * MJ - 1, "near", "forecast over"),
        (30 * MJ, "within", "within"),
    ],
)
def test_states(
    viewer: Client, lab: SmallLab, demo: Project, amount_mj: int, state: str, label: str
) -> None:
    use(lab)
    stored = budget(lab, amount_mj, project=demo)
    line = lines_on(viewer, PROJECT)[stored.pk]
    assert state_and_forecast(line) == (state, "few_periods")
    assert re.findall(r'data-state="\w+">([^<]*)<', line) == [label]
    share = re.findall(r"data-share>(\d+)", line)
    assert share == [str((USED_MJ * 1000 // amount_mj + 5) // 10)]


def test_forecast_with_range_without_and_before_its_first_day(
    viewer: Client, lab: SmallLab, demo: Project
) -> None:
    use(lab, date(2026, 3, 1))
    stored = budget(lab, project=demo)
    assert state_and_forecast(lines_on(viewer, PROJECT)[stored.pk]) == ("within", "range")
    with time_machine.travel(at(lab, date(2026, 11, 14)) / 1e6, tick=False):
        line = lines_on(client_of(lab.owner), PROJECT)[stored.pk]
    assert state_and_forecast(line) == ("within", "early")
    assert "15 Nov" in line


def test_no_data_no_energy_and_no_factor_are_different(lab: SmallLab, viewer: Client) -> None:
    idle = Project.objects.create(lab=lab.lab, slug="idle", name="Idle", created_us=T0)
    stored = budget(lab, project=idle)
    line = lines_on(viewer, "/projects/idle/")[stored.pk]
    assert 'data-used="unknown"' in line
    assert state_and_forecast(line)[0] == "unknown"
    use(lab)
    line = lines_on(viewer, "/projects/idle/")[stored.pk]
    assert 'data-used="none"' in line
    assert state_and_forecast(line) == ("within", "no_use")
    dark = small_lab(name="Dark", zone="")
    use(dark)
    stored = budget(dark, metric=BudgetMetric.EMISSION)
    line = lines_on(client_of(dark.owner), OVERVIEW)[stored.pk]
    assert state_and_forecast(line) == ("unknown", "unknown")
    assert "data-share" not in line


def test_a_cost_that_is_partly_unknown_is_a_lower_bound(viewer: Client, lab: SmallLab) -> None:
    set_price(
        site=lab.site, ucurrency_per_kwh=300_000, currency="EUR",
        from_us=at(lab, date(2026, 11, 10)), by=lab.owner, now=T0,
    )  # fmt: skip
    lab.lab.refresh_from_db()
    use(lab)
    stored = budget(lab, metric=BudgetMetric.COST, amount=10**6)
    assert re.findall(r"data-share>≥", lines_on(viewer, OVERVIEW)[stored.pk])


def test_the_live_part_has_the_budgets(viewer: Client, lab: SmallLab) -> None:
    use(lab)
    for has_budget in (False, True):
        if has_budget:
            budget(lab)
        live = text_of(viewer.get(OVERVIEW, headers={"HX-Request": "true"}))
        assert re.search(r'id="budgets"[^>]*hx-swap-oob="true"', live)
        assert ('id="budgets-title"' in live) == has_budget
        whole = text_of(viewer.get(OVERVIEW))
        assert set(figures_on(live)) == set(figures_on(whole))
        assert_each_figure_explains_itself(viewer, whole)


def test_names_are_text(viewer: Client, lab: SmallLab, demo: Project) -> None:
    Project.objects.filter(pk=demo.pk).update(name=HOSTILE)
    budget(lab, project=demo)
    assert "<script>alert" not in text_of(viewer.get(PROJECT))


@pytest.mark.parametrize(
    ("address", "without", "one_budget"), [(OVERVIEW, 26, 30), (PROJECT, 16, 20)]
)
def test_queries(
    owner: Client, lab: SmallLab, demo: Project, address: str, without: int, one_budget: int
) -> None:
    """One read of the amounts, one of the use, one of device time for each kind of period, and one
    of open estimates.
    """
    use(lab)
    assert queries(owner, address) <= without
    project = demo if address == PROJECT else None
    budget(lab, project=project)
    assert queries(owner, address) <= one_budget
    budget(lab, project=project, metric=BudgetMetric.EMISSION)
    assert queries(owner, address) <= one_budget
    for period in (PeriodKind.QUARTER, PeriodKind.YEAR):
        for metric in (BudgetMetric.ENERGY, BudgetMetric.EMISSION):
            budget(lab, project=project, metric=metric, period=period)
    assert Budget.objects.count() == 6
    assert queries(owner, address) <= one_budget + 2
