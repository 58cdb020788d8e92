"""What people and machines name themselves is shown as text: on every page, in charts, downloads
and headers.
"""

import csv
import io
import itertools
import json
import re
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from django.http import HttpResponseBase
from django.test import Client

from apps.accounts.choices import CodePurpose, Role
from apps.accounts.services.labs import issue_code
from apps.core.clock import now_us
from tests.attacks.conftest import HOSTILE, RUN, World, hostile_lab
from tests.attacks.routes import address, routes

PAGES = sorted(
    route for route in set(routes()) if "logout" not in route and not route.startswith("/api/")
)
ADDRESSES = {
    "href",
    "src",
    "action",
    "formaction",
    "data",
    "poster",
    "srcset",
    "style",
    "cite",
    "background",
}
FORMULAS = (
    "=HYPERLINK(1)", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", " =1", "=cmd|'/C calc'!A0",
    "a;=1+1", "a\t=1", "a; '@SUM(1)", "a\n-1", "\uff1dHYPERLINK(1)", "\uff0b1", "\uff0d1",
    "\uff20SUM(1)",
)  # fmt: skip


_FORMULA = re.compile(r"\s*[=+@\uff1d\uff0b\uff0d\uff20]|\s*-(?!\d+(\.\d+)?(e-?\d+)?$)")


