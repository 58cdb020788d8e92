"""/factors/<zone>/ and its hours: the factor in force and why, editions, sites, chart and CSV."""

import csv
import io
import re

import pytest
from django.test import Client

from apps.accounts.models import Lab
from apps.carbon.factor_levels import LEVELS
from apps.carbon.hourly_factors import record_hours
from apps.carbon.models import EmissionFactor
from apps.core.clock import now_us
from apps.core.units import hour_of
from tests.builders import T0, SmallLab
from tests.dashboard.support import HOSTILE, assert_needs_sign_in, assert_only, queries, text_of
from tests.dashboard.test_factors import own_factor

pytestmark = pytest.mark.django_db
PATH, HOURS = "/factors/DE/", "/factors/DE/hours.csv"
_APPLIED = re.compile(r'data-applied="(\d+)" data-resolution="(\w+)"')


def record(lab: SmallLab, hours: dict[int, int], *, is_actual: bool = True, **other: str) -> None:
    values = {"zone": "DE", "basis": "lifecycle", "source": "Grid API", "licence": "CC0", **other}
    record_hours(
        lab=lab.lab, is_actual=is_actual, now=now_us(), **values,
        hours={hour: grams * 1_000_000 for hour, grams in hours.items()},
    )  # fmt: skip


def in_force(page: str) -> list[str]:
    return re.findall(r'<tr data-level="(\w+)" data-in-force>', page)


def test_the_levels_name_the_one_that_applies(owner: Client, lab: SmallLab) -> None:
    hour = hour_of(now_us())
    page = text_of(owner.get(PATH))
    assert re.findall(r'data-level="(\w+)"', page) == list(LEVELS)
    assert in_force(page) == ["annual_country"]
    assert f'data-site="{lab.site.pk}"' in page
    for is_actual, name in ((False, "hourly_estimated"), (True, "hourly_actual")):
        record(lab, {hour: 400, hour + 1: 400}, is_actual=is_actual)
        page = text_of(owner.get(PATH))
        assert _APPLIED.findall(page) == [("400000000", name)]
        assert in_force(page) == [name]
        assert "data-reason" in page


def test_a_month_precedes_the_year_and_an_own_factor_a_shipped_one(
    owner: Client, lab: SmallLab
) -> None:
    own_factor(lab)
    page = text_of(owner.get(PATH))
    assert _APPLIED.findall(page) == [("123000000", "annual_country")]
    assert "precedes a shipped one" in page
    from apps.core.clock import utc

    today = utc(now_us())
    own_factor(lab, resolution="monthly", year=today.year, month=today.month, ug_per_kwh=77_000_000)
    page = text_of(owner.get(PATH))
    assert _APPLIED.findall(page) == [("77000000", "monthly")]
    assert in_force(page) == ["monthly"]


def test_superseded_editions_are_marked_with_their_source(owner: Client, lab: SmallLab) -> None:
    old = own_factor(lab, superseded_us=T0, source="Report, https://grid.example/report.pdf.")
    new = own_factor(lab, edition=2, ug_per_kwh=200_000_000)
    page = text_of(owner.get(PATH))
    parts = {pk: page.split(f'data-edition="{pk}"')[1].split("</tr>")[0] for pk in (old.pk, new.pk)}
    assert "data-superseded" in parts[old.pk]
    assert 'href="https://grid.example/report.pdf"' in parts[old.pk]
    assert "data-superseded" not in parts[new.pk]
    assert "data-own" in parts[new.pk]


def test_editions_of_another_lab_are_not_listed(
    outsider: Client, owner: Client, lab: SmallLab
) -> None:
    factor = own_factor(lab)
    record(lab, {hour_of(now_us()): 400})
    page = text_of(outsider.get(PATH))
    assert f'data-edition="{factor.pk}"' not in page
    assert "Grid API" not in page
    assert 'data-empty="hours"' in page
    assert text_of(outsider.get(f"{HOURS}?period=7d")).count("\n") == 1


def test_a_missing_basis_is_stated(owner: Client, lab: SmallLab) -> None:
    assert "data-no-other-basis" not in text_of(owner.get(PATH))
    page = text_of(owner.get("/factors/JP/"))
    assert "No direct factor." in page
    assert 'data-empty="sites"' in page
    Lab.objects.filter(pk=lab.lab.pk).update(basis="direct")
    page = text_of(owner.get("/factors/JP/"))
    assert "data-no-factor" in page
    assert "data-applied" not in page
    assert in_force(page) == []


