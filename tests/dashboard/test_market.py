"""The page Market-based: a year under both rule editions, and what is not known."""

import csv
import re
from collections.abc import Iterator
from datetime import date

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Lab
from apps.carbon.market.choices import RuleEdition
from apps.carbon.market.market_years import compute_years, stored_years
from apps.carbon.market.models import MarketYear
from apps.carbon.market.stored_result import YearResult
from apps.carbon.rollups import writer
from apps.carbon.services import apply_factors
from apps.core.units import MJ_PER_KWH, UG_PER_G
from tests.builders import SmallLab, small_lab
from tests.carbon.market.instruments import RESIDUAL, add
from tests.carbon.market.test_market_years import NOW, use
from tests.dashboard.conftest import client_of
from tests.dashboard.support import text_of

pytestmark = pytest.mark.django_db(transaction=True)
IN_FORCE, DRAFT = RuleEdition.SCOPE2_2015, RuleEdition.SCOPE2_DRAFT_2025
WH = MJ_PER_KWH // 1000


@pytest.fixture(autouse=True)
def day() -> Iterator[None]:
    """Set the clock to the day after the use of the tests."""
    with time_machine.travel(NOW / 1e6, tick=False):
        yield


def on_direct_factors(small: SmallLab) -> SmallLab:
    Lab.objects.filter(pk=small.lab.pk).update(basis="direct")
    small.lab.refresh_from_db()
    apply_factors(lab=small.lab)
    assert writer.roll_up(lab=small.lab, now=NOW)
    return small


def page_of(small: SmallLab, address: str = "/market/") -> str:
    return text_of(client_of(small.owner).get(address))


def results(small: SmallLab) -> dict[RuleEdition, YearResult]:
    assert compute_years(lab=small.lab, now=NOW)
    return {key: each.result for key, each in stored_years(small.lab, 2026, NOW).items()}


def test_a_lab_in_germany_without_instruments_has_the_residual_mix() -> None:
    small = on_direct_factors(small_lab())
    use(small, (1, 10 * WH), (30, 8 * WH))
    add(small.lab, **RESIDUAL)
    result = results(small)[IN_FORCE]
    grid = result.rates["DE"].grid
    assert grid is not None
    page = page_of(small)
    ratio = f"{724_600_000 / grid.ug_per_kwh:.2f}"
    assert f"market-based = {ratio} × location-based" in re.sub(r"\s+", " ", page)
    assert page.count("data-uncovered") == 2
    assert f'data-ug="{result.emission_ug}"' in page
    assert result.emission_ug == round(result.energy_mj * 724.6 * UG_PER_G / MJ_PER_KWH)
    if grid.ug_per_kwh == 329 * UG_PER_G:
        assert ratio == "2.20"


def test_the_missing_residual_mix_is_stated_and_not_zero() -> None:
    small = small_lab()
    use(small, (1, 10 * WH))
    found = results(small)
    assert found[DRAFT].missing_mj == found[DRAFT].energy_mj
    page = page_of(small)
    assert 'data-finding="no_residual_mix"' in page
    assert 'data-rule="grid_average"' in page
    assert 'data-rule="missing_factor"' in page
    assert "data-missing" in page
    assert re.search(r'data-figure-kind="scope2-draft-2025".*?<td[^>]*>\s*unknown', page, re.DOTALL)


def test_certificates_for_all_energy_of_a_year_cover_61_percent_by_hour() -> None:
    small = small_lab()
    # 24 Wh in a day: of a flat volume of 1 Wh per hour, 13 + 0.64 + 1 are used
    use(small, *enumerate([WH] * 13 + [WH * 64 // 100, 24 * WH - 13 * WH - WH * 64 // 100]))
    add(small.lab, **RESIDUAL)
    energy_mj = results(small)[IN_FORCE].energy_mj
    add(
        small.lab, volume_wh=-(-energy_mj // 3_600_000),
        first_day=date(2026, 11, 2), last_day=date(2026, 11, 2),
    )  # fmt: skip
    found = results(small)
    assert found[IN_FORCE].covered_mj == energy_mj
    page = page_of(small)
    rows = re.findall(r'data-figure-kind="(scope2[^"]+)".*?data-covered>([^<]+)<', page, re.DOTALL)
    shares = {edition: text.replace("&nbsp;", " ") for edition, text in rows}
    assert shares == {"scope2-2015": "100 %", "scope2-draft-2025": "61 %"}
    assert page.count("data-draft") == 1
    assert "data-not-modelled" in page
    for edition in RuleEdition:
        assert f'data-edition="{edition.value}"' in page


def test_states_before_the_first_totals_and_after_a_change() -> None:
    small = small_lab()
    assert 'data-state="empty"' in page_of(small)
    use(small, (1, 10 * WH))
    MarketYear.objects.all().delete()
    assert 'data-state="computing"' in page_of(small)
    results(small)
    assert "data-state" not in page_of(small)
    add(small.lab, **RESIDUAL)
    assert 'data-state="stale"' in page_of(small)
    results(small)
    assert "data-state" not in page_of(small)


def test_a_year_without_use_is_empty() -> None:
    small = small_lab()
    results(small)
    assert 'data-state="empty"' in page_of(small)


def test_the_csv_has_the_exact_lines_of_the_page() -> None:
    small = small_lab()
    use(small, (1, 10 * WH))
    add(small.lab, **{**RESIDUAL, "name": "=1+1"})
    found = results(small)
    response = client_of(small.owner).get("/market/lines.csv?year=2026")
    rows = list(csv.DictReader(text_of(response).splitlines()))
    for edition in RuleEdition:
        of_edition = [row for row in rows if row["edition"] == edition.value]
        assert of_edition
        energy_mj = sum(int(row["facility_energy_mj"]) for row in of_edition)
        assert energy_mj == found[edition].energy_mj
        assert sum(int(row["emission_ug_co2e"]) for row in of_edition) == found[edition].emission_ug
        assert {row["is_draft"] for row in of_edition} == {"yes" if edition == DRAFT else "no"}


def test_the_number_of_queries_does_not_depend_on_the_lines() -> None:
    small = small_lab()
    use(small, (1, 10 * WH))
    counts = list[int]()
    for number in (1, 5):
        for _ in range(number):
            add(small.lab)
        results(small)
        client = client_of(small.owner)
        client.get("/market/")
        with CaptureQueriesContext(connection) as queries:
            assert client.get("/market/").status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("address", ["/market/", "/market/lines.csv"])
def test_wrong_method_and_invalid_year(address: str) -> None:
    owner = client_of(small_lab().owner)
    assert owner.post(address).status_code == 405
    for year in ("1999", "x", "2026.0", "²"):
        response = owner.get(address, {"year": year})
        assert response.status_code == 400
        assert "is not a year with use" in text_of(response)


def test_another_lab_has_its_own_years() -> None:
    small = small_lab()
    use(small, (1, 10 * WH))
    results(small)
    other = small_lab(name="Other lab")
    assert 'data-state="empty"' in page_of(other)
    response = client_of(other.owner).get("/market/lines.csv")
    assert len(text_of(response).splitlines()) == 1
