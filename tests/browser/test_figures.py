"""Every quantity on every page leads to its explanation, which shows the same integer and goes down to the readings."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from tests.browser.conftest import Visit, pages_only

FIGURES = """nodes => nodes.map(node => [node.getAttribute('data-figure'), node.getAttribute('data-value'),
  node.getAttribute('href')])"""
# A number with a unit of energy, power or carbon, in text that is neither a figure nor said to be something else.
LOOSE = """() => {
  const unit = /[0-9][0-9.,\\u2009\\u202f\\u00a0 ]*([mkMG]?Wh|[mkMG]?J|[mµk]?g|t)(?: CO₂e)?(?![A-Za-z0-9_\\/-])/;
  const allowed = '[data-figure],[data-explain-value],[data-coverage],[data-factor],[data-window],[data-entry],'
    + '[data-part],[data-range],[data-rate],[data-would],[data-embodied],[data-quoted],#citation,'
    + 'script,style,code,kbd,input,select,option,textarea,time,title,dialog,.js-plotly-plot';
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const loose = [];
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (element.closest(allowed) || !element.checkVisibility()) continue;
    const block = element.closest('p,li,td,th,h1,h2,h3,dd,dt,figcaption,caption,span,div') ?? element;
    const copy = block.cloneNode(true);
    copy.querySelectorAll(allowed).forEach(part => part.remove());
    if (copy.querySelectorAll('p,li,td,div').length) continue;
    const text = copy.textContent.replace(/\\s+/g, ' ').trim();
    if (unit.test(text)) loose.push(text.slice(0, 120));
  }
  return [...new Set(loose)];
}"""


def _figures(page: Any) -> list[tuple[str, str, str]]:
    return [tuple(row) for row in page.eval_on_selector_all("[data-figure]", FIGURES)]


def _noted(page: Any, address: str, seen: dict[str, tuple[str, str]]) -> None:
    """Note the figures of a page: each links to its own query, and no two pages tell another integer of one."""
    for query, value, href in _figures(page):
        assert re.fullmatch(r"-?\d+", value), (address, query, value)
        assert href.startswith("/explain/?"), (address, href)
        assert unquote(href.split("?", 1)[1]) == unquote(query), (address, "the link is not the figure's query")
        earlier = seen.setdefault(query, (value, address))
        assert earlier[0] == value, (f"{earlier[1]} says {earlier[0]}, {address} says {value}", query)


def test_every_figure_is_clicked_and_explained_down_to_its_readings(
    visit: Callable[..., Visit], addresses: list[str]
) -> None:
    visitor = visit()
    seen: dict[str, tuple[str, str]] = {}
    clicked: list[str] = []
    for address in pages_only(addresses):
        page = visitor.go(address)
        _noted(page, address, seen)
        for i in range(_opened(page).count()):
            link = _opened(page).nth(i)
            with page.context.expect_page() as opened:  # in a tab of its own: the page with its charts stays
                link.click(modifiers=["Control"])
            told = opened.value
            told.wait_for_load_state("domcontentloaded")
            where = (address, told.url)
            shown = told.get_attribute("[data-explain-value]", "data-explain-value")
            assert shown == link.get_attribute("data-value"), where
            assert told.locator("tr[data-entry]").count() > 0, (*where, "no entry of the ledger")
            assert told.locator("#reading").inner_text().strip(), (*where, "no reading")
            if "metric=energy_mj" not in told.url:
                assert told.locator("#factor").inner_text().strip(), (*where, "no factor")
            told.close()
            clicked.append(str(link.get_attribute("data-figure")))
    assert len(clicked) > 100, "hardly any figure was clicked: the lab was not seeded"
    for query in seen.keys() - set(clicked):  # what nobody can click at this width
        value, address = seen[query]
        shown = visitor.go(f"/explain/?{query}", until="load").get_attribute("[data-explain-value]", "data-explain-value")
        assert shown == value, f"{address} says {value}, its explanation {shown}: {query}"


def _opened(page: Any) -> Any:
    """Return all figures of a page, those in folded tables unfolded."""
    page.evaluate("document.querySelectorAll('main details:has(a[data-figure])').forEach(part => { part.open = true })")
    return page.locator("main a[data-figure]:visible")


def test_a_figure_is_followed_down_to_its_readings_factor_and_source(visit: Callable[..., Visit]) -> None:
    visitor = visit()
    page = visitor.go(f"/runs/{visitor.served.run}/")
    figure = page.locator('a[data-figure*="metric=emission_ug"]').first
    value = figure.get_attribute("data-value")
    figure.click()
    page.wait_for_url("**/explain/**")
    assert page.get_attribute("[data-explain-value]", "data-explain-value") == value
    factor = page.locator("p[data-factor]").first.inner_text()
    assert "Germany" in factor
    assert "g CO₂e/kWh" in factor
    assert "Ember" in page.locator("#factor").inner_text()
    gpu = page.locator("tr[data-entry]", has_text="A100").first
    gpu.locator("a").first.click()
    page.wait_for_selector("tr[data-window]")
    windows = page.locator("tr[data-window]")
    assert windows.count() > 0
    assert re.search(r"\d[\d\s\u2009\u202f]* → \d", windows.first.inner_text())
    reading = page.locator("#reading").inner_text()
    assert "NVML total energy counter" in reading
    assert "GPU-0000-1111" in reading


def test_no_quantity_stands_without_its_query(visit: Callable[..., Visit], addresses: list[str]) -> None:
    visitor = visit()
    loose = {}
    for address in pages_only(addresses):
        found = visitor.go(address).evaluate(LOOSE)
        if found:
            loose[address] = found
    assert loose == {}