def test_the_factor_of_the_country_is_named(owner: Client) -> None:
    page = text_of(owner.get("/factors/SE-SE3/"))
    assert 'data-parent="SE"' in page
    assert 'data-empty="editions"' in page


def test_the_chart_has_a_table_of_the_last_hours(owner: Client, lab: SmallLab) -> None:
    hour = hour_of(now_us())
    record(lab, {hour - back: 300 + back for back in range(200) if back != 5})
    record(lab, {hour - 5: 999}, is_actual=False)
    page = text_of(owner.get(PATH))
    assert 'data-chart="zone-hours"' in page
    table = page.split('aria-label="Table of the chart"')[1].split("</table>")[0]
    assert table.count('scope="row"') == 168
    assert table.count("estimated") == 1


def test_the_csv_has_the_hours_of_the_period(owner: Client, lab: SmallLab) -> None:
    start = 491_304  # 2026-01-18T00:00Z
    record(lab, {start + i: 100 + i for i in range(72)}, source="=cmd()")
    response = owner.get(f"{HOURS}?from=2026-01-19T00:00Z&to=2026-01-19T03:00Z")
    rows = list(csv.DictReader(io.StringIO(text_of(response))))
    assert [(row["hour_utc"], row["g_per_kwh"]) for row in rows] == [
        (f"2026-01-19T0{i}:00Z", str(124 + i)) for i in range(3)
    ]
    assert {row["source"] for row in rows} == {"'=cmd()"}
    form = owner.get(f"{HOURS}?first_day=2026-01-18&last_day=2026-01-19")
    assert form.status_code == 302
    assert len(text_of(owner.get(form["Location"])).splitlines()) == 48  # the lab is an hour ahead


@pytest.mark.parametrize(
    "query",
    ["from=x&to=y", "from=2026-01-02&to=2026-01-01", "first_day=x&last_day=", "period=eon"],
)
def test_invalid_periods_are_refused(owner: Client, query: str) -> None:
    assert owner.get(f"{HOURS}?{query}").status_code == 400


@pytest.mark.parametrize("zone", ["XX", "declared", "DE%20"])
def test_unknown_zones_are_not_found(owner: Client, zone: str) -> None:
    assert owner.get(f"/factors/{zone}/").status_code == 404
    assert owner.get(f"/factors/{zone}/hours.csv").status_code == 404


def test_wrong_method_sign_in_page_number_and_read_only(owner: Client, viewer: Client) -> None:
    for path in (PATH, HOURS):
        assert_needs_sign_in(path)
        assert_only(owner, path, "GET")
        assert viewer.get(path).status_code == 200
    assert owner.get(f"{PATH}?page=0").status_code == 400


def test_text_of_a_source_is_escaped_and_only_http_is_linked(owner: Client, lab: SmallLab) -> None:
    own_factor(lab, source=f"{HOSTILE} javascript:alert(1)", licence=HOSTILE)
    page = text_of(owner.get(PATH))
    assert "<script>alert" not in page
    assert 'href="javascript' not in page


def test_the_number_of_queries_does_not_depend_on_the_rows(owner: Client, lab: SmallLab) -> None:
    hour = hour_of(now_us())
    record(lab, {hour: 400})
    text_of(owner.get(PATH))
    few = queries(owner, PATH)
    record(lab, {hour - back: 300 for back in range(1, 50)})
    EmissionFactor.objects.bulk_create(
        EmissionFactor(
            lab=lab.lab, zone="DE", zone_name="Germany", basis="lifecycle", resolution="monthly",
            year=2020 + number // 12, month=number % 12 + 1, edition=1, ug_per_kwh=1_000_000,
            source="S", licence="L", loaded_us=T0,
        )
        for number in range(60)
    )  # fmt: skip
    assert queries(owner, PATH) == few


@pytest.mark.parametrize("path", ["/factors/de/", "/factors/De/?page=2"])
def test_a_code_in_lower_case_leads_to_the_zone(owner: Client, path: str) -> None:
    answer = owner.get(path)
    assert answer.status_code == 302
    assert answer["Location"] == PATH + path.partition("/?")[2].replace("page", "?page")
    assert owner.get(answer["Location"]).status_code == 200
    for unknown in ("/factors/xx-nowhere/", "/factors/no%20zone/"):
        assert owner.get(unknown).status_code == 404
