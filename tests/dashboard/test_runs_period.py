"""The period of /runs/: presets, days, the bar above the list, and links to other pages."""

import re
from html import unescape
from uuid import uuid4

import pytest
from django.test import Client

from apps.core.clock import now_us
from apps.core.units import US_PER_HOUR
from apps.runs.models import Run, SavedView
from tests.builders import T0, SmallLab
from tests.dashboard.support import queries, text_of

DAY_US = 24 * US_PER_HOUR
YEAR_US = 366 * DAY_US


@pytest.fixture
def runs(lab: SmallLab) -> None:
    """One run of an hour ago, one of T0, one of a year before now."""
    now = now_us()
    for name, started_us in (
        ("recent", now - US_PER_HOUR),
        ("first", T0),
        ("old", now - YEAR_US),
    ):
        Run.objects.create(
            lab=lab.lab, uuid=uuid4(), name=name, started_us=started_us, state="finished",
            ended_us=started_us + 1, params={"a": 1},
        )  # fmt: skip


def names_on(page: str) -> set[str]:
    return set(re.findall(r">(recent|first|old)</a>", page))


def links_of(page: str, part: str) -> list[str]:
    return [unescape(href) for href in re.findall(r'href="([^"]*)"', page) if part in href]


def test_a_preset_selects_the_runs_that_started_in_it(owner: Client, runs: None) -> None:
    assert names_on(text_of(owner.get("/runs/?period=7d"))) == {"recent"}
    assert "old" not in names_on(text_of(owner.get("/runs/?period=year")))
    assert names_on(text_of(owner.get("/runs/"))) == {"recent", "first", "old"}
    assert names_on(text_of(owner.get("/runs/?period="))) == {"recent", "first", "old"}
    assert b"recent" in b"".join(owner.get("/runs.csv?period=7d"))
    assert b",old," not in b"".join(owner.get("/runs.csv?period=7d"))


def test_the_bar_shows_the_period_and_keeps_the_filters(owner: Client, runs: None) -> None:
    page = text_of(owner.get("/runs/?period=7d&show=energy&show=duration&text=e&page=1"))
    assert re.search(r'aria-current="true">7 d<', page)
    href = next(h for h in links_of(page, "period=30d") if "show=energy" in h)
    assert "show=duration" in href
    assert "text=e" in href
    assert "page=" not in href
    assert re.search(r'<input type="hidden" name="period" value="7d">', page)
    everything = text_of(owner.get("/runs/"))
    assert re.search(r'aria-current="true">All<', everything)


def test_all_ends_the_limit_of_energy(owner: Client, runs: None) -> None:
    page = text_of(owner.get("/runs/?period=7d&clip=1"))
    [href] = re.findall(r'href="([^"]*)">All<', page)
    assert "clip" not in href
    assert owner.get(unescape(href)).status_code == 200


def test_days_are_both_included_and_other_pages_get_the_same_days(
    owner: Client, runs: None
) -> None:
    response = owner.get("/runs/?first_day=2026-11-01&last_day=2026-11-03&state=finished")
    assert response.status_code == 302
    address = response["Location"]
    assert {"from=2026-11-01", "to=2026-11-03", "state=finished"} <= set(
        address.partition("?")[2].split("&")
    )
    page = text_of(owner.get(address))
    [linked] = set(links_of(page, "/projects/?"))
    assert linked == "/projects/?from=2026-10-31T23%3A00Z&to=2026-11-03T23%3A00Z"  # Berlin
    projects = text_of(owner.get(linked))
    label = re.search(r"data-period>([^<]*)<", page)
    assert label
    assert f"data-period>{label[1]}<" in projects
    back = set(links_of(projects, "/runs/?"))
    assert all(f"data-period>{label[1]}<" in text_of(owner.get(h)) for h in back)
    assert back


def test_days_of_other_pages_are_the_same_here(owner: Client, runs: None) -> None:
    projects = text_of(owner.get("/projects/?from=2026-11-01&to=2026-11-04"))
    [label] = re.findall(r"data-period>([^<]*)<", projects)
    [href] = set(links_of(projects, "/runs/?"))
    assert f"data-period>{label}<" in text_of(owner.get(href))


def test_an_open_end_is_no_error_on_other_pages(owner: Client, runs: None) -> None:
    page = text_of(owner.get("/runs/?from=2026-11-01"))
    hrefs = set(links_of(page, "/projects/"))
    assert hrefs == {"/projects/"}
    assert not re.search(r'aria-current="true">All<', page)


@pytest.mark.parametrize(
    "query", ["period=eon", "first_day=2026-11-01", "first_day=x&last_day=2026-11-02", "clip=1"]
)
def test_an_invalid_period_is_an_error(owner: Client, query: str) -> None:
    assert owner.get(f"/runs/?{query}").status_code == 400


def test_a_view_keeps_its_preset(lab: SmallLab, owner: Client, runs: None) -> None:
    owner.post("/runs/", {"action": "save", "name": "Week", "query": "period=7d&clip=1"})
    assert SavedView.objects.get().query == "period=7d&clip=1"
    days = "from=2026-11-01&to=2026-11-03"
    owner.post("/runs/", {"action": "save", "name": "Days", "query": f"{days}&period=7d"})
    assert SavedView.objects.get(name="Days").query == days


def test_a_period_needs_no_further_query(owner: Client, runs: None) -> None:
    assert queries(owner, "/runs/?period=7d") <= queries(owner, "/runs/?sort=-started")


@pytest.mark.parametrize("address", ["/runs.csv", "/runs/duplicates.csv"])
def test_a_download_with_the_days_of_the_form_has_these_days(owner: Client, address: str) -> None:
    response = owner.get(f"{address}?first_day=2026-11-01&last_day=2026-11-10&state=failed")
    assert response.status_code == 302
    assert response["Location"] == f"{address}?state=failed&from=2026-11-01&to=2026-11-10"
    assert owner.get(f"{address}?first_day=soon&last_day=2026-11-10").status_code == 400
