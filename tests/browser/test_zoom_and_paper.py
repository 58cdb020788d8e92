"""Every page at 200 % zoom and on paper: nothing beyond the edge, no empty sheet, the skip link
first.
"""

import re
from dataclasses import dataclass

import pytest

from tests.browser.addresses import pages_only
from tests.browser.conftest import Served, visiting

_ZOOMED = {"width": 640, "height": 400}  # a window of 1280 × 800 at 200 %
_SHEET = {"width": 718, "height": 1017}  # A4 in CSS pixels inside the margins
_WIDTH = "() => document.documentElement.scrollWidth"
# Visible text that its box cuts off, outside of areas that scroll.
_CUT = """() => [...document.querySelectorAll('body *')].filter(part => {
  const {overflowX} = getComputedStyle(part);
  return ['hidden', 'clip'].includes(overflowX) && part.checkVisibility() && part.clientWidth > 1
    && part.textContent.trim() && part.scrollWidth > part.clientWidth + 2
    && !part.closest('svg, .visually-hidden, .js-plotly-plot, select');
}).map(part => part.outerHTML.slice(0, 120))"""
_FOCUSED = "() => document.activeElement.matches('.skip')"
_ARRIVED = "() => document.activeElement.matches('main') || location.hash === '#main'"
# What a reader of a sheet cannot use.
_USELESS = """() => [...document.querySelectorAll(
  'nav, main :is(button, input[type=file], input[type=checkbox], .fold, [role=search])')]
  .filter(part => part.tabIndex >= 0 || part.matches('nav, .fold, form'))
  .filter(part => part.checkVisibility() && part.getBoundingClientRect().height > 1)
  .map(part => part.outerHTML.slice(0, 120))"""


@dataclass(frozen=True)
class Seen:
    address: str
    width: int
    cut: list[str]
    skips: bool
    paper_width: int
    sheets: int
    useless: list[str]


@pytest.fixture(scope="module")
def seen(browser: object, served: Served, addresses: list[str]) -> list[Seen]:
    found = []
    with visiting(browser, served) as visit:
        page = visit(viewport=_ZOOMED, device_scale_factor=2, color_scheme="dark").page
        # The pictures of the server are as wide as the charts, and faster.
        page.route("**/plotly*.js", lambda route: route.abort())
        for address in pages_only(addresses):
            page.goto(served.url + address)
            width, cut = page.evaluate(_WIDTH), page.evaluate(_CUT)
            page.keyboard.press("Tab")
            is_first = page.evaluate(_FOCUSED)
            page.keyboard.press("Enter")
            skips = is_first and page.evaluate(_ARRIVED)
            page.set_viewport_size(_SHEET)
            page.emulate_media(media="print")
            size = page.evaluate(
                "() => [document.documentElement.scrollWidth, document.body.offsetHeight]"
            )
            useless = page.evaluate(_USELESS)
            # Only a short page is printed: a second sheet of it would be empty.
            is_short = size[1] <= _SHEET["height"] * 0.9
            sheets = len(re.findall(rb"/Type /Page\b", page.pdf(format="A4"))) if is_short else 0
            page.emulate_media(media="screen")
            found.append(Seen(address, width, cut, skips, size[0], sheets, useless))
            page.set_viewport_size(_ZOOMED)
    return found


def test_no_page_is_wider_than_a_zoomed_window(seen: list[Seen]) -> None:
    assert len(seen) > 30
    assert {each.address: each.width for each in seen if each.width > _ZOOMED["width"]} == {}
    assert {each.address: each.cut for each in seen if each.cut} == {}


def test_the_skip_link_is_first_and_leads_to_the_content(seen: list[Seen]) -> None:
    assert [each.address for each in seen if not each.skips] == []


def test_no_page_is_wider_than_paper_or_ends_with_an_empty_sheet(seen: list[Seen]) -> None:
    assert {e.address: e.paper_width for e in seen if e.paper_width > _SHEET["width"]} == {}
    short = [each for each in seen if each.sheets]
    assert len(short) > 10
    assert {each.address: each.sheets for each in short if each.sheets > 1} == {}


def test_paper_has_no_buttons_and_no_filters(seen: list[Seen]) -> None:
    assert {each.address: each.useless for each in seen if each.useless} == {}
