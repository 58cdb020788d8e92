"""A seeded lab behind the real web server on loopback, and Debian's Chromium signed in to it."""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest

from tests.environment import own_environment
from tests.services.prepared import prepared
from tests.services.process import dies_with_us, end, free_port, wait_until

ROOT = Path(__file__).parents[2]
_LEFT_OUT = re.compile(r"^/(api|static|accounts)/|\.csv(\?|$)|^/(setup|signin|livez|readyz)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests share a server and a browser: they run on one worker; those that click every figure on another."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.xdist_group("figures" if item.path.name == "test_figures.py" else "browser"))


@dataclass
class Served:
    """A running installation and what it was seeded with."""

    url: str
    session: str
    run: str
    other: str
    node: str
    site: int
    elsewhere: int
    asset: int


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=2) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="labcarbon-browser-") as directory:
        port = free_port()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LABCARBON_")}
        environment = {
            **kept, **own_environment(directory), "LABCARBON_PORT": str(port),
            "DJANGO_SETTINGS_MODULE": "labcarbon.settings",
        }  # fmt: skip

        def python(*arguments: str) -> str:
            command = [sys.executable, *arguments]
            told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
            assert told.returncode == 0, told.stderr
            return told.stdout

        prepared(Path(directory))
        seeded = json.loads(python("-m", "tests.browser.seed").splitlines()[-1])
        url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "gunicorn", "labcarbon.wsgi", "--bind", f"127.0.0.1:{port}", "--threads", "4"]
        with (Path(directory) / "web.log").open("wb") as log:
            web = subprocess.Popen(dies_with_us(command), cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            wait_until(lambda: _answers(url), what="the web server's first answer", seconds=60)
            yield Served(url, **seeded)
        finally:
            end(web)


@pytest.fixture(scope="session")
def browser(chromium_browser: Any) -> Any:
    return chromium_browser


@dataclass
class Visit:
    """A page in the browser, and all it complained about or asked others for."""

    page: Any
    served: Served
    complaints: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def go(self, address: str, until: str = "") -> Any:
        """Open an address of the site; wait until its charts are drawn, or as Playwright's ``until`` says."""
        reply = self.page.goto(urljoin(self.served.url, address), wait_until=until or "load")
        assert reply is not None
        assert reply.status == 200, (address, reply.status)
        if not until and self.page.locator("[data-chart]").count():
            self.page.wait_for_load_state("networkidle")
        return self.page


@pytest.fixture
def visit(browser: Any, served: Served) -> Iterator[Callable[..., Visit]]:
    contexts: list[Any] = []

    def make(**options: Any) -> Visit:
        context = browser.new_context(**options)
        contexts.append(context)
        context.add_cookies([{"name": "sessionid", "value": served.session, "url": served.url}])
        page = context.new_page()
        made = Visit(page, served)
        page.on("console", lambda said: made.complaints.append(said.text) if said.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: made.complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                made.elsewhere.append(request.url)
                if urlsplit(request.url).scheme not in {"data", "blob"} and not request.url.startswith(served.url + "/")
                else None
            ),
        )
        return made

    yield make
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def addresses(browser: Any, served: Served) -> list[str]:
    """Every page that links lead to from the Overview, one for each form of address."""
    context = browser.new_context()
    context.add_cookies([{"name": "sessionid", "value": served.session, "url": served.url}])
    page = context.new_page()
    found: dict[str, str] = {}
    waiting = [
        "/",
        f"/runs/{served.run}/",
        f"/runs/compare/?run={served.run}&run={served.other}",
        "/runs/?columns=lr,+val_loss&params=lr%3D0.1",
        f"/nodes/{served.node}/",
        f"/sites/{served.site}/",
        f"/nodes/{served.node}/move/?do=move&site={served.elsewhere}&when=always",
        f"/assets/{served.asset}/",
        f"/assets/{served.asset}/?do=dispose&from_day=2026-11-01&counterpart=Recycler",
        "/assets/new/?kind=laptop&search=latitude",
        "/sites/",
        "/nodes/enrol/",
        "/scopes/?both=1",
        "/login-code/",
    ]
    while waiting:
        address = waiting.pop(0)
        form = re.sub(r"=[^&]*", "=", re.sub(r"(?<=/)[^/]*\d[^/]*(?=/)", "#", address))
        if form in found or len(found) > 60:
            continue
        found[form] = address
        page.goto(urljoin(served.url, address))
        for href in page.eval_on_selector_all("a[href]", "links => links.map(link => link.getAttribute('href'))"):
            whole = urljoin(page.url, href)
            path = whole.removeprefix(served.url).split("#")[0]
            if whole.startswith(served.url) and path and not _LEFT_OUT.search(path):
                waiting.append(path)
    context.close()
    return sorted(found.values())


def pages_only(addresses: list[str]) -> list[str]:
    """Return one address of each page: explanations and period choices are many, their page is one."""
    by_path: dict[str, str] = {}
    for address in addresses:
        by_path.setdefault(re.sub(r"(?<=/)[0-9a-f]{8}-[0-9a-f-]{27}(?=/)", "#", urlsplit(address).path), address)
    return sorted(by_path.values())
