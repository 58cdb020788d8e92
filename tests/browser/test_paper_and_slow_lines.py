"""Pages on paper, on a slow line and without JavaScript say nothing else than on a screen."""

import json
import os
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.addresses import pages_only
from tests.browser.conftest import Served
from tests.browser.visit import Visit
from tests.page_wait import wait_until_true

# Each chart: its name, whether its data has points, whether the server's drawing is visible.
_CHARTS = """() => [...document.querySelectorAll('[data-chart]')].map(chart => {
  const data = JSON.parse(document.getElementById(chart.dataset.chart).textContent);
  const drawing = chart.querySelector('[data-drawing] svg');
  const name = chart.dataset.chart;
  return [name, JSON.stringify(data.data ?? data), Boolean(drawing?.checkVisibility()),
    Boolean(chart.querySelector('.no-reading'))]; })"""
_SLOW = {"offline": False, "latency": 300, "downloadThroughput": 50_000, "uploadThroughput": 50_000}
_PAPER = {"width": 718, "height": 1047}  # A4 in CSS pixels inside margins of 1 cm
_LIGHT = 200  # of 255: what paper must show as background


def _has_points(data: str) -> bool:
    """Return whether a trace of a chart has a value."""
    traces = json.loads(data)
    return any(
        value is not None
        for trace in traces
        for value in [*(trace.get("y") or []), *(trace.get("values") or [])]
    )


def _false_charts(page: Any) -> list[str]:
    """Return charts whose drawing and whose "no reading" contradict their data."""
    return [
        name
        for name, data, is_drawn, says_nothing in page.evaluate(_CHARTS)
        if is_drawn != _has_points(data) or says_nothing == is_drawn
    ]


def test_without_javascript_every_chart_is_drawn_or_has_no_reading(
    visit: Callable[..., Visit], addresses: list[str]
) -> None:
    visitor = visit(java_script_enabled=True)
    visitor.page.route("**/*.js", lambda route: route.abort())
    false, count = {}, 0
    for address in pages_only(addresses):
        visitor.page.goto(visitor.url + address)
        count += visitor.page.locator("[data-drawing]").count()
        if found := _false_charts(visitor.page):
            false[address] = found
    assert false == {}
    assert count > 5


def test_without_javascript_no_button_is_without_effect(visit: Callable[..., Visit]) -> None:
    page = visit(java_script_enabled=False).page
    page.goto(visit().url)
    buttons = page.locator("button[type=button]")
    assert buttons.count()
    assert [button for button in buttons.all() if button.is_visible()] == []


@pytest.mark.parametrize("address", ["/", "/projects/demo/", "run"])
def test_a_slow_line_shows_figures_and_charts_before_the_chart_library(
    visit: Callable[..., Visit], served: Served, address: str
) -> None:
    visitor = visit()
    page = visitor.page
    page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", _SLOW)
    path = f"/runs/{served.run}/" if address == "run" else address
    page.goto(visitor.url + path, wait_until="commit")
    wait_until_true(
        page,
        "() => document.querySelector('main a[data-figure]')?.checkVisibility() "
        "&& document.querySelectorAll('[data-chart]').length "
        "&& document.readyState !== 'loading' || window.Plotly",
    )
    assert not page.evaluate("'Plotly' in window"), "the line was not slow"
    assert _false_charts(page) == []


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("address", ["/", "/projects/demo/", "run"])
def test_paper_holds_the_page_in_black_on_white(
    visit: Callable[..., Visit], served: Served, address: str, colours: str
) -> None:
    visitor = visit(color_scheme=colours, viewport=_PAPER)
    page = visitor.go(f"/runs/{served.run}/" if address == "run" else address)
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= _PAPER["width"]
    assert not page.locator("nav").first.is_visible()
    assert page.locator("main a[data-figure]").first.is_visible()
    if address != "run":
        assert page.locator(".period").inner_text().strip()
    if folder := os.environ.get("PICTURES"):
        page.screenshot(
            path=f"{folder}/paper-{colours}{address.replace('/', '-')}.png", full_page=True
        )
    dark = page.evaluate(
        """least => [...document.querySelectorAll('body, main, .card')].filter(part => {
          const colour = getComputedStyle(part).backgroundColor.match(/[0-9.]+/g).map(Number);
          return (colour[3] ?? 1) > 0 && Math.min(...colour.slice(0, 3)) < least;
        }).map(part => part.outerHTML.slice(0, 80))""",
        _LIGHT,
    )
    assert dark == []
    sheets = len(re.findall(rb"/Type /Page\b", page.pdf(format="A4")))
    assert 1 <= sheets <= 8, sheets


def test_a_statement_is_one_sheet(visit: Callable[..., Visit], served: Served) -> None:
    page = visit(viewport=_PAPER).go(f"/statements/{served.statement}/print/")
    assert len(re.findall(rb"/Type /Page\b", page.pdf(format="A4"))) == 1
