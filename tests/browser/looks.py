"""Inspection of a rendered page: console messages, external requests, accessibility."""

from dataclasses import dataclass, field
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT

from tests.browser.visit import Visit

NARROW = {"viewport": {"width": 320, "height": 700}, "has_touch": True}
_WIDE = {"width": 1280, "height": 720}
# A group of radio buttons is one tab stop: the checked one. Arrow keys move within the group.
REACHABLE = (
    "a[href]:visible, button:visible:enabled, select:visible:enabled, summary:visible, "
    "input:not([type=radio]):visible:enabled, input[type=radio]:checked:visible:enabled"
)
STOPS = 60
# Records each focused element: '' if the focus is visible, else the start of its HTML.
_WATCH = """() => { window.reached = new Map(); document.activeElement.blur();
  document.addEventListener('focusin', ({target: e}) => { const s = getComputedStyle(e);
    const seen = s.outlineStyle !== 'none' || s.boxShadow !== 'none';
    window.reached.set(e, seen ? '' : e.outerHTML.slice(0, 120)); }); }"""
_REACHED = "() => [window.reached.size, [...window.reached.values()].filter(unseen => unseen)]"
# Finds numbers with a unit of energy, power or carbon outside figures and other marked elements.
_LOOSE = """() => {
  const unit = /[0-9][0-9.,\\u2009\\u202f\\u00a0 ]*([mkMG]?Wh|[mkMG]?J|[mµk]?g|t)(?: CO₂e)?(?![A-Za-z0-9_\\/-])/;
  const allowed = '[data-figure],[data-explain-value],[data-coverage],[data-factor],[data-window],[data-entry],'
    + '[data-part],[data-energy],[data-counted],[data-alert="quarantined"],[data-range],[data-rate],[data-would],[data-embodied],[data-quoted],#citation,'
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
}"""  # noqa: E501


@dataclass
class Look:
    """The results for one page.

    ``width``: width of the content on a narrow screen. ``barriers``: serious accessibility
    problems by screen and colours. ``unseen``: elements without a visible focus.
    """

    address: str
    complaints: list[str]
    evals: int
    elsewhere: list[str]
    charts: int
    drawn: int
    chart_buttons: list[str]
    chart_links: list[str]
    width: int
    barriers: dict[str, list[str]] = field(default_factory=dict)
    loose: list[str] = field(default_factory=list)
    wanted: int = 0
    reached: int = 0
    unseen: list[str] = field(default_factory=list)


def look_at(visitor: Visit, address: str) -> Look:
    """Inspect a page on a narrow and on a wide screen in dark colours, by all rules.

    In light colours only the contrast is checked: nothing else differs.
    """
    visitor.complaints.clear()
    visitor.elsewhere.clear()
    visitor.evals = 0
    visitor.page.set_viewport_size(NARROW["viewport"])
    page = visitor.go(address)
    titles = "all => all.map(each => each.getAttribute('data-title') ?? '')"
    look = Look(
        address=address,
        complaints=visitor.complaints.copy(),
        evals=visitor.evals,
        elsewhere=visitor.elsewhere.copy(),
        charts=page.locator("[data-chart]").count(),
        drawn=page.locator(".js-plotly-plot").count(),
        chart_buttons=page.eval_on_selector_all(".modebar-btn", titles),
        chart_links=page.eval_on_selector_all(
            ".js-plotly-plot a",
            "links => links.map(link => String(link.href.baseVal ?? link.href))",
        ),
        width=page.evaluate("document.documentElement.scrollWidth"),
    )
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")  # no transition colours
    look.barriers["narrow, dark"] = serious(page)
    page.set_viewport_size(_WIDE)
    look.loose = page.evaluate(_LOOSE)
    look.barriers["dark"] = serious(page)
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    look.barriers["light"] = serious(page, ["color-contrast"])
    page.emulate_media(color_scheme="dark")
    _walk(page, look)
    return look


def serious(page: Any, rules: list[str] | None = None) -> list[str]:
    """Return the serious and critical violations of axe, by all rules or only by ``rules``."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    # No list of passed rules. No preload: it fetches files for rules that are off or about sound.
    options = {
        "resultTypes": ["violations"],
        "preload": False,
        **({"runOnly": rules} if rules else {}),
    }
    found = page.evaluate("async options => (await axe.run(options)).violations", options)
    return [
        f"{rule['id']}: {node['html'][:160]}"
        for rule in found
        if rule["impact"] in {"serious", "critical"}
        for node in rule["nodes"][:4]
    ]


def _walk(page: Any, look: Look) -> None:
    """Move through the page with the tab key."""
    look.wanted = min(page.locator(REACHABLE).count(), STOPS)
    page.evaluate(_WATCH)
    for _ in range(look.wanted + 5):
        page.keyboard.down("Tab")  # held: each repeat moves the focus
    page.keyboard.up("Tab")
    look.reached, look.unseen = page.evaluate(_REACHED)