class Found(HTMLParser):
    """Collects what in a page is code or an address rather than text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[tuple[dict[str, str], str]] = []
        self._script: dict[str, str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = {name: value or "" for name, value in attrs}
        self.tags.append((tag, held))
        self._script = held if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts.append((self._script, data))


def _text(response: object) -> str:
    streaming = getattr(response, "streaming", False)
    return (b"".join(response.streaming_content) if streaming else response.content).decode()  # type: ignore[attr-defined]


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for part in value.values() for text in _strings(part)]
    if isinstance(value, list):
        return [text for part in value for text in _strings(part)]
    return []


def assert_harmless(page: str, where: str) -> int:
    """Assert that nothing hostile became code; return in how many places it was shown as text."""
    found = Found()
    found.feed(page)
    for tag, attributes in found.tags:
        assert "lcevil" not in tag, where
        for name, value in attributes.items():
            assert not name.startswith("on"), (where, tag, name)
            assert "lcevil" not in name, (where, tag, name)
            if name in ADDRESSES or name.startswith("hx-") or name == "srcdoc":
                assert "evil.example" not in value.split("?", 1)[0], (where, tag, name, value)
                assert not value.lower().replace(" ", "").startswith("javascript:"), (
                    where,
                    tag,
                    name,
                )
    for attributes, text in found.scripts:
        if "src" not in attributes:
            assert attributes.get("type") == "application/json", (where, "inline script")
            # Plotly reads a small HTML in labels.
            for string in _strings(json.loads(text)):
                assert "<script" not in string, where
                assert "<a " not in string, where
                assert "<svg" not in string, where
    return page.count("lcevil")


@pytest.mark.django_db
def test_hostile_names_are_text_on_every_page() -> None:
    small, client = hostile_lab()
    shown = 0
    for route in PAGES:
        for headers in ({}, {"HX-Request": "true"}):
            response = client.get(address(route, small, RUN), headers=headers)
            assert response.status_code < 500, route
            if response.headers.get("Content-Type", "").startswith("text/html"):
                shown += assert_harmless(_text(response), route)
    assert shown > 20, "the hostile names were not shown at all: the test looks at nothing"


@pytest.mark.django_db
def test_hostile_names_are_text_on_every_figures_explanation() -> None:
    small, client = hostile_lab()
    overview = _text(client.get("/?from=2026-11-01T00:00Z&to=2026-11-05T00:00Z"))
    queries = set(re.findall(r'data-figure="([^"]+)"', overview))
    assert queries
    for query in queries:
        where = f"/explain/?{query.replace('&amp;', '&')}"
        assert_harmless(_text(client.get(where)), where)
    for drill in (
        f"&subject=run:{RUN}",
        "&subject=device:gpu:GPU-0000-1111",
        f"&subject=node:{small.node.uuid}",
    ):
        base = "/explain/?metric=energy_mj&from=2026-11-02T00:00Z&to=2026-11-03T00:00Z" + drill
        for where in (base, f"{base}&hour=2026-11-02T08:00Z&device=gpu:GPU-0000-1111"):
            assert assert_harmless(_text(client.get(where)), where)


@pytest.mark.django_db
def test_hostile_addresses_are_text_in_what_they_answer(world: World) -> None:
    fields = (
        "metric",
        "subject",
        "from",
        "to",
        "quality",
        "consumer",
        "basis",
        "accounting",
        "nope",
        "next",
        "text",
    )
    for route in (
        "/explain/",
        "/",
        "/runs/",
        "/projects/",
        "/nodes/",
        "/signin/",
        "/setup/",
        "/accounts/login/",
    ):
        for field, visitor in itertools.product(fields, ("admin", "anonymous")):
            response = world.visitors[visitor].get(route, {field: HOSTILE})
            assert response.status_code < 500, (route, field, visitor)
            assert_harmless(_text(response), f"{route} {field} {visitor}")


@pytest.mark.django_db
def test_what_was_typed_wrong_comes_back_as_text(world: World) -> None:
    admin = world.visitors["admin"]
    for route, body in (
        ("/projects/", {"slug": HOSTILE, "name": HOSTILE}),
        (f"/nodes/{world.ours.node.uuid}/", {"choice": "own", "watts": HOSTILE}),
        (f"/sites/{world.ours.site.pk}/", {"zone": HOSTILE}),
        (f"/sites/{world.ours.site.pk}/", {"pue": HOSTILE, "from_day": HOSTILE, "note": HOSTILE}),
        (
            f"/sites/{world.ours.site.pk}/prices/",
            {"action": "tariff", "periods": HOSTILE, "currency": HOSTILE, "time_zone": HOSTILE},
        ),
        ("/signin/", {"code": HOSTILE, "next": HOSTILE}),
        ("/accounts/login/", {"login": HOSTILE, "password": HOSTILE}),
    ):
        response = admin.post(route, body)
        assert response.status_code < 500, route
        assert_harmless(_text(response), route)


@pytest.mark.django_db
@pytest.mark.parametrize("formula", FORMULAS)
def test_no_cell_of_a_download_is_a_formula(formula: str) -> None:
    small, client = hostile_lab(formula)
    cells = 0
    for route in PAGES:
        if not route.endswith(".csv"):
            continue
        response = client.get(
            address(route, small, RUN)
            + ("&" if "?" in address(route, small, RUN) else "?")
            + "from=2026-11-01T00:00Z&to=2026-11-05T00:00Z",
            follow=True,
        )
        if response.status_code == 405:  # POST only; cells: tests/dashboard/test_planner_sweep.py
            assert route == "/planner/sweep/points.csv"
            continue
        assert response.status_code in {200, 400}, route
        if response.status_code == 400:  # /explain/ledger.csv has its period already
            response = client.get(address(route, small, RUN))
        if response.status_code == 400:  # a page; cells: tests/dashboard/test_change.py
            assert route == "/change.csv"
            continue
        for row in csv.reader(io.StringIO(_text(response))):
            for value in row:
                cells += 1
                for part in re.split(r"[;\t\r\n]", value):  # a spreadsheet can split there
                    assert not _FORMULA.match(part), (route, value)
    assert cells > 50


@pytest.mark.django_db
@pytest.mark.parametrize(
    "name",
    [
        'a"; filename="evil.exe',
        "a\r\nSet-Cookie: x=1",
        "../../etc/passwd",
        "ü€\u202etxt.exe",
        "%0d%0aX: y",
    ],
)
def test_a_downloads_name_stays_a_name(name: str) -> None:
    small, client = hostile_lab(name)
    for route in PAGES:
        if route.endswith(".csv"):
            response = client.get(address(route, small, RUN))
            if response.status_code == 200:
                assert re.fullmatch(
                    r'attachment; filename="[\w.\-]+\.csv"', response["Content-Disposition"]
                ), route
                assert response["Content-Type"].startswith("text/csv")
                assert response["X-Content-Type-Options"] == "nosniff"


ELSEWHERE = (
    "//evil.example/", "https://evil.example/", "/\\evil.example", "\\\\evil.example",
    "javascript:lcevil()", "http:evil.example", "/%09/evil.example", "///evil.example",
)  # fmt: skip


@pytest.mark.django_db
def test_nobody_is_sent_elsewhere(world: World, subtests: pytest.Subtests) -> None:
    for target in ELSEWHERE:
        with subtests.test(target):
            for response in _asked_to_go_to(world, target):
                assert response.status_code == 302, response.content[:300]
                parts = urlsplit(response["Location"].replace("\\", "/"))
                assert parts.netloc in {"", "testserver"}, response["Location"]
                assert parts.scheme in {"", "http"}


def _asked_to_go_to(world: World, target: str) -> list[HttpResponseBase]:
    user, login = (
        world.ours.owner,
        {"login": world.ours.owner.username, "password": "correct horse battery"},
    )
    code = issue_code(purpose=CodePurpose.SIGN_IN, now=now_us(), lab=world.ours.lab, user=user)
    world.visitors["member"].force_login(
        world.ours.lab.memberships.get(role=Role.MEMBER).user
    )  # signed out the last time
    return [
        Client().post("/signin/", {"code": code, "next": target}),
        Client().post("/accounts/login/", {**login, "next": target}),
        Client().post(f"/accounts/login/?next={target}", login),
        world.visitors["member"].post("/accounts/logout/", {"next": target}),
        world.visitors["admin"].get("/accounts/login/", {"next": target}),
    ]  # type: ignore[list-item]
