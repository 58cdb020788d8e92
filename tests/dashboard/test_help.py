"""The help: every document, link and anchor; search; the topic of each page; who can read it."""

import re
from collections.abc import Iterable, Iterator
from html import unescape
from urllib.parse import urljoin

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from apps.dashboard.help.documents import FOLDER, chapters, document, document_names, slug
from apps.dashboard.help.help_search import search_help
from apps.dashboard.help.topics import TOPICS
from tests.builders import SmallLab
from tests.dashboard.support import HOSTILE, assert_only, queries, text_of

pytestmark = pytest.mark.django_db
_LINK = re.compile(r'<a href="([^"]+)"')
_PICTURE = re.compile(r'<img src="([^"]+)"')
_ID = re.compile(r'\bid="([^"]+)"')


def test_every_document_is_rendered_and_listed_once() -> None:
    files = {path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.md")}
    assert set(document_names()) == files
    listed = [each.name for chapter in chapters() for each in chapter.documents]
    assert sorted(listed) == sorted(files)
    page = text_of(Client().get("/help/"))
    for name in files:
        assert f'href="/help/{name}/"' in page


def test_no_link_within_the_help_is_dead() -> None:
    dead = []
    for name in document_names():
        content = document(name)
        assert content is not None
        assert content.title
        for href in map(unescape, _LINK.findall(content.html)):
            path, _, anchor = urljoin(content.href, href).partition("#")
            if href.startswith("http"):
                continue
            target = document(path.removeprefix("/help/").strip("/"))
            if target is None or (anchor and anchor not in target.anchors):
                dead.append((name, href))
        assert all(anchor in _ID.findall(content.html) for anchor in content.anchors)
        for source in _PICTURE.findall(content.html):
            response = Client().get(source)
            assert (response.status_code, response["Content-Type"]) == (200, "image/png"), source
            assert b"".join(response.streaming_content).startswith(b"\x89PNG")  # type: ignore[attr-defined]
    assert dead == []


def test_only_documents_and_their_pictures_are_served(owner: Client) -> None:
    for address in (
        "/help/no-such/",
        "/help/../manage/",
        "/help/%2e%2e/README/",
        "/help//etc/passwd/",
        "/help/adr/",
        "/help/api/openapi.yaml/",
        "/help/pictures/no-such.png",
        "/help/pictures/overview.png",  # only the README shows it
    ):
        for client in (owner, Client()):
            assert client.get(address).status_code == 404, address


def test_html_of_a_document_is_displayed_as_text() -> None:
    from apps.dashboard.help.documents import _rendered

    rendered = _rendered("x", f"# A {HOSTILE}\n\n{HOSTILE}\n\n[b](javascript:alert(1))\n")
    assert "<script" not in rendered.html
    assert "<img" not in rendered.html
    assert "href" not in rendered.html


def test_anchors_are_those_of_github() -> None:
    assert slug("`POST runs/<uuid>/`") == "post-runsuuid"
    assert slug("Ranges", ["ranges"]) == "ranges-1"
    assert slug("Second-hand") == "second-hand"


def test_search_finds_sections_by_all_words_and_names_them_by_heading_first(
    owner: Client,
) -> None:
    hits = search_help("recovery CODES", 10)
    assert hits
    assert all(
        word in f"{hit.document.title} {hit.section.title} {hit.section.text}".lower()
        for hit in hits
        for word in ("recovery", "codes")
    )
    first = search_help("cleanup plans", 10)[0]
    assert first.section.title == "Cleanup plans"
    assert owner.get(first.href).status_code == 200
    page = text_of(owner.get("/help/", {"q": "cleanup plans"}))
    assert f'href="{first.href}"' in page
    assert 'data-hits="0"' in text_of(owner.get("/help/", {"q": "xyzzy quux"}))
    assert search_help("   ", 10) == []


def test_hostile_searches_are_text(owner: Client) -> None:
    page = text_of(owner.get("/help/", {"q": HOSTILE}))
    assert "<script>alert" not in page
    for text in ("\x00", "%", "\ud800".encode("utf-8", "surrogatepass"), "a" * 5000):
        assert owner.get("/help/", {"q": text}).status_code == 200


def test_everyone_reads_the_help_and_people_with_a_lab_keep_the_navigation(
    owner: Client, viewer: Client, lab: SmallLab
) -> None:
    for address in ("/help/", "/help/artifacts/"):
        for client in (owner, viewer):
            assert 'class="sidebar"' in text_of(client.get(address))
            assert_only(client, address, "GET")
        assert 'class="sidebar"' not in text_of(Client().get(address))
    lab.lab.memberships.all().delete()
    assert owner.get("/help/artifacts/").status_code == 200


def test_a_document_needs_the_queries_of_the_frame_only(owner: Client) -> None:
    assert queries(owner, "/help/artifacts/") == queries(owner, "/help/")
    assert queries(owner, "/help/?q=energy") == queries(owner, "/help/")


# Downloads, parts of pages, forms without a page, and pages of those who are signed out.
_WITHOUT_HELP = re.compile(
    r"-csv$|^(overview-(table|hardware)|project-table|asset-model-search|asset-attachment|"
    r"artifact-model-card|catalog-evidence|node-add-live|person-export|install(-files?)?|help.*|livez|readyz|schema|api-.*|codecarbon|setup|"
    r"sign-in|(person|token|invitation)-(role|remove|revoke)|lab-switch|oidc_.*|account_login|"
    r"account_signup|account_inactive|mfa_authenticate)$"
)


def _names(patterns: Iterable[URLPattern | URLResolver], before: str = "") -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            if not str(pattern.pattern).startswith("api/v1"):
                yield from _names(pattern.url_patterns)
        elif pattern.name:
            yield pattern.name


def test_each_page_has_a_topic_that_exists() -> None:
    pages = {name for name in _names(get_resolver().url_patterns) if not _WITHOUT_HELP.search(name)}
    assert pages - set(TOPICS) == set(), "add these pages to apps/dashboard/help/topics.py"
    assert set(TOPICS) - pages == set(), "these pages do not exist any more"
    for page, topic in TOPICS.items():
        name, _, anchor = topic.partition("#")
        content = document(name)
        assert content is not None, (page, topic)
        assert not anchor or anchor in content.anchors, (page, topic)


def test_pages_link_to_their_topic(owner: Client) -> None:
    for page, href in (
        (reverse("holds"), "/help/artifacts/#holds"),
        (reverse("mfa_index"), "/help/sign-in/#second-factor"),
        ("/no-such-page/", "/help/"),
        ("/help/artifacts/", "/help/"),
    ):
        assert f'href="{href}" data-help-link' in text_of(owner.get(page)), page
