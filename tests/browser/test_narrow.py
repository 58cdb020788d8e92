"""Pages of runs with long names and values on a screen of 320 px, in light and dark colours."""

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
