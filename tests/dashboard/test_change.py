"""/change/ : the parts of the difference between two periods, which add up exactly."""

import csv
import io
import re
from html import unescape

import pytest
import time_machine
from django.test import Client

from apps.accounts.models import Project
from apps.carbon.change.parts import PARTS
from apps.core.jobs import run_until_idle
from apps.energy.choices import IdleSpread
from apps.energy.services.idle import set_idle_policy
from apps.fleet.services import set_static_power
from tests.builders import T0, SmallLab, W, push, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    figures_on,
    gpu,
    queries,
    text_of,
)
from tests.dashboard.test_overview_change import DAY, HOUR_US, day_of, other_node, run_of

SECOND = "from=2026-11-03T08:00Z&to=2026-11-04T08:00Z"
PAGE = f"/change/?{SECOND}"
CSV = f"/change.csv?{SECOND}"


@pytest.fixture
def changed(lab: SmallLab) -> SmallLab:
    """Two days: Demo uses more, Vision less, one node is new, idle and overhead change."""
    Project.objects.create(lab=lab.lab, slug="vision", name="=Vision", created_us=T0)
    set_static_power(node=lab.node, static_power_mw=45_000)
    demo, vision = run_of(lab, "demo", 0), run_of(lab, "vision", 0)
    day_of(lab, lab.node, 0, 0, {demo: 900_001, vision: 900_007, "idle": 50_003})
    day_of(lab, lab.node, 0, 1, {demo: 7_000_013, vision: 100_009, "idle": 70_001})
    second = other_node(lab)
    day_of(lab, second, 1, 1, {run_of(lab, "demo", 1): 300_017, "proc:ada/train": 5_001})
    run_until_idle(worker="test")
    return lab


def parts_of(page: str) -> dict[str, int]:
    return {
        part: int(value)
        for part, value in re.findall(r'data-part="(\w+)".*?data-amount="(-?\d+)"', page, re.DOTALL)
    }


def headline(page: str, metric: str = "emission_ug") -> tuple[int, int]:
    before, after = [value for query, value in figures_on(page) if f"metric={metric}&" in query]
    return before, after


def lines_of(client: Client, query: str = "") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text_of(client.get(f"{CSV}{query}")))))


@pytest.mark.parametrize("metric", ["emission_ug", "energy_mj"])
@pytest.mark.parametrize("project", ["", "demo", "vision"])
def test_the_parts_add_up_to_the_difference(
    changed: SmallLab, owner: Client, metric: str, project: str
) -> None:
    page = text_of(owner.get(f"{PAGE}&metric={metric}&project={project}"))
    before, after = headline(page, metric)
    parts = parts_of(page)
    assert sum(parts.values()) == after - before != 0
    assert 0 not in parts.values()
    assert [part for part in PARTS if part in parts] == list(parts)
    assert "data-cause" in page
    assert assert_each_figure_explains_itself(owner, page) == 2
    lines = lines_of(owner, f"&metric={metric}&project={project}")
    unit = "emission_ug_co2e" if metric == "emission_ug" else metric
    for line in lines:
        difference = int(line[f"difference_{unit}"])
        assert sum(int(line[f"{part}_{unit}"]) for part in PARTS) == difference
        assert int(line[unit]) - int(line[f"earlier_{unit}"]) == difference
    for part in PARTS:
        assert sum(int(line[f"{part}_{unit}"]) for line in lines) == parts.get(part, 0)


def test_rows_by_project_sum_to_the_lab(changed: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(PAGE))
    table = page[page.index('id="charges-title"') :]
    body, _, foot = table.partition("<tfoot>")
    columns = [
        [int(value) for value in re.findall(r'data-difference="(-?\d+)"', row)]
        for row in body.split("<tr data-key=")[1:]
    ]
    totals = [int(value) for value in re.findall(r'data-difference="(-?\d+)"', foot)]
    assert [sum(values) for values in zip(*columns, strict=True)] == totals
    assert all(sum(row[:3]) == row[3] for row in columns)
    assert {"demo", "vision", "~idle", "~overhead", "~unattributed"} == set(
        re.findall(r'data-key="([^"]+)"', body)
    )


def test_the_largest_part_is_named(changed: SmallLab, owner: Client) -> None:
    page = text_of(owner.get(f"{PAGE}&metric=energy_mj"))
    cause = page[page.index("data-cause") :].partition("</p>")[0]
    assert "more from a higher energy per device-hour of Demo" in " ".join(cause.split())


def test_two_clicks_lead_from_the_overview_and_from_a_project(
    changed: SmallLab, owner: Client
) -> None:
    for start in (f"/?{SECOND}", f"/projects/demo/?{SECOND}"):
        page = text_of(owner.get(start))
        href = unescape(re.search(r'href="(/change/[^"]+)"', page)[1])  # type: ignore[index]
        target = text_of(owner.get(href))
        assert parts_of(target)
        assert ("project=demo" in href) == ("projects" in start)


