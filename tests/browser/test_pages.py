"""What every page keeps: quiet console, own origin only, accessible, usable at 320 px and by
keyboard.
"""

import pytest

from tests.browser.addresses import pages_only
from tests.browser.conftest import Served, visiting
from tests.browser.looks import NARROW, Look, look_at


@pytest.fixture(scope="session")  # tests of other files may come in between
def looks(browser: object, served: Served, addresses: list[str]) -> list[Look]:
    with visiting(browser, served) as visit:
        visitor = visit(color_scheme="dark", **NARROW)
        return [look_at(visitor, address) for address in pages_only(addresses)]


def test_pages_are_quiet(looks: list[Look]) -> None:
    assert len(looks) > 30
    assert {look.address: look.complaints for look in looks if look.complaints} == {}
    assert {
        look.address: look.evals for look in looks if look.evals > (1 if look.charts else 0)
    } == {}


def test_pages_ask_nobody_else_nor_does_a_chart_send_its_data_away(
    looks: list[Look], served: Served
) -> None:
    assert sum(look.drawn for look in looks) > 0
    assert {look.address: look.elsewhere for look in looks if look.elsewhere} == {}
    buttons = {
        title.lower() for look in looks for title in look.chart_buttons
    }  # of the toolbar, if one is drawn
    assert [title for title in buttons if "cloud" in title or "chart studio" in title] == []
    assert [
        link
        for look in looks
        for link in look.chart_links
        if link and not link.startswith(served.url)
    ] == []


def test_no_serious_barrier(looks: list[Look]) -> None:
    assert {look.address: look.barriers for look in looks if any(look.barriers.values())} == {}


def test_no_quantity_stands_without_its_query(looks: list[Look]) -> None:
    assert {look.address: look.loose for look in looks if look.loose} == {}


def test_everything_is_reached_by_keyboard_and_seen_to_be(looks: list[Look]) -> None:
    assert {look.address: look.unseen for look in looks if look.unseen} == {}
    short = {
        look.address: (look.reached, look.wanted)
        for look in looks
        if look.reached < look.wanted * 0.8
    }
    assert short == {}


def test_a_narrow_screen_needs_no_scrolling_sideways(looks: list[Look]) -> None:
    assert {
        look.address: look.width for look in looks if look.width > NARROW["viewport"]["width"]
    } == {}
