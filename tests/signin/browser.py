"""A person at a browser: a cookie jar over real HTTP, one step at a time so that a test can
meddle between them.
"""

from __future__ import annotations

import itertools
import re
from html import unescape
from typing import Any
from urllib.parse import urljoin

import requests
from requests.adapters import HTTPAdapter

from tests.signin.provider.people import PASSWORD

_FORM = re.compile(r"<form([^>]*)>(.*?)</form>", re.DOTALL)
_INPUT = re.compile(r"<input[^>]*>")
_ATTRIBUTE = re.compile(r"(\w+)=\"([^\"]*)\"")
_GOING = re.compile(r"http-equiv=\"refresh\" content=\"0; url=([^\"]+)\"")


_ADDRESSES = itertools.count(2)


class _From(HTTPAdapter):
    """Comes from an address of its own (all of 127.0.0.0/8 is this machine), as people at
    different desks do.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **more: Any) -> None:
        super().init_poolmanager(*arguments, source_address=(self.address, 0), **more)


class Browser:
    """One person's session with the server at ``url``."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.web = requests.Session()
        self.web.trust_env = False
        number = next(_ADDRESSES)
        self.web.mount("http://", _From(f"127.0.{number // 250}.{number % 250 + 1}"))

    def get(self, address: str, *, follow: bool = True) -> requests.Response:
        return self.web.get(urljoin(self.url, address), allow_redirects=follow, timeout=30)

    def send(self, page: requests.Response, action: str, **fields: str) -> requests.Response:
        """Send the form of a page whose action begins with ``action``, its hidden fields
        included.
        """
        forms = [
            (dict(_ATTRIBUTE.findall(head)).get("action", ""), body)
            for head, body in _FORM.findall(page.text)
        ]
        found = [(where, body) for where, body in forms if unescape(where).startswith(action)]
        assert found, (action, page.text)
        inputs = [dict(_ATTRIBUTE.findall(text)) for text in _INPUT.findall(found[0][1])]
        hidden = {
            one["name"]: unescape(one.get("value", ""))
            for one in inputs
            if one.get("type") == "hidden"
        }
        target = urljoin(page.url, unescape(found[0][0]) or page.url)
        return self.web.post(
            target, {**hidden, **fields}, headers={"Referer": page.url}, timeout=30
        )

    def password(self, name: str, password: str) -> requests.Response:
        """Sign in with a password of LabCarbon."""
        return self.send(
            self.get("/accounts/login/"), "/accounts/login/", login=name, password=password
        )

    def to_provider(self, page: str = "/accounts/login/") -> str:
        """Press the button for the provider; return the address at the provider."""
        going = self.send(self.get(page), "/accounts/oidc/login/")
        found = _GOING.search(going.text)
        assert found, going.text
        return unescape(found[1])

    def at_provider(self, address: str, name: str) -> str:
        """Sign in at the provider; return the address by which it sends the person back."""
        page = self.web.get(address, timeout=30)
        reply = self.web.post(
            page.url,
            {"username": name, "password": PASSWORD, "csrfmiddlewaretoken": self._csrf(page)},
            headers={"Referer": page.url},
            allow_redirects=False,
            timeout=30,
        )
        while reply.is_redirect:
            where = urljoin(reply.url, reply.headers["Location"])
            if where.startswith(self.url + "/"):
                return where
            reply = self.web.get(where, allow_redirects=False, timeout=30)
        raise AssertionError(reply.text)

    @staticmethod
    def _csrf(page: requests.Response) -> str:
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert found, page.text
        return found[1]

    def come_back(self, name: str, page: str = "/accounts/login/") -> requests.Response:
        """Go all the way by the provider."""
        return self.get(self.at_provider(self.to_provider(page), name))

    @property
    def signed_in(self) -> bool:
        """Whether the session belongs to somebody."""
        return self.get("/accounts/security/", follow=False).status_code == 200


def refused(browser: Browser, reply: requests.Response, status: int, words: str) -> None:
    """The reply says no, in these words, and nobody is signed in."""
    assert reply.status_code == status, reply.text
    assert words in re.sub(r"\s+", " ", unescape(reply.text))
    assert not browser.signed_in
