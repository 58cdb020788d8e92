"""The journeys of a PI, a researcher and an auditor by clicks alone: how many they need."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.browser.conftest import Served
from tests.browser.visit import Visit


@dataclass
class Journey:
    """Clicks on one page after another, counted."""

    page: Any
    clicks: int = 0

    def follow(self, selector: str) -> None:
        """Click the first match and wait for the page that it opens."""
        with self.page.expect_navigation():
            self.page.locator(selector).first.click()
        self.clicks += 1

    def press(self, selector: str) -> None:
        """Click the first match, which opens no page."""
        self.page.locator(selector).first.click()
        self.clicks += 1


@pytest.fixture(params=[True, False], ids=["script", "no-script"])
def journey(request: pytest.FixtureRequest, visit: Callable[..., Visit], served: Served) -> Journey:
    page = visit(java_script_enabled=request.param).page
    page.goto(served.url)
    return Journey(page)


def test_a_pi_reads_how_much_where_it_went_and_what_to_do(journey: Journey) -> None:
    page = journey.page
    assert page.locator(".amounts [data-figure]").count()
    assert page.locator("[data-change], [data-no-comparison]").first.is_visible()
    assert page.locator("#segments li [data-figure]").count()
    assert page.locator("[data-saving]").count()
    journey.follow("[data-saving] a.button")
    assert page.locator("h1").is_visible()
    assert journey.clicks == 1


def test_a_pi_gets_a_sentence_for_a_paper_in_three_clicks(journey: Journey) -> None:
    journey.follow(".amounts [data-figure]")
    citation = journey.page.locator("[data-citation]").inner_text()
    assert "LabCarbon" in citation
    assert journey.clicks <= 3


def test_a_pi_gets_a_sentence_about_a_project_in_two_clicks(journey: Journey) -> None:
    journey.follow("#projects td a[href^='/projects/']")
    journey.press(".share summary")
    assert "LabCarbon" in journey.page.locator("[data-citation]").inner_text()
    assert journey.clicks == 2


def test_a_researcher_compares_the_most_expensive_runs(journey: Journey) -> None:
    page = journey.page
    journey.follow("nav a[href^='/runs/']")
    journey.follow("th a[href*='sort=-energy']")
    values = page.locator("tr:not([data-total]) td [data-figure*='metric=energy_mj']").evaluate_all(
        "figures => figures.map(figure => Number(figure.dataset.value))"
    )
    assert values == sorted(values, reverse=True)
    assert len(values) > 1
    journey.press("input[name=run] >> nth=0")
    journey.press("input[name=run] >> nth=1")
    journey.follow("form[data-choose] button[type=submit]")
    assert page.locator("table").count()
    assert journey.clicks <= 5


def test_an_auditor_goes_from_a_figure_to_a_counter(journey: Journey) -> None:
    page = journey.page
    journey.follow(".amounts [data-figure*='metric=energy_mj']")
    journey.follow("[data-entry] a")
    assert page.locator("[data-window]").count()
    assert journey.clicks == 2
