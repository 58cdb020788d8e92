"""Pages of runs with long names and values on a screen of 320 px, in light and dark colours."""

import re
from collections.abc import Callable

import pytest

from tests.browser.conftest import Served
from tests.browser.looks import NARROW, serious
from tests.browser.visit import Visit

_WIDTH = NARROW["viewport"]["width"]
# Visible elements that reach beyond the screen outside a table that scrolls by itself.
_BEYOND = """width => [...document.querySelectorAll('main *')].filter(element => {
  const box = element.getBoundingClientRect();
  return box.right > width + 1 && box.width && element.checkVisibility()
    && !element.closest('.wrap, .command, svg, [data-chart], .visually-hidden');
}).map(element => element.outerHTML.slice(0, 120))"""
# Links with a word that continues on the next line.
_BROKEN = """all => all.filter(({firstChild: text}) =>
  [...text.data.matchAll(/[a-z]+/gi)].some(word => {
  const range = document.createRange();
  range.setStart(text, word.index);
  range.setEnd(text, word.index + word[0].length);
  return range.getClientRects().length > 1;
})).map(link => link.textContent)"""


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_long_texts_need_no_scrolling_sideways(
    visit: Callable[..., Visit], served: Served, colours: str
) -> None:
    runs = "&".join(f"run={uuid}" for uuid in served.long_runs)
    finding = f"/runs/duplicates/{served.long_finding}/"
    addresses = {
        "run": f"/runs/{served.long_run}/",
        "original": f"/runs/{served.long_runs[0]}/",
        "waiting": f"/runs/{served.long_runs[2]}/",
        "runs": "/runs/",
        "comparison": f"/runs/compare/?{runs}",
        "families": "/runs/duplicates/",
        "finding": finding,
    }
    visitor = visit(color_scheme=colours, reduced_motion="reduce", **NARROW)
    page = visitor.go(addresses["families"])
    addresses["family"] = page.locator("tr[data-family] a").first.get_attribute("href")
    addresses["family"] = f"/runs/duplicates/{addresses['family']}"
    wide, beyond, barriers = {}, {}, {}
    for name, address in addresses.items():
        page = visitor.go(address)
        wide[name] = page.evaluate("document.documentElement.scrollWidth")
        beyond[name] = page.evaluate(_BEYOND, _WIDTH)
        barriers[name] = serious(page)
    assert {name: width for name, width in wide.items() if width > _WIDTH} == {}
    assert {name: elements for name, elements in beyond.items() if elements} == {}
    assert {name: found for name, found in barriers.items() if found} == {}


@pytest.mark.parametrize("width", [320, 375])
def test_each_choice_of_the_period_is_within_the_screen(
    visit: Callable[..., Visit], served: Served, width: int
) -> None:
    page = visit(viewport={"width": width, "height": 700}).go("/")
    choices = page.locator(".segments > a, .segments summary")
    boxes = [choices.nth(i).bounding_box() for i in range(choices.count())]
    assert len(boxes) == 7
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
    clipped = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"
    assert choices.evaluate_all(clipped) == []
    page.locator(".segments summary").click()
    for each in page.locator(".segments .panel :is(input[type=date], button)").all():
        box = each.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        at_centre = "e => { const b = e.getBoundingClientRect(); return e.contains(document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2)); }"  # noqa: E501
        assert each.evaluate(at_centre)


@pytest.mark.parametrize("width", [320, 375, 901, 1280])
def test_the_comparisons_are_within_the_screen(
    visit: Callable[..., Visit], served: Served, width: int
) -> None:
    page = visit(viewport={"width": width, "height": 700}).go("/")
    page.get_by_label("Compare with").click()
    choices = page.locator("details[open] .panel > *")
    boxes = [choices.nth(i).bounding_box() for i in range(choices.count())]
    assert len(boxes) == 3
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)


@pytest.mark.parametrize("address", ["/projects/", "/#projects"])
def test_the_total_of_each_project_is_within_the_screen_and_names_are_whole(
    visit: Callable[..., Visit], served: Served, address: str
) -> None:
    page = visit(**NARROW).go(address)
    table = page.locator("#projects table, section[aria-label=Projects] table")
    heads = table.locator("thead th:visible")
    assert heads.count() < table.locator("thead th").count()
    total = table.locator("thead th", has_text=re.compile("Total|Emissions")).bounding_box()
    assert total["x"] + total["width"] <= _WIDTH
    assert table.locator("tbody td:first-child a").evaluate_all(_BROKEN) == []


@pytest.mark.parametrize("address", ["/artifacts/", "/assets/", "/audit/", "/runs/duplicates/"])
def test_filters_of_a_list_are_behind_a_summary_on_a_phone(
    visit: Callable[..., Visit], served: Served, address: str
) -> None:
    narrow = visit(**NARROW).go(address)
    fields = narrow.locator("[data-filters] select")
    assert fields.count()
    assert [field for field in fields.all() if field.is_visible()] == []
    narrow.locator("[data-filters] > summary").click()
    assert fields.first.is_visible()
    wide = visit().go(address)
    assert not wide.locator("[data-filters] > summary").is_visible()
    assert wide.locator("[data-filters] select").first.is_visible()