def test_idle_energy_charged_to_projects_is_no_work(changed: SmallLab, owner: Client) -> None:
    shown = parts_of(text_of(owner.get(PAGE)))
    set_idle_policy(
        lab=changed.lab, policy=IdleSpread.BY_ENERGY, from_us=T0, by=changed.owner, now=T0
    )
    run_until_idle(worker="test")
    page = text_of(owner.get(PAGE))
    assert parts_of(page) == shown
    assert 'data-key="~idle"' not in page
    assert "idle" in parts_of(text_of(owner.get(f"{PAGE}&project=demo")))


def test_energy_without_a_factor_is_stated_and_energy_divided(
    changed: SmallLab, owner: Client
) -> None:
    nowhere = other_node(changed, has_zone=False)
    day_of(changed, nowhere, 2, 1, {"idle": 1_000})
    run_until_idle(worker="test")
    page = text_of(owner.get(PAGE))
    assert "data-gap" in page
    before, after = headline(page, "energy_mj")
    assert sum(parts_of(page).values()) == after - before
    response = owner.get(CSV)
    assert response.status_code == 400
    assert "no emission factor" in text_of(response)
    assert lines_of(owner, "&metric=energy_mj")


@pytest.mark.parametrize(("hours", "part"), [(18, "coverage"), (6, "unseparated")])
def test_a_silent_node_is_coverage_or_not_separated(
    lab: SmallLab, owner: Client, hours: int, part: str
) -> None:
    run = run_of(lab, "demo", 0)
    day_of(lab, lab.node, 0, 0, {run: 900_000})
    windows = [
        W(
            gpu(0),
            900_000,
            start_us=T0 + (DAY + i) * HOUR_US,
            end_us=T0 + (DAY + i + 1) * HOUR_US,
            seq=DAY + i,
            shares=((run, 900_000),),
        )
        for i in range(hours)
    ]
    push(lab.node, windows)
    page = text_of(owner.get(f"{PAGE}&metric=energy_mj"))
    assert parts_of(page) == {part: (hours - 24) * 900_000}
    assert f"{100 * hours // 24} %" in page


def test_periods_without_data_have_a_reason(changed: SmallLab, owner: Client) -> None:
    for query, words in (
        ("from=2026-11-02T08:00Z&to=2026-11-03T08:00Z", "first reading of the lab"),
        ("from=2026-12-03T08:00Z&to=2026-12-04T08:00Z", "nothing was measured"),
        (f"{SECOND}&compare=none", "no earlier period"),
    ):
        page = text_of(owner.get(f"/change/?{query}"))
        assert "data-no-comparison" in page, query
        assert words in page
        assert not parts_of(page)
        assert owner.get(f"/change.csv?{query}").status_code == 400


def test_the_default_is_the_last_full_month(changed: SmallLab) -> None:
    with time_machine.travel((T0 + 40 * DAY * HOUR_US) / 1e6, tick=False):
        page = text_of(client_of(changed.owner).get("/change/"))
    assert "November 2026 cannot be compared with October 2026" in page
    assert "2 November 2026" in page


def test_an_empty_lab_has_nothing_to_compare(lab: SmallLab, owner: Client) -> None:
    assert "data-no-comparison" in text_of(owner.get("/change/"))


def test_success_has_csv_with_guarded_names(changed: SmallLab, owner: Client) -> None:
    names = {line["name"] for line in lines_of(owner)}
    assert "'=Vision" in names


def test_wrong_method(owner: Client, lab: SmallLab) -> None:
    assert_only(owner, "/change/", "GET")
    assert_only(owner, "/change.csv", "GET")


def test_sign_in_is_needed(lab: SmallLab) -> None:
    assert_needs_sign_in("/change/")
    assert_needs_sign_in("/change.csv")


def test_a_project_of_another_lab_is_not_found(changed: SmallLab, owner: Client) -> None:
    other = small_lab(name="Other")
    Project.objects.create(lab=other.lab, slug="secret", name="Secret", created_us=T0)
    for path in ("/change/", "/change.csv"):
        assert owner.get(f"{path}?{SECOND}&project=secret").status_code == 404


def test_a_viewer_can_read_it(changed: SmallLab, viewer: Client) -> None:
    assert parts_of(text_of(viewer.get(PAGE)))
    assert viewer.get(CSV).status_code == 200


def test_invalid_input(changed: SmallLab, owner: Client) -> None:
    for query in ("metric=moon", "compare=century", "from=x&to=y"):
        assert owner.get(f"/change/?{query}").status_code == 400
        assert owner.get(f"/change.csv?{query}").status_code == 400
    assert owner.get("/change/?project=%00").status_code == 404


def test_the_number_of_queries_does_not_depend_on_rows(changed: SmallLab, owner: Client) -> None:
    owner.get(PAGE)
    few = queries(owner, PAGE)
    for number in range(5):
        slug = f"p-{number}"
        Project.objects.create(lab=changed.lab, slug=slug, name=slug, created_us=T0)
        node = other_node(changed)
        day_of(changed, node, 10 + number, 1, {run_of(changed, slug, 1): 1_000})
    run_until_idle(worker="test")
    assert queries(owner, PAGE) == few <= 25
