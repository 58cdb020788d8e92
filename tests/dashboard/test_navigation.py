"""The navigation: groups, the current page, counts, and two clicks to every page."""

import re
from collections.abc import Iterable, Iterator
from html import unescape

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from apps.dashboard.frame.navigation import GROUPS, SETTINGS, current_page
from apps.fleet.models import Node
from tests.artifacts.support import register_artifact
from tests.assets.support import bought
from tests.builders import SmallLab
from tests.dashboard.support import text_of

pytestmark = pytest.mark.django_db
LINK = re.compile(r'<a [^>]*?href="(/[^"#]*)')
CURRENT = re.compile(r'<a href="([^"]+)" aria-current="page">')
# Not pages of the lab, or parts of a page.
LEFT_OUT = re.compile(
    r"\.csv$|^/(api|static|accounts|codecarbon|livez|readyz|setup|signin|invite|labs|"
    r"overview/(table|hardware)/|assets/new/offers|planner/estimates/save/|nodes/add/live/|install/)"
)


def links_of(client: Client, address: str) -> set[str]:
    response = client.get(address, follow=True)
    assert response.status_code == 200, address
    return {unescape(href) for href in LINK.findall(response.content.decode())}


def pages_without_arguments() -> set[str]:
    def walk(patterns: Iterable[URLPattern | URLResolver], before: str) -> Iterator[str]:
        for pattern in patterns:
            address = before + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, address)
            elif "<" not in address and pattern.name:  # one without a name redirects
                yield address

    found = walk(get_resolver().url_patterns, "/")
    return {address for address in found if not LEFT_OUT.search(address)}


def test_every_page_is_two_clicks_from_the_overview(owner: Client, lab: SmallLab) -> None:
    """Except the search, a form of each page, what needs a selection of rows or two periods with
    data, and the import of rules, a step of their page.
    """
    bought(lab, name="gpu-1")
    register_artifact(lab, "model.pt")
    first = links_of(owner, "/") | {"/"}
    second = set(first)
    for address in first:
        if not LEFT_OUT.search(address.split("?")[0]):
            second |= links_of(owner, address)
    expected = pages_without_arguments()
    assert len(expected) > 30
    steps = {
        "/assets/events/",
        "/assets/labels/",
        "/change/",
        "/nodes/changes/",
        "/overview/change/",
        "/runs/compare/",
        "/rules/import/",
    }
    assert expected - {href.split("?")[0] for href in second} == steps | {"/search/"}


def test_the_current_page_is_marked_once_in_each_bar(owner: Client) -> None:
    for _, sections in GROUPS:
        for section in sections:
            address = reverse(section.page)
            page = text_of(owner.get(address))
            marked = CURRENT.findall(page)
            assert set(marked) == {address}, address
    for each in SETTINGS:
        address = reverse(each.page)
        marked = set(CURRENT.findall(text_of(owner.get(address, follow=True))))
        assert marked == {reverse("lab-settings"), address}


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/", "overview"),
        ("/overview/change/", "overview"),
        ("/runs/0/", "runs"),
        ("/runs/duplicates/3/", "duplicates"),
        ("/artifacts/cleanup/x/", "cleanup-plans"),
        ("/artifacts/abc/", "artifacts"),
        ("/assets/ranking/", "replacement-ranking"),
        ("/assets/3/", "assets"),
        ("/assets/sources/", "lab-settings"),
        ("/devices/x/", "nodes"),
        ("/rules/3/", "lab-settings"),
        ("/explain/", ""),
    ],
)
def test_addresses_belong_to_sections(path: str, page: str) -> None:
    assert current_page(path) == page


def test_a_silent_node_is_counted(owner: Client, lab: SmallLab) -> None:
    assert "data-count" not in text_of(owner.get("/people/"))
    Node.objects.filter(lab=lab.lab).update(last_push_us=1)
    assert 'data-count="1"' in text_of(owner.get("/people/"))


def test_a_period_is_kept_but_for_the_list_of_what_waits(owner: Client) -> None:
    links = links_of(owner, "/?period=quarter")
    assert "/runs/?period=quarter" in links
    assert "/runs/duplicates/" in links


def test_a_viewer_is_not_offered_the_audit_log(viewer: Client) -> None:
    assert "/audit/" not in links_of(viewer, "/tokens/")


def test_error_pages_keep_the_navigation(owner: Client, outsider: Client) -> None:
    for address in ("/no-such-page/", "/runs/00000000-0000-0000-0000-000000000000/"):
        response = owner.get(address)
        assert response.status_code == 404
        assert {"/runs/", "/nodes/"} <= set(LINK.findall(response.content.decode()))
    assert 'class="sidebar"' not in Client().get("/no-such-page/").content.decode()


ACCOUNT_PAGES = [
    "mfa_index", "account_change_password", "account_reauthenticate", "account_logout",
    "mfa_activate_totp", "mfa_generate_recovery_codes", "invitation",
]  # fmt: skip


@pytest.mark.parametrize("page", ACCOUNT_PAGES)
def test_account_pages_keep_the_navigation_of_a_person_with_a_lab(
    owner: Client, lab: SmallLab, page: str
) -> None:
    response = owner.get(reverse(page), follow=True)
    assert response.status_code == 200
    assert {"/runs/", "/nodes/"} <= set(LINK.findall(response.content.decode()))
    lab.lab.memberships.all().delete()
    response = owner.get(reverse(page), follow=True)
    assert response.status_code == 200
    assert 'class="sidebar"' not in response.content.decode()


def test_sign_in_pages_stand_alone() -> None:
    for page in ("account_login", "account_signup", "sign-in", "invitation"):
        text = Client().get(reverse(page), follow=True).content.decode()
        assert 'class="sidebar"' not in text, page
        assert 'class="standalone"' in text, page
