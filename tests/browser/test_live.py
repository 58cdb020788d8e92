"""The live page of a node: it polls while it is visible, and an equal part is not sent again."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Served
from tests.browser.looks import NARROW, serious
from tests.browser.visit import Visit
from tests.page_wait import wait_until_true

_HIDE = """hidden => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event('visibilitychange'));
}"""


def _count_polls(page: Any) -> list[int]:
    """Return a list to which the status of each response to htmx is added."""
    statuses: list[int] = []

    def note(response: Any) -> None:
        if response.request.headers.get("hx-request"):
            statuses.append(response.status)

    page.on("response", note)
    return statuses


def test_it_polls_while_visible_and_pauses_while_hidden(
    visit: Callable[..., Visit], served: Served
) -> None:
    visitor = visit()
    visitor.page.clock.install()
    page = visitor.go(f"/nodes/{served.node}/live/")
    statuses = _count_polls(page)
    shown = page.locator("#live").inner_html()
    for number in (1, 2):
        page.clock.fast_forward(10_500)
        page.wait_for_timeout(500)
        wait_until_true(page, "() => !document.querySelector('.htmx-request')")
        assert len(statuses) == number
    assert set(statuses) <= {200, 304}
    page.evaluate(_HIDE, True)
    page.clock.fast_forward(40_000)
    page.wait_for_timeout(500)
    assert len(statuses) == 2
    page.evaluate(_HIDE, False)
    page.wait_for_timeout(1000)
    assert len(statuses) == 3  # at once, without waiting for the next ten seconds
    assert 'data-measure="power"' in shown
    assert page.locator("#live").count() == 1
    assert page.locator("[data-measure=power]").count() >= 1
    assert [text for text in visitor.complaints if "304" not in text] == []
    assert visitor.elsewhere == []


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_it_fits_a_narrow_screen(visit: Callable[..., Visit], served: Served, colours: str) -> None:
    visitor = visit(color_scheme=colours, **NARROW)
    page = visitor.go(f"/nodes/{served.node}/live/")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 320
    assert serious(page) == []
