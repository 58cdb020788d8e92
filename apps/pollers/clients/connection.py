"""Connection to an asset source: GET requests to one permitted address, limited in time, size and
number of rows. Each error message contains a remedy.
"""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Any
from urllib.parse import urlencode, urlsplit

from apps.core.http_client import HttpResponse, OutboundError, send_request
from apps.core.intervals import datetime_to_us
from apps.core.text import replace_unstorable
from apps.core.units import US_PER_S
from apps.core.url_allowlist import Address, Allowlist

TIMEOUT_S = 10.0
TOTAL_S = 45.0  # the worker runs no other job meanwhile
MAX_BYTES = 8 << 20
MAX_ROWS = 20_000
MAX_CELL = 1_000
MAX_WAIT_S = 24 * 3600
PAGE_ROWS = 200


class PollError(Exception):
    """An unusable response. ``message``: sentence for the page. ``wait_s``: requested delay.
    ``status``: of the response, 0 if there is none.
    """

    def __init__(self, message: str, *, wait_s: int = 0, status: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.wait_s = wait_s
        self.status = status


@dataclass(frozen=True)
class RemoteRow:
    """A row of the list: its number in the source, and its non-empty cells by the names of the
    import.
    """

    number: int
    cells: dict[str, str]


@dataclass
class Connection:
    """Sends requests to one server. ``until``: time.monotonic() after which no request starts."""

    address: Address
    allowlist: Allowlist
    token: str = field(repr=False)
    app_token: str = field(default="", repr=False)
    until: float = field(default_factory=lambda: time.monotonic() + TOTAL_S)

    @property
    def host(self) -> str:
        return f"{self.address.host}:{self.address.port}"

    def get(
        self, path: str, query: Mapping[str, object], headers: Mapping[str, str]
    ) -> tuple[Any, HttpResponse]:
        """Return the JSON value of a response, and the response. Raises PollError."""
        remaining_s = self.until - time.monotonic()
        if remaining_s <= 0:
            raise PollError(f"{self.host} did not return its list within {TOTAL_S:g} s.")
        text = urlencode([(name, str(value)) for name, value in query.items()])
        try:
            response = send_request(
                self.address,
                "GET",
                f"{path}?{text}" if text else path,
                allowlist=self.allowlist,
                headers={"Accept": "application/json", "User-Agent": "LabCarbon", **headers},
                timeout_s=min(TIMEOUT_S, remaining_s),
                max_bytes=MAX_BYTES,
            )
        except OutboundError as error:
            raise PollError(error.message) from error
        if response.status not in (200, 206):
            raise self._status_error(response)
        try:
            return json.loads(response.body), response
        except (ValueError, RecursionError) as error:
            raise PollError(
                f"{self.host} does not return JSON. Check the address: it may be that of a "
                "sign-in page."
            ) from error

    def _status_error(self, response: HttpResponse) -> PollError:
        status = response.status
        if 300 <= status < 400:
            location = urlsplit(response.headers.get("location", ""))
            target = f" to {location.scheme}://{location.netloc}" if location.netloc else ""
            return PollError(f"{self.host} redirects{target}. Redirects are not followed.")
        if status in (401, 403):
            return PollError(
                f"{self.host} refuses the token ({status}). Check that it is valid and may read "
                "the hardware list.",
                status=status,
            )
        if status == 404:
            return PollError(f"{self.host} has no such API (404). Check address and program.")
        if status in (429, 503):
            wait_s = parse_wait_s(response.headers.get("retry-after", ""))
            return PollError(f"{self.host} limits the request rate ({status}).", wait_s=wait_s)
        return PollError(f"{self.host} returned an error ({status}). The next poll tries again.")

    def unusable(self, reason: str) -> PollError:
        """Return the error of a response with an unexpected structure."""
        return PollError(f"The list of {self.host} is unusable: {reason}. Nothing was changed.")


def parse_wait_s(text: str) -> int:
    """Return the seconds of a Retry-After header (seconds or a date); 0 if unusable."""
    if text.isascii() and text.isdigit():
        return min(int(text[:9]), MAX_WAIT_S)
    try:
        ahead = datetime_to_us(parsedate_to_datetime(text)) - time.time_ns() // 1000
    except (TypeError, ValueError):
        return 0
    return min(max(ahead // US_PER_S, 0), MAX_WAIT_S)


class RowList:
    """Collects the rows of all pages, and verifies that they are complete."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: dict[int, RemoteRow] = {}
        self.received = 0
        self.skipped = 0

    def add_page(self, page: Any) -> list[dict[str, Any]]:
        """Return the rows of a page. Raises PollError for another value."""
        if not isinstance(page, list) or not all(isinstance(row, dict) for row in page):
            raise self._connection.unusable("a page is not a list of rows")
        self.received += len(page)
        if self.received > MAX_ROWS:
            raise self._connection.unusable(f"it has more than {MAX_ROWS} rows")
        return page

    def add(self, number: Any, cells: Mapping[str, str]) -> None:
        """Add a row. Raises PollError for a row without a number."""
        if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 2**63:
            raise self._connection.unusable("a row has no number")
        self._rows[number] = RemoteRow(number, {name: text for name, text in cells.items() if text})

    def complete(self, total: int) -> list[RemoteRow]:
        """Return all rows. Raises PollError if they are not ``total``: a list that changed while
        it was read, or was cut off.
        """
        if len(self._rows) + self.skipped != total:
            raise self._connection.unusable(
                f"{len(self._rows) + self.skipped} of {total} rows were received"
            )
        return list(self._rows.values())


def count_of(connection: Connection, value: Any) -> int:
    """Return the total that a page names. Raises PollError for another value."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise connection.unusable("it does not name its number of rows")
    return value


def text_of(value: Any) -> str:
    """Return a value as one line of text, '' for none. Objects are named by ``name``."""
    if isinstance(value, dict):
        value = value.get("name")
    if value is None or isinstance(value, bool | list | dict | float):
        return ""
    return " ".join(str(replace_unstorable(str(value))).split())[:MAX_CELL]


def html_text_of(value: Any) -> str:
    """Return a value that the source escaped for HTML as text."""
    text = text_of(value)
    return text_of(unescape(text)) if "&" in text else text


def joined(values: Iterable[str]) -> str:
    """Return the non-empty texts, separated by commas."""
    return ", ".join(value for value in values if value)
