"""A page in the browser, with its console messages and requests."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit

from tests.page_wait import wait_until_true

# plotly.js tries eval once; the CSP blocks it: docs/adr/0003-content-security-policy.md
_PLOTLY_EVAL = ("Evaluating a string as JavaScript violates", "unsafe-eval")
_ALL_DRAWN = (
    "() => [...document.querySelectorAll('[data-chart]')].every(chart => "
    "chart.querySelector('.main-svg'))"
)


@dataclass
class Visit:
    """A browser page, with its errors (``complaints``) and external requests (``elsewhere``).

    ``evals``: number of blocked evals.
    """

    page: Any
    url: str
    run: str
    complaints: list[str] = field(default_factory=list)
    evals: int = 0
    elsewhere: list[str] = field(default_factory=list)

    def go(self, address: str) -> Any:
        """Open a URL of the site, and wait until its charts are drawn."""
        reply = self.page.goto(urljoin(self.url, address), wait_until="load")
        assert reply is not None
        assert reply.status == 200, (address, reply.status)
        if self.page.locator("[data-chart]").count():
            wait_until_true(self.page, _ALL_DRAWN)
        return self.page

    def listen(self) -> None:
        """Start to record errors and external requests."""
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._asked)

    def _said(self, message: Any) -> None:
        if any(part in message.text for part in _PLOTLY_EVAL):
            self.evals += 1
        elif message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def _asked(self, request: Any) -> None:
        own = urlsplit(request.url).scheme in {"data", "blob"} or request.url.startswith(
            self.url + "/"
        )
        if not own:
            self.elsewhere.append(request.url)
