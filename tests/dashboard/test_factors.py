"""/factors/ and /factors.csv: zones of the lab's sites, then all others, with their factor."""

import csv
import io
import re

import pytest
from django.test import Client

from apps.accounts.models import Lab
from apps.carbon.models import EmissionFactor
from apps.fleet.choices import SiteKind
from apps.fleet.services import create_site
from apps.fleet.zones import zones
from tests.builders import T0, SmallLab
from tests.dashboard.support import (
    HOSTILE,
    assert_needs_sign_in,
    assert_only,
    queries,
    text_of,
)

pytestmark = pytest.mark.django_db
_ROW = re.compile(r'<tr data-zone="([^"]+)">')
PATH = "/factors/"


def rows_of(page: str) -> list[str]:
    return _ROW.findall(page)


def part_of(page: str, zone: str) -> str:
    return page.split(f'<tr data-zone="{zone}">')[1].split("</tr>")[0]


def own_factor(lab: SmallLab, **values: object) -> EmissionFactor:
    fields = {
        "lab": lab.lab, "zone": "DE", "zone_name": "Germany", "basis": "lifecycle",
        "resolution": "annual_country", "year": 2026, "edition": 1, "ug_per_kwh": 123_000_000,
        "source": "Own meter", "licence": "own", "loaded_us": T0,
    }  # fmt: skip
    return EmissionFactor.objects.create(**{**fields, **values})


def test_zones_of_sites_are_first_with_their_factor(owner: Client, lab: SmallLab) -> None:
    page = text_of(owner.get(PATH))
    listed = rows_of(page)
    assert listed[0] == "DE"
    assert len(listed) == 51
    assert f'data-count="{len(zones()) - 1}"' in page
    assert f'href="/sites/{lab.site.pk}/"' in part_of(page, "DE")
    factor = EmissionFactor.objects.filter(zone="DE", basis="lifecycle").latest("year")
    assert f'data-ug-per-kwh="{factor.ug_per_kwh}"' in part_of(page, "DE")
    assert "annual, country" in part_of(page, "DE")
    assert "Ember" in part_of(page, "DE")


def test_a_factor_of_the_lab_precedes_a_shipped_one(
    owner: Client, outsider: Client, lab: SmallLab
) -> None:
    own_factor(lab)
    row = part_of(text_of(owner.get(PATH)), "DE")
    assert 'data-ug-per-kwh="123000000"' in row
    assert "data-own" in row
    other = part_of(text_of(outsider.get(f"{PATH}?q=germany")), "DE")
    assert "123000000" not in other
    assert "Own meter" not in other


def test_filters_by_text_basis_and_resolution(owner: Client, lab: SmallLab) -> None:
    assert {"AU", "AU-NSW"} <= set(rows_of(text_of(owner.get(f"{PATH}?q=AU"))))
    assert rows_of(text_of(owner.get(f"{PATH}?q=new+south"))) == ["AU-NSW"]
    direct = text_of(owner.get(f"{PATH}?q=(JP&basis=direct"))
    assert "data-other-basis" in direct
    assert "no direct factor" in part_of(direct, "JP")
    page = text_of(owner.get(f"{PATH}?basis=direct&resolution=annual_subregion&q=US-EG"))
    assert all(zone.startswith("US-") for zone in rows_of(page))
    assert "US-EGRID-CAMX" in rows_of(page)
    none = rows_of(text_of(owner.get(f"{PATH}?basis=direct&resolution=none&q=united")))
    assert "US" in none
    assert "GB" not in none
    assert 'data-empty="filters"' in text_of(owner.get(f"{PATH}?q=nowhere-at-all"))


def test_a_part_of_a_country_names_the_zone_of_its_factor(owner: Client) -> None:
    assert "factor of SE" in part_of(text_of(owner.get(f"{PATH}?q=SE-SE3")), "SE-SE3")


def test_pages_contain_each_zone_once(owner: Client) -> None:
    listed: list[str] = []
    for number in range(1, 9):
        page = text_of(owner.get(f"{PATH}?page={number}"))
        listed += rows_of(page)[1:]
    assert sorted([*listed, "DE"]) == sorted(zones())


def test_the_csv_has_the_filtered_zones_and_guards_cells(owner: Client, lab: SmallLab) -> None:
    own_factor(lab, source="=1+1")
    response = owner.get("/factors.csv?q=germany")
    assert response["Content-Type"].startswith("text/csv")
    [row] = csv.DictReader(io.StringIO(text_of(response)))
    assert (row["zone"], row["origin"], row["ug_per_kwh"]) == ("DE", "own", "123000000")
    assert row["source"] == "'=1+1"
    rows = list(csv.DictReader(io.StringIO(text_of(owner.get("/factors.csv?basis=direct")))))
    assert len(rows) == len(zones())
    japan = next(row for row in rows if row["zone"] == "JP")
    assert (japan["g_per_kwh"], japan["resolution"]) == ("", "")


@pytest.mark.parametrize("path", [PATH, "/factors.csv"])
@pytest.mark.parametrize("query", ["basis=market", "resolution=weekly", "q=%00", "q=" + "x" * 201])
def test_invalid_filters_are_refused(owner: Client, path: str, query: str) -> None:
    response = owner.get(f"{path}?{query}")
    assert response.status_code == 400
    assert 'data-error="400"' in text_of(response)


@pytest.mark.parametrize("page", ["0", "x", "-1", "1e3"])
def test_invalid_page_numbers_are_refused(owner: Client, page: str) -> None:
    assert owner.get(f"{PATH}?page={page}").status_code == 400


def test_wrong_method_sign_in_and_read_only(owner: Client, viewer: Client) -> None:
    for path in (PATH, "/factors.csv"):
        assert_needs_sign_in(path)
        assert_only(owner, path, "GET")
        assert viewer.get(path).status_code == 200


def test_text_of_persons_is_escaped(owner: Client, lab: SmallLab) -> None:
    own_factor(lab, source=HOSTILE, zone_name=HOSTILE[:120])
    Lab.objects.filter(pk=lab.lab.pk).update(name=HOSTILE)
    assert "<script>alert" not in text_of(owner.get(PATH))


def test_the_number_of_queries_does_not_depend_on_the_rows(owner: Client, lab: SmallLab) -> None:
    text_of(owner.get(PATH))
    few = queries(owner, PATH)
    for number, zone in enumerate(("FR", "SE", "JP", "US")):
        create_site(
            lab=lab.lab, name=f"Site {number}", kind=SiteKind.WORKSTATION, zone=zone, by=lab.owner,
            now=T0,
        )  # fmt: skip
        own_factor(lab, zone=zone)
    assert queries(owner, PATH) == few
