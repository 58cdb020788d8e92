"""Fetches a cleanup plan from the server and reports the outcomes of its items."""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from labcarbon_collect.api.backoff import full_jitter
from labcarbon_collect.api.transport import (
    MAX_RETRY_AFTER_S,
    Response,
    ServerUnavailable,
    Transport,
)
from labcarbon_collect.config import is_uuid
from labcarbon_collect.runs.preflight_text import plain

MAX_ROWS, MAX_TRIES, MAX_MESSAGE_CHARS = 1000, 5, 300
MAX_RESPONSE_BYTES = 256 << 20  # a plan is one response of about 500 bytes per item
_RETRY_STATUSES = (429, 500, 502, 503, 504)
_STATES = ("draft", "told", "approved", "applied", "withdrawn")
_OUTCOMES = ("", "trashed", "refused", "restored", "deleted")
Row = Tuple[int, str, str]  # item number, outcome, message


class PlanServerError(Exception):
    """The server cannot be reached, or its response is unusable. The text says why."""


class OutcomeRejected(Exception):
    """The server rejects an outcome. The text says why. ``is_whole_plan``: because of the plan, not
    of one item.
    """

    def __init__(self, reason: str, *, is_whole_plan: bool) -> None:
        super().__init__(reason)
        self.is_whole_plan = is_whole_plan


@dataclass
class CleanupItem:
    """An item of a plan. ``blocked_reason``: why it may not be deleted, or ""."""

    number: int
    path: str
    digest: str
    form: str
    bytes: int
    files: int
    name: str
    retention_class: str
    blocked_reason: str
    outcome: str


@dataclass
class CleanupPlan:
    """A plan as the server returned it."""

    uuid: str
    lab: str
    node: str
    hostname: str
    state: str
    trash_days: int
    approved_by: str
    approved_at: str
    items: List[CleanupItem]

    def __post_init__(self) -> None:
        self._by_number = {item.number: item for item in self.items}
        self._by_path = {item.path: item for item in self.items}
        self._paths = sorted(self._by_path)

    def item(self, number: int) -> Optional[CleanupItem]:
        """Return the item with a number."""
        return self._by_number.get(number)

    def items_inside(self, path: str) -> Iterator[CleanupItem]:
        """Yield the items inside a folder."""
        prefix = path + "/"
        for number in range(bisect_left(self._paths, prefix), len(self._paths)):
            if not self._paths[number].startswith(prefix):
                return
            yield self._by_path[self._paths[number]]

    def enclosing_items(self, path: str) -> Iterator[CleanupItem]:
        """Yield the items of the folders that contain a path."""
        parts = path.split("/")
        for end in range(1, len(parts)):
            if "/".join(parts[:end]) in self._by_path:
                yield self._by_path["/".join(parts[:end])]


def parse_plan_id(text: str, url: str) -> str:
    """Return the UUID from a plan's number or the URL of its page on this server. Raises
    ValueError.
    """
    if is_uuid(text):
        return text.lower()
    if "://" in text and _origin(text) != _origin(url):
        raise ValueError(
            f"{plain(text, 200)} belongs to another server than {url}, where you are logged in"
        )
    candidates = [part for part in urlsplit(text).path.split("/") if is_uuid(part)]
    if len(candidates) != 1:
        raise ValueError(
            f"{plain(text, 200)!r} is not a plan: pass its UUID or the URL of its page"
        )
    return candidates[0].lower()


