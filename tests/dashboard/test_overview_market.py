"""The overview of a year has the market-based totals, if they are stored and up to date."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
import time_machine
from django.test import Client

from apps.carbon.basis import choose_basis
from apps.carbon.market.choices import RuleEdition
from apps.carbon.market.current_totals import current_totals
from apps.carbon.market.market_years import compute_years, stored_years
from apps.carbon.rollups import writer
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.core.units import US_PER_HOUR
from apps.dashboard.overview import overview_page
from apps.fleet.services import set_pue
from tests.builders import SmallLab, small_lab
from tests.carbon.market.instruments import RESIDUAL, add
from tests.carbon.market.test_market_years import H0, NOW, use
from tests.dashboard.conftest import client_of
from tests.dashboard.support import queries, text_of

pytestmark = pytest.mark.django_db(transaction=True)
YEAR = "/?period=year"
NEW_YEAR = int(datetime(2027, 1, 1, 12, tzinfo=UTC).timestamp()) * 10**6


@pytest.fixture
def small() -> Iterator[SmallLab]:
    with time_machine.travel(NOW / 1e6, tick=False):
        small = small_lab()
        use(small, (1, 1_000_000), (30, 3_000_001))
        add(small.lab, **RESIDUAL)
        compute(small)
        yield small


def compute(small: SmallLab) -> None:
    """Run all jobs, which compute the totals."""
    run_until_idle(worker="test")
    assert writer.roll_up(lab=small.lab, now=NOW)
    run_until_idle(worker="test")


def page_of(small: SmallLab, address: str = YEAR) -> str:
    return text_of(client_of(small.owner).get(address))


def test_a_year_has_both_rule_editions_and_the_end_of_its_days(small: SmallLab) -> None:
    stored = stored_years(small.lab, 2026, NOW)
    assert not any(each.is_stale for each in stored.values())
    page = page_of(small)
    shown = dict(re.findall(r'data-market="([\w-]+)"\s+data-ug="(\d+)"', page))
    assert shown == {
        edition.value: str(each.result.emission_ug) for edition, each in stored.items()
    }
    part = page.split("data-market-year")[1].split("</p>")[0]
    assert "data-draft" in part
    assert RuleEdition.SCOPE2_DRAFT_2025.label in part
    assert "until" in part
    assert "year=2026" in part
    assert "data-market-link" not in page


@pytest.mark.parametrize(
    "address", ["/", "/?period=7d", "/?from=2026-10-31T23:00Z&to=2026-11-30T23:00Z"]
)
def test_another_period_has_a_link(small: SmallLab, address: str) -> None:
    page = page_of(small, address)
    assert "data-market-link" in page
    assert 'data-market="' not in page


def test_a_year_needs_one_query_more_and_another_period_none(
    small: SmallLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner: Client = client_of(small.owner)
    counts = [queries(owner, address) for address in (YEAR, "/")]
    assert "data-market-year" in text_of(owner.get(YEAR))
    monkeypatch.setattr(overview_page, "market_totals_of", lambda *_: None)
    assert [queries(owner, address) for address in (YEAR, "/")] == [counts[0] - 1, counts[1]]


def _certificate(small: SmallLab) -> None:
    add(small.lab, name="Late", volume_wh=5)


def _energy(small: SmallLab) -> None:
    use(small, (2, 5_000), first=9)


def _pue(small: SmallLab) -> None:
    at_us = H0 * US_PER_HOUR
    set_pue(site=small.site, pue_ppm=1_500_000, from_us=at_us, by=small.owner, now=NOW)


def _basis(small: SmallLab) -> None:
    choose_basis(lab=small.lab, basis="direct", by=small.owner, now=NOW)


@pytest.mark.parametrize("change", [_certificate, _energy, _pue, _basis])
def test_a_changed_input_leaves_a_link_until_they_are_computed_again(
    small: SmallLab, change: Callable[[SmallLab], None]
) -> None:
    change(small)
    assert current_totals(small.lab, 2026, NOW) is None
    assert "data-market-link" in page_of(small)
    compute(small)
    assert current_totals(small.lab, 2026, NOW) is not None
    assert not any(each.is_stale for each in stored_years(small.lab, 2026, NOW).values())


def test_a_change_of_rolled_hours_enqueues_the_computation_with_them(small: SmallLab) -> None:
    use(small, (2, 5_000), first=9)  # pushes, and sums the day again, without other jobs
    assert any(each.is_stale for each in stored_years(small.lab, 2026, NOW).values())
    waiting = Job.objects.get(kind="carbon.match", key=str(small.lab.pk))
    assert waiting.done < waiting.requested


def test_a_year_that_is_over_needs_all_its_hours(small: SmallLab) -> None:
    assert current_totals(small.lab, 2026, NEW_YEAR) is None
    with time_machine.travel(NEW_YEAR / 1e6, tick=False):
        assert writer.roll_up(lab=small.lab, now=NEW_YEAR)
        assert compute_years(lab=small.lab, now=NEW_YEAR)
        run_until_idle(worker="test")
        page = page_of(small, "/?from=2025-12-31T23:00Z&to=2026-12-31T23:00Z")
    part = page.split('data-market-year="2026"')[1].split("</p>")[0]
    assert "until" not in part


def test_another_lab_has_none_of_them(small: SmallLab) -> None:
    other = small_lab(name="Other")
    assert 'data-market="' not in page_of(other)
