"""Which pages there are: what links lead to from the Overview, read from the HTML without
drawing it.
"""

import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

# The help has its own test: its figures are examples. Below /install/ are a script and files.
_LEFT_OUT = re.compile(
    r"^/(api|static|accounts|help|install)/|\.(csv|json|md)(\?|$)|/export/|^/(setup|signin|livez|readyz)"
)
_ZONE = re.compile(r"(?<=^/factors/)[A-Z][^/]*(?=/)")
_UUID = re.compile(r"(?<=/)[0-9a-f]{8}-[0-9a-f-]{27}(?=/)")
MOST = 60  # forms of addresses; beyond, only pages that none of them leads to


class _Links(HTMLParser):
    """Collects where the links of a page lead."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a" and (href := dict(attrs).get("href")):
            self.found.append(href)


def found_from(context: Any, url: str, start: list[str]) -> list[str]:
    """Return every page of the site at ``url`` that can be reached from ``start``, one for each
    form of address.
    """
    found: dict[str, str] = {}
    paths: set[str] = set()
    waiting = list(start)
    while waiting:
        address = waiting.pop(0)
        form = _ZONE.sub("#", address)
        form = re.sub(r"=[^&]*", "=", re.sub(r"(?<=/)[^/]*\d[^/]*(?=/)", "#", form))
        if form in found or (len(found) > MOST and form.split("?")[0] in paths):
            continue
        found[form] = address
        paths.add(form.split("?")[0])
        reply = context.request.get(urljoin(url, address))
        assert reply.status == 200, (address, reply.status)
        links = _Links()
        links.feed(reply.text())
        for href in links.found:
            whole = urljoin(reply.url, href)
            path = whole.removeprefix(url).split("#")[0]
            if whole.startswith(url) and path and not _LEFT_OUT.search(path):
                waiting.append(path)
    return sorted(found.values())


def pages_only(addresses: list[str]) -> list[str]:
    """Return one address of each page: explanations and period choices are many, their page is
    one.
    """
    by_path: dict[str, str] = {}
    for address in addresses:
        by_path.setdefault(_UUID.sub("#", urlsplit(address).path), address)
    return sorted(by_path.values())