class PlanClient:
    """Client for one plan. Retries if the server is busy or unreachable for a short time."""

    def __init__(
        self,
        transport: Transport,
        plan: str,
        *,
        notify: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport, self._notify, self._sleep = transport, notify, sleep
        self._plan_id, self._path = plan, f"artifacts/plans/{plan}/"
        self.url = transport.url

    @property
    def page(self) -> str:
        """URL of the plan's page."""
        return f"{self.url}/artifacts/plans/{self._plan_id}/"

    def fetch_plan(self) -> CleanupPlan:
        """Fetch the current plan. Raises PlanServerError."""
        reply = self._call_with_retry("GET", self._path, None)
        if reply.status != 200:
            raise PlanServerError(_error_text(self.url, reply))
        try:
            return _parse_plan(reply.body, self._plan_id)
        except (KeyError, TypeError, ValueError) as error:
            raise PlanServerError(
                f"{self.url} returned an invalid plan ({plain(error, 200)}): stopped"
            ) from error

    def report_outcomes(self, outcomes: Sequence[Row]) -> None:
        """Report outcomes of at most MAX_ROWS items. Raises PlanServerError, and OutcomeRejected if
        the server rejects one.
        """
        rows = [
            {"line": number, "outcome": outcome, "word": _clean_text(message)}
            for number, outcome, message in outcomes
        ]
        reply = self._call_with_retry("POST", f"{self._path}outcomes/", {"lines": rows})
        if reply.status in (400, 409):
            raise OutcomeRejected(
                plain(reply.message, MAX_MESSAGE_CHARS), is_whole_plan=reply.status == 409
            )
        if reply.status != 200 or not isinstance(reply.body, dict) or "changed" not in reply.body:
            raise PlanServerError(_error_text(self.url, reply))

    def _call_with_retry(
        self, method: str, path: str, body: Optional[Mapping[str, Any]]
    ) -> Response:
        reason = ""
        for attempt in range(1, MAX_TRIES + 1):
            wait_s = full_jitter(attempt)
            try:
                reply = self._transport.call(method, path, body)
            except ServerUnavailable as error:
                reason = plain(error, MAX_MESSAGE_CHARS)
            else:
                if reply.status not in _RETRY_STATUSES:
                    return reply
                reason = (
                    f"{self.url} returned {reply.status}: {plain(reply.message, MAX_MESSAGE_CHARS)}"
                )
                wait_s = max(wait_s, min(reply.retry_after_s or 0, MAX_RETRY_AFTER_S))
            if attempt < MAX_TRIES:
                self._notify(f"{reason}; retrying in {wait_s:.0f} s")
                self._sleep(wait_s)
        raise PlanServerError(reason)


def _error_text(url: str, reply: Response) -> str:
    message = plain(reply.message, MAX_MESSAGE_CHARS)
    if 300 <= reply.status < 400:
        target = plain(reply.location, 200)
        return (
            f"{url} redirects to {target}; redirects are not followed: set LABCARBON_URL to the "
            "correct address"
        )
    if reply.status in (401, 403):
        return (
            f"{url} denied access ({message}); log in as a person with write access: "
            f"labcarbon-collect login {url}"
        )
    return f"{url} returned {reply.status}: {message}"


def _parse_plan(payload: Dict[str, Any], plan_id: str) -> CleanupPlan:
    items = [_parse_item(row) for row in payload["lines"]]
    for field in ("number", "path"):
        if len({getattr(item, field) for item in items}) != len(items):
            raise ValueError(f"two items have the same {field}")
    plan = CleanupPlan(
        uuid=_parse_text(payload["plan"]).lower(),
        lab=_parse_text(payload["lab"]),
        node=_parse_text(payload["node"]).lower(),
        hostname=_parse_text(payload["hostname"]),
        state=_parse_text(payload["state"], among=_STATES),
        trash_days=_parse_int(payload["trash_days"], 1),
        approved_by=_parse_text(payload["approved_by"] or ""),
        approved_at=_parse_text(payload["approved_at"] or ""),
        items=items,
    )
    if plan.uuid != plan_id:
        raise ValueError("the response is another plan")
    return plan


def _parse_item(payload: Dict[str, Any]) -> CleanupItem:
    is_eligible, blocked_reason = payload["goes"], _parse_text(payload["stays"])
    if not isinstance(is_eligible, bool) or is_eligible == bool(blocked_reason):
        raise ValueError("an item is neither eligible nor blocked")
    digest = _parse_text(payload["digest"])
    if len(digest) != 64 or any(character not in "0123456789abcdef" for character in digest):
        raise ValueError("a digest is not a SHA-256")
    return CleanupItem(
        number=_parse_int(payload["line"], 1),
        path=_parse_text(payload["path"]),
        digest=digest,
        form=_parse_text(payload["form"], among=("file", "folder")),
        bytes=_parse_int(payload["bytes"], 0),
        files=_parse_int(payload["files"], 0),
        name=_parse_text(payload["name"]),
        retention_class=_parse_text(payload["kept"]),
        blocked_reason=blocked_reason,
        outcome=_parse_text(payload["outcome"], among=_OUTCOMES),
    )


def _parse_text(value: Any, among: Sequence[str] = ()) -> str:
    if not isinstance(value, str) or (among and value not in among):
        raise ValueError(f"{value!r:.60} is an unknown value")
    return value


def _parse_int(value: Any, minimum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(f"{value!r:.60} is not a number >= {minimum}")
    return value


def _origin(url: str) -> Tuple[str, Optional[str], Optional[int]]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _clean_text(text: str) -> str:
    """Replace lone surrogates, which come from names that are not UTF-8 and which the server
    rejects.
    """
    return text.encode("utf-8", "replace").decode("utf-8")[:MAX_MESSAGE_CHARS]
