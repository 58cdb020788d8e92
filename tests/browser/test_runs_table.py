"""The list of runs in the browser: by keyboard, without JavaScript, narrow, in both themes."""

from collections.abc import Callable

import pytest

from tests.browser.conftest import Served
from tests.browser.looks import NARROW, serious
from tests.browser.visit import Visit

GROUPED = "/runs/?group=project&open=demo&show=project&show=energy&show=emission&show=tags"
SORTED = "/runs/?sort=-energy&columns=lr,val_loss"


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("size", ["narrow", "wide"])
def test_the_table_is_accessible_and_fits(
    visit: Callable[..., Visit], served: Served, colours: str, size: str
) -> None:
    visitor = visit(color_scheme=colours, **(NARROW if size == "narrow" else {}))
    for address in (SORTED, GROUPED):
        page = visitor.go(address)
        assert serious(page) == []
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= page.viewport_size["width"], address
    assert visitor.complaints == []


def test_two_runs_are_compared_without_javascript_by_keyboard(
    visit: Callable[..., Visit], served: Served
) -> None:
    page = visit(java_script_enabled=False).go("/runs/?sort=-energy")
    boxes = page.locator("input[name=run]")
    for i in range(2):
        boxes.nth(i).focus()
        page.keyboard.press("Space")
    button = page.locator("form[data-choose] button[type=submit]")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/compare/?run=*")
    assert page.locator("table").count()


def test_the_second_line_replaces_hidden_columns_on_a_phone(
    visit: Callable[..., Visit], served: Served
) -> None:
    page = visit(**NARROW).go("/runs/")
    assert page.locator("[data-second-line]").first.is_visible()
    page = visit().go("/runs/")
    assert not page.locator("[data-second-line]").first.is_visible()


def test_filters_are_behind_a_summary_on_a_phone_only(
    visit: Callable[..., Visit], served: Served
) -> None:
    narrow = visit(**NARROW, java_script_enabled=False).go("/runs/?project=demo")
    search, summary = narrow.locator("#search"), narrow.locator("[data-filters] > summary")
    assert not search.is_visible()
    assert "1" in (summary.text_content() or "")
    summary.click()
    search.fill("train")
    search.press("Enter")
    narrow.wait_for_url("**text=train*")
    wide = visit().go("/runs/?project=demo")
    assert not wide.locator("[data-filters] > summary").is_visible()
    fields = wide.locator("[data-filters] .filters > .field:visible")
    tops = fields.locator("label").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect().top)"
    )
    assert len(tops) == 4
    assert max(tops) - min(tops) < 0.5
    wide.keyboard.press("Tab")
    for _ in range(60):
        if wide.evaluate("document.activeElement.id") == "search":
            break
        wide.keyboard.press("Tab")
    assert wide.evaluate("document.activeElement.id") == "search"


def test_the_form_of_views_stands_off_the_line_of_the_tabs(
    visit: Callable[..., Visit], served: Served
) -> None:
    page = visit().go("/runs/")
    line, form = (page.locator(name).bounding_box() for name in (".views", "[data-save-view]"))
    assert form["y"] - (line["y"] + line["height"]) >= 8
