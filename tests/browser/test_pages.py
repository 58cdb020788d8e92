"""What every page keeps: quiet console, own origin only, accessible, usable at 320 px and by keyboard."""

from collections.abc import Callable
from typing import Any

from axe_playwright_python.sync_playwright import Axe

from tests.browser.conftest import Visit, pages_only

NARROW = {"viewport": {"width": 320, "height": 700}, "has_touch": True}
# plotly.js tries eval once, is refused, and goes on without: docs/adr/0003-content-security-policy.md
PLOTLY_EVAL = "Evaluating a string as JavaScript violates"


def _is_plotlys(text: str) -> bool:
    return PLOTLY_EVAL in text or "unsafe-eval" in text


def test_pages_are_quiet_and_ask_nobody_else_nor_does_a_chart_send_its_data_away(
    visit: Callable[..., Visit], addresses: list[str]
) -> None:
    visitor = visit()
    drawn = 0
    for address in pages_only(addresses):
        visitor.complaints.clear()
        page = visitor.go(address, until="networkidle")
        charts = page.locator("[data-chart]").count()
        evals = [text for text in visitor.complaints if _is_plotlys(text)]
        assert [text for text in visitor.complaints if not _is_plotlys(text)] == [], address
        assert len(evals) <= (1 if charts else 0), (address, evals)
        drawn += page.locator(".js-plotly-plot").count()
        _keeps_its_data(page, visitor.served.url, address)
    assert drawn > 0
    assert visitor.elsewhere == []


def _keeps_its_data(page: Any, own: str, address: str) -> None:
    for title in page.eval_on_selector_all(".modebar-btn", "all => all.map(each => each.getAttribute('data-title') ?? '')"):
        assert "cloud" not in title.lower(), (address, title)
        assert "chart studio" not in title.lower(), (address, title)
    links: list[Any] = page.eval_on_selector_all(
        ".js-plotly-plot a", "links => links.map(link => link.href.baseVal ?? link.href)"
    )
    assert [link for link in links if link and not str(link).startswith(own)] == [], address


def test_no_serious_barrier(visit: Callable[..., Visit], addresses: list[str]) -> None:
    """All rules in the dark; in the light what differs there: colours."""
    visitor = visit(color_scheme="dark")
    barriers = {}
    for address in pages_only(addresses):
        page = visitor.go(address)
        for scheme, rules in (("dark", None), ("light", ["color-contrast"])):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # no colour in passing
            if serious := _serious(page, rules):
                barriers[address, scheme] = serious
        page.emulate_media(color_scheme="dark")
    assert barriers == {}


def _serious(page: Any, rules: list[str] | None = None) -> list[str]:
    return [
        f"{rule['id']}: {node['html'][:160]}"
        for rule in Axe().run(page, options={"runOnly": rules} if rules else None).response["violations"]
        if rule["impact"] in {"serious", "critical"}
        for node in rule["nodes"][:4]
    ]


def test_a_narrow_screen_has_no_barrier_and_needs_no_scrolling_sideways(
    visit: Callable[..., Visit], addresses: list[str]
) -> None:
    visitor = visit(color_scheme="dark", **NARROW)
    wide, barriers = {}, {}
    for address in pages_only(addresses):
        page = visitor.go(address)
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 320:
            wide[address] = width
        page.emulate_media(reduced_motion="reduce")
        if serious := _serious(page):
            barriers[address] = serious
    assert wide == {}
    assert barriers == {}


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
