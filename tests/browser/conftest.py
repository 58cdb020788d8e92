"""A seeded lab behind the real web server on loopback, and Debian's Chromium signed in to it."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.browser.addresses import found_from
from tests.browser.visit import Visit
from tests.environment import installation_environment
from tests.services.data_directories import seed_data_dir
from tests.services.process import answers, end_process, end_with_parent, free_port, wait_until

ROOT = Path(__file__).parents[2]


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests share a server and a browser: they run on one worker."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.xdist_group("browser"))


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
    artifact: str
    statement: int
    long_run: str
    long_runs: list[str]
    long_finding: int


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="labcarbon-browser-") as directory:
        port = free_port()
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("LABCARBON_")
        }
        environment = {
            **kept,
            **installation_environment(directory),
            "LABCARBON_PORT": str(port),
            "LABCARBON_WHEELS": str(ROOT / "tests" / "install" / "shelf"),
            "DJANGO_SETTINGS_MODULE": "labcarbon.settings",
        }

        told = json.loads(seed_data_dir(Path(directory), "tests.browser.seed"))
        url = f"http://127.0.0.1:{port}"
        command = [
            sys.executable,
            "-m",
            "gunicorn",
            "labcarbon.wsgi",
            "--bind",
            f"127.0.0.1:{port}",
            "--threads",
            "4",
        ]
        with (Path(directory) / "web.log").open("wb") as log:
            web = subprocess.Popen(
                end_with_parent(command), cwd=ROOT, env=environment, stdout=log, stderr=log
            )
        try:
            wait_until(
                lambda: answers(f"{url}/readyz"), what="the web server's first answer", seconds=60
            )
            yield Served(url, **told)
        finally:
            end_process(web)


@pytest.fixture(scope="session")
def browser(chromium_browser: Any) -> Any:
    return chromium_browser


@contextmanager
def visiting(browser: Any, served: Served) -> Iterator[Callable[..., Visit]]:
    """Lend a function that opens a window of the browser, signed in, with Playwright's options
    of a context.
    """
    contexts: list[Any] = []

    def make(**options: Any) -> Visit:
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(120_000)  # a busy machine is slow, not wrong
        context.add_cookies([{"name": "sessionid", "value": served.session, "url": served.url}])
        made = Visit(context.new_page(), served.url, served.run)
        made.listen()
        return made

    yield make
    for context in contexts:
        context.close()


@pytest.fixture
def visit(browser: Any, served: Served) -> Iterator[Callable[..., Visit]]:
    with visiting(browser, served) as make:
        yield make


@pytest.fixture(scope="session")
def addresses(browser: Any, served: Served) -> list[str]:
    """Every page that links lead to from the Overview and from these, one for each form of
    address.
    """
    context = browser.new_context()
    context.add_cookies([{"name": "sessionid", "value": served.session, "url": served.url}])
    start = [
        "/",
        "/overview/change/?period=month",
        f"/runs/{served.run}/",
        f"/runs/compare/?run={served.run}&run={served.other}",
        "/runs/?columns=lr,+val_loss&params=lr%3D0.1",
        f"/nodes/{served.node}/",
        f"/sites/{served.site}/",
        f"/nodes/{served.node}/move/?action=move&site={served.elsewhere}&when=always",
        f"/assets/{served.asset}/",
        (
            f"/assets/{served.asset}/?action=dispose&from_day={datetime.now(UTC):%Y-%m-%d}&"
            "counterpart=Recycler"
        ),
        "/assets/new/?kind=laptop&search=latitude",
        f"/artifacts/{served.artifact}/",
        "/artifacts/?copies=twice&sort=-bytes",
        "/artifacts/cleanup/",
        "/sites/",
        "/nodes/enrol/",
        "/nodes/add/?kind=slurm",
        "/scopes/?both=1",
        "/login-code/",
    ]
    found = found_from(context, served.url, start)
    context.close()
    return found
