"""Search by keyboard alone, and without JavaScript; help, API reference and account pages in both
themes and on a narrow screen.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Served
from tests.browser.looks import NARROW, serious
from tests.browser.visit import Visit
from tests.page_wait import wait_until_true

_FOCUS = "() => document.activeElement.outerHTML"
_PAGES = (
    "/search/?q=gpu",
    "/help/",
    "/help/?q=cleanup+plan",
    "/help/artifacts/",
    "/help/collector/",
    "/help/install/",
    "/help/runs/",
    "/help/adr/0007-store-documents-in-the-database/",
    "/api/docs/",
    "/api/docs/assets/",
    "/api/docs/figures/",
    "/accounts/security/",
    "/accounts/password/change/",
    "/accounts/logout/",
)


def _results(page: Any) -> None:
    wait_until_true(page, "() => document.querySelector('#search-results [data-results]')")


def test_search_by_keyboard_alone(visit: Callable[..., Visit], served: Served) -> None:
    visitor = visit()
    page = visitor.go("/assets/")
    page.locator("h1").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    before = page.evaluate(_FOCUS)
    for key in ("/", "Control+k"):
        page.keyboard.press(key)
        dialog = page.get_by_role("dialog", name="Search")
        dialog.wait_for()
        assert dialog.locator("input").evaluate("input => input === document.activeElement")
        page.keyboard.press("Escape")
        assert not dialog.is_visible()
        assert page.evaluate(_FOCUS) == before
    page.keyboard.press("Control+k")
    page.keyboard.type(served.run[:8])
    _results(page)
    for key in ("ArrowDown", "ArrowUp", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    assert f"/runs/{served.run}/" in page.evaluate(_FOCUS)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{served.run}/")
    page.goto(page.url.partition("/runs/")[0] + "/nodes/")
    page.keyboard.press("/")
    page.keyboard.type(served.run)
    _results(page)
    page.keyboard.press("Enter")  # the only result
    page.wait_for_url(f"**/runs/{served.run}/")
    assert visitor.complaints == []
    assert visitor.elsewhere == []


def test_results_follow_what_is_typed_and_enter_shows_all(
    visit: Callable[..., Visit], served: Served
) -> None:
    visitor = visit()
    page = visitor.go("/runs/")
    page.locator(".find input").fill("audit")
    page.locator(".find input").click()
    _results(page)
    assert page.locator("#search-results a[href='/audit/']").count() == 1
    page.keyboard.press("Control+a")
    page.keyboard.type("tokens")
    wait_until_true(page, "() => document.querySelector('#search-results a[href=\"/tokens/\"]')")
    assert page.locator("#search-results a[href='/audit/']").count() == 0
    assert serious(page) == []
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?q=tokens")
    assert page.locator("main a[href='/tokens/']").count() == 1
    assert visitor.complaints == []


def test_a_shortcut_does_not_disturb_typing(visit: Callable[..., Visit]) -> None:
    page = visit().go("/runs/")
    page.locator("main #search").focus()
    page.keyboard.type("a/b")
    assert page.locator("main #search").input_value() == "a/b"
    assert not page.locator("#search-dialog").is_visible()


def test_search_without_javascript(visit: Callable[..., Visit]) -> None:
    page = visit(java_script_enabled=False).go("/runs/")
    page.locator(".find input").fill("tokens")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?q=tokens")
    assert page.locator("main a[href='/tokens/']").count() == 1


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_pages_are_accessible_and_fit(visit: Callable[..., Visit], colours: str) -> None:
    visitor = visit(color_scheme=colours, reduced_motion="reduce", **NARROW)
    wide, barriers = {}, {}
    for address in _PAGES:
        page = visitor.go(address)
        wide[address] = page.evaluate("document.documentElement.scrollWidth")
        barriers[address] = serious(page)
        page.set_viewport_size({"width": 1280, "height": 800})
        barriers[f"{address}, wide"] = serious(page)
        page.set_viewport_size(NARROW["viewport"])
    assert {name: width for name, width in wide.items() if width > 320} == {}
    assert {name: found for name, found in barriers.items() if found} == {}
    assert visitor.complaints == []
    assert visitor.elsewhere == []


def test_every_document_fits_a_narrow_screen(visit: Callable[..., Visit]) -> None:
    visitor = visit(**NARROW)
    page = visitor.go("/help/")
    addresses = page.eval_on_selector_all(
        "[data-chapter] a[href^='/help/']", "links => links.map(link => link.getAttribute('href'))"
    )
    assert len(addresses) > 30
    wide = {}
    for address in addresses:
        page = visitor.go(address)
        wide[address] = page.evaluate("document.documentElement.scrollWidth")
    assert {name: width for name, width in wide.items() if width > 320} == {}
