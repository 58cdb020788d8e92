"""People's pages where a finger and 320 px are all there is, and the way from an invitation into
the lab.
"""

import re
from collections.abc import Callable

from tests.browser.looks import serious
from tests.browser.visit import Visit

NARROW = {"viewport": {"width": 320, "height": 700}, "has_touch": True}


def _width(visitor: Visit) -> int:
    return int(visitor.page.evaluate("document.documentElement.scrollWidth"))


def test_what_opens_in_a_table_does_not_widen_the_page(visit: Callable[..., Visit]) -> None:
    visitor = visit(**NARROW)
    page = visitor.go("/people/")
    page.locator("details.confirm summary").first.click()
    assert page.locator("details.confirm form button").first.is_visible()
    assert _width(visitor) <= 320


def test_the_menu_leads_to_people_and_settings(visit: Callable[..., Visit]) -> None:
    visitor = visit(**NARROW)
    page = visitor.go("/")
    bar = page.get_by_role("navigation", name="Main, short")
    for name in ("People", "Settings"):
        bar.locator("summary").click()
        bar.get_by_role("link", name=name, exact=True).click()
        page.wait_for_load_state()
        assert _width(visitor) <= 320, name
    for name in ("Tokens", "Audit log", "Lab"):
        page.get_by_role("navigation", name="Settings").get_by_role(
            "link", name=name, exact=True
        ).click()
        page.wait_for_load_state()
        assert _width(visitor) <= 320, name


def test_from_an_invitation_into_the_lab(visit: Callable[..., Visit]) -> None:
    """Invite in one browser, join as a new person in another."""
    host = visit()
    page = host.go("/people/")
    page.get_by_label("Note").fill("for Zoe")
    page.get_by_role("button", name="Create link").click()
    page.wait_for_load_state()
    found = re.search(r"/invite/\?code=[A-Z0-9-]+", page.locator("#invite-link").inner_text())
    assert found is not None
    guest = visit()
    guest.page.context.clear_cookies()
    guest.go(found[0])
    guest.page.get_by_label("User name").fill("zoe")
    guest.page.get_by_label("Password").fill("correct horse battery")
    guest.page.get_by_role("button", name="Join lab").click()
    guest.page.wait_for_load_state()
    assert guest.page.get_by_text("You joined Cell Lab as Viewer").is_visible()
    page.reload()
    assert page.get_by_text("zoe", exact=True).first.is_visible()
    assert guest.complaints == []
    assert guest.elsewhere == []


def test_the_texts_with_a_name_are_listed_on_a_narrow_screen(
    visit: Callable[..., Visit],
) -> None:
    """The page to erase a person, with its second step, in both colour schemes."""
    for scheme in ("light", "dark"):
        visitor = visit(**NARROW, color_scheme=scheme)
        page = visitor.go("/people/")
        link = re.search(r"/people/[0-9]+/", page.content())
        assert link is not None
        person = link[0]
        page = visitor.go(f"{person}erase/")
        assert _width(visitor) <= 320
        page.get_by_label("Further names").fill("will\nmodel-" + "x" * 80)
        page.get_by_role("button", name="List texts").click()
        page.wait_for_load_state()
        for summary in page.locator("details[data-found] summary").all():
            summary.click()
        assert not page.locator("input[value=will]").is_checked()
        assert page.locator("input[value^=model-x]").is_checked()
        assert _width(visitor) <= 320
        assert serious(page) == []
        assert visitor.complaints == []
