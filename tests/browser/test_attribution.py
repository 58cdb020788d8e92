"""Rules with real buttons: which of several was pressed must arrive at the server."""

from collections.abc import Callable

from tests.browser.visit import Visit
from tests.page_wait import wait_until_true


def test_a_rule_is_previewed_made_withdrawn_and_restored(visit: Callable[..., Visit]) -> None:
    visitor = visit()
    page = visitor.go("/rules/")
    page.get_by_label("OS user").fill("nobody-of-this-name")
    page.get_by_label("Project", exact=True).select_option(index=1)
    page.get_by_role("button", name="Preview rule").click()
    page.wait_for_load_state()
    assert page.locator("[data-changes=none]").is_visible()
    page.get_by_role("button", name="Create rule").click()
    page.wait_for_load_state()
    assert page.get_by_text("Rule created.").is_visible()
    page.get_by_role("link", name="user nobody-of-this-name").click()
    page.wait_for_load_state()
    page.get_by_role("button", name="Withdraw rule").click()
    page.wait_for_load_state()
    assert page.get_by_role("heading", level=1).inner_text().endswith("withdrawn")
    page.get_by_role("button", name="Restore rule").click()
    page.wait_for_load_state()
    assert page.get_by_text("Rule restored.").is_visible()
    assert visitor.complaints == []


def test_a_button_answers_at_once_and_once(visit: Callable[..., Visit]) -> None:
    visitor = visit()
    page = visitor.go("/rules/")
    page.evaluate(
        "document.querySelector('form[action=\"/rules/\"]').addEventListener('submit', (e) => "
        "e.preventDefault())"
    )
    button = page.get_by_role("button", name="Preview rule")
    button.click()
    wait_until_true(page, "document.querySelector('form[action=\"/rules/\"] > button').disabled")
    assert button.is_disabled()
