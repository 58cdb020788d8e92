"""The pages of signing in, in Chromium: the way to the provider and back, and how each page
looks and reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.page_wait import wait_until_true
from tests.signin.conftest import SignIn
from tests.signin.go_between import GoBetween
from tests.signin.provider.people import PASSWORD
from tests.signin.totp import code_now

# One worker has the browser: there, and not with the other tests over HTTP, these have an
# installation of their own.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]
LOOKS = [(scheme, width) for scheme in ("light", "dark") for width in (1280, 320)]


class Eyes:
    """Looks at a page in light and dark, wide and narrow; keeps a picture of each, and all that
    was complained about.
    """

    def __init__(self, page: Any, pictures: Path) -> None:
        self.page, self.pictures, self.seen = page, pictures, []
        self.complaints: list[str] = []
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _heard(self, said: Any) -> None:
        """Keep what our pages complain about; the provider's have no icon, and say so."""
        if said.type in {"error", "warning"} and not said.location["url"].endswith("/favicon.ico"):
            self.complaints.append(said.text)

    def read(self) -> str:
        """Return what the page says once all of it is there: a click waits for no more than its
        beginning.
        """
        self.page.wait_for_load_state()
        return str(self.page.inner_text("main"))

    def look(self, name: str) -> None:
        self.page.wait_for_load_state()
        self.seen.append(name)
        for scheme, width in LOOKS:
            self.page.emulate_media(color_scheme=scheme)
            self.page.set_viewport_size({"width": width, "height": 800})
            found = Axe().run(self.page).response["violations"]
            serious = [
                f"{rule['id']}: {node['html'][:160]}"
                for rule in found
                if rule["impact"] in {"serious", "critical"}
                for node in rule["nodes"][:4]
            ]
            assert serious == [], (name, scheme, width)
            assert self.page.evaluate("document.documentElement.scrollWidth") <= width, (
                name,
                width,
            )
            self.page.screenshot(path=str(self.pictures / f"{name}-{scheme}-{width}.png"))


@pytest.fixture
def eyes(chromium_browser: Any, tmp_path: Path) -> Iterator[Eyes]:
    context = chromium_browser.new_context(
        reduced_motion="reduce"
    )  # no colours half way between light and dark
    yield Eyes(context.new_page(), tmp_path)
    context.close()


def _by_provider(eyes: Eyes, ours: SignIn, name: str) -> None:
    page = eyes.page
    page.goto(f"{ours.url}/accounts/login/")
    page.get_by_role("button", name="Sign in with Example University").click()
    page.wait_for_url(re.compile("/login/\\?next=/o/authorize/"))
    page.fill("#id_username", name)
    page.fill("#id_password", PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(re.compile(re.escape(ours.url) + "/"))


def test_to_the_provider_and_back_and_a_second_factor(
    eyes: Eyes, ours: SignIn, between: GoBetween
) -> None:
    page = eyes.page
    page.goto(f"{ours.url}/accounts/login/")
    eyes.look("sign-in")
    _by_provider(eyes, ours, "iris")
    assert page.url == f"{ours.url}/"
    page.goto(f"{ours.url}/accounts/security/")
    assert "Linked as iris@lab.example" in eyes.read()
    eyes.look("security")
    page.get_by_role("link", name="Set up app").click()
    eyes.look("is-it-you")
    page.fill("#id_password", "iris of the lab")
    page.get_by_role("button", name="Confirm").click()
    wait_until_true(page, "document.querySelector('img.qr')?.naturalWidth > 0")
    eyes.look("app")
    page.fill("#id_code", "000000")
    page.get_by_role("button", name="Turn on").click()
    assert "This code is wrong" in eyes.read()
    eyes.look("app-wrong")
    page.fill("#id_code", code_now(page.inner_text("#secret").strip()))
    page.get_by_role("button", name="Turn on").click()
    eyes.look("codes")
    codes = page.inner_text("#codes").split()
    assert len(codes) == 10
    page.get_by_role("link", name="Done").click()
    eyes.look("security-on")
    page.get_by_role("link", name="Create new codes").click()
    eyes.look("codes-new")
    page.goto(f"{ours.url}/accounts/security/recovery-codes/")
    eyes.look("codes-gone")
    page.goto(f"{ours.url}/accounts/security/app/remove/")
    eyes.look("app-remove")
    page.goto(f"{ours.url}/accounts/password/change/")
    eyes.look("password")
    page.goto(f"{ours.url}/accounts/logout/")
    page.get_by_role("button", name="Sign out").click()
    page.fill("#id_login", "iris")
    page.fill("#id_password", "iris of the lab")
    page.get_by_role("button", name="Sign in", exact=True).click()
    eyes.look("code")
    page.fill("#id_code", codes[0])
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url(f"{ours.url}/")
    assert eyes.complaints == []


def test_pages_that_say_no(eyes: Eyes, ours: SignIn, between: GoBetween) -> None:
    page = eyes.page
    _by_provider(eyes, ours, "gus")
    assert "ask an admin to invite gus@elsewhere.example" in eyes.read()
    eyes.look("no-place")
    page.goto(f"{ours.url}/accounts/oidc/callback/?state=x&code=y")
    eyes.look("not-started-here")
    page.goto(f"{ours.url}/accounts/oidc/login/")
    eyes.look("shall-we")
    page.goto(f"{ours.url}/accounts/inactive/")
    eyes.look("closed")
    page.goto(f"{ours.url}/accounts/signup/")
    eyes.look("by-invitation")
    assert [text for text in eyes.complaints if "401" not in text and "403" not in text] == []
