"""What every page keeps: quiet console, own origin only, accessible, usable at 320 px and by keyboard."""

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.conftest import Visit, pages_only

NARROW = {"viewport": {"width": 320, "height": 700}, "has_touch": True}
# plotly.js tries eval once, is refused, and goes on without: docs/adr/0003-content-security-policy.md
PLOTLY_EVAL = "Evaluating a string as JavaScript violates"


def _is_plotlys(text: str) -> bool:
    return PLOTLY_EVAL in text or "unsafe-eval" in text


def test_pages_are_quiet_and_ask_nobody_else(visit: Callable[..., Visit], addresses: list[str]) -> None:
    visitor = visit()
    for address in pages_only(addresses):
        visitor.complaints.clear()
        page = visitor.go(address, until="networkidle")
        charts = page.locator("[data-chart]").count()
        evals = [text for text in visitor.complaints if _is_plotlys(text)]
        assert [text for text in visitor.complaints if not _is_plotlys(text)] == [], address
        assert len(evals) <= (1 if charts else 0), (address, evals)
    assert visitor.elsewhere == []


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "320px"])
def test_no_serious_barrier(visit: Callable[..., Visit], addresses: list[str], narrow: bool) -> None:
    visitor = visit(color_scheme="dark", **(NARROW if narrow else {}))
    barriers = {}
    for address in pages_only(addresses):
        page = visitor.go(address)
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # no colour in passing
            if serious := _serious(page):
                barriers[address, scheme] = serious
        page.emulate_media(color_scheme="dark")
    assert barriers == {}


def _serious(page: Any) -> list[str]:
    return [
        f"{rule['id']}: {node['html'][:160]}"
        for rule in Axe().run(page).response["violations"]
        if rule["impact"] in {"serious", "critical"}
        for node in rule["nodes"][:4]
    ]


def test_a_narrow_screen_needs_no_scrolling_sideways(visit: Callable[..., Visit], addresses: list[str]) -> None:
    visitor = visit(**NARROW)
    wide = {}
    for address in pages_only(addresses):
        page = visitor.go(address)
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 320:
            wide[address] = width
    assert wide == {}


# A group of radio buttons is one stop of the tab key, at the chosen one; arrows go on from there.
REACHABLE = (
    "a[href]:visible, button:visible:enabled, select:visible:enabled, summary:visible, "
    "input:not([type=radio]):visible:enabled, input[type=radio]:checked:visible:enabled"
)


def test_everything_is_reached_by_keyboard_and_seen_to_be(visit: Callable[..., Visit], addresses: list[str]) -> None:
    visitor = visit()
    for address in pages_only(addresses):
        page = visitor.go(address)
        wanted = page.locator(REACHABLE).count()
        page.evaluate("document.activeElement.blur()")
        reached: set[str] = set()
        for _ in range(min(wanted, 60) + 5):
            page.keyboard.press("Tab")
            told = page.evaluate(
                """() => { const e = document.activeElement, s = getComputedStyle(e);
                if (e === document.body) return null;
                e.dataset.reached ??= String(document.querySelectorAll('[data-reached]').length);
                const seen = s.outlineStyle !== 'none' || s.boxShadow !== 'none';
                return [e.dataset.reached, seen, e.outerHTML.slice(0, 120)]; }"""
            )
            if told is None:
                continue
            reached.add(told[0])
            assert told[1], (address, "focus cannot be seen", told[2])
        assert len(reached) >= min(wanted, 60) * 0.8, (address, len(reached), wanted)


def test_no_button_of_a_chart_sends_its_data_away(visit: Callable[..., Visit], addresses: list[str]) -> None:
    visitor = visit()
    charts = 0
    for address in pages_only(addresses):
        page = visitor.go(address)
        charts += page.locator(".js-plotly-plot").count()
        for button in page.locator(".modebar-btn").all():
            title = (button.get_attribute("data-title") or "").lower()
            assert "cloud" not in title, (address, title)
            assert "chart studio" not in title, (address, title)
        links: list[Any] = page.eval_on_selector_all(
            ".js-plotly-plot a", "links => links.map(link => link.href.baseVal ?? link.href)"
        )
        assert [link for link in links if link and not str(link).startswith(visitor.served.url)] == [], address
    assert charts > 0
    assert visitor.elsewhere == []
