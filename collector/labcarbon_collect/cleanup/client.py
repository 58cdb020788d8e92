"""The plan as the server tells it now, and telling the server what became of its lines."""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from labcarbon_collect.api.backoff import full_jitter
from labcarbon_collect.api.transport import MAX_RETRY_AFTER_S, Response, ServerUnavailable, Transport
from labcarbon_collect.config import is_uuid
from labcarbon_collect.runs.preflight_text import plain

MAX_ROWS, MAX_TRIES, MAX_WORD = 1000, 5, 300
REPLY_BYTES = 256 << 20  # a plan is one answer, about 500 bytes for each line
_PASSING = (429, 500, 502, 503, 504)
_STATES = ("draft", "told", "approved", "applied", "withdrawn")
_OUTCOMES = ("", "trashed", "refused", "restored", "deleted")
Row = Tuple[int, str, str]  # line, outcome, word


class NotAnswered(Exception):
    """The server cannot be asked or told; the text says why."""


class NotTaken(Exception):
    """The server refuses what it was told; the text says why. ``whole``: not for a line's sake, but for the plan's."""

    def __init__(self, why: str, *, whole: bool) -> None:
        super().__init__(why)
        self.whole = whole


@dataclass
class Line:
    """A line of a plan, as the server tells it. ``stays``: why it may not go, empty where it may."""

    number: int
    path: str
    digest: str
    form: str
    bytes: int
    files: int
    name: str
    kept: str
    stays: str
    outcome: str


@dataclass
class Plan:
    """A plan as it was when it was asked."""

    uuid: str
    lab: str
    node: str
    hostname: str
    state: str
    trash_days: int
    approved_by: str
    approved_at: str
    lines: List[Line]

    def __post_init__(self) -> None:
        self._by_number = {line.number: line for line in self.lines}
        self._by_path = {line.path: line for line in self.lines}
        self._paths = sorted(self._by_path)

    def line(self, number: int) -> Optional[Line]:
        """The line with a number."""
        return self._by_number.get(number)

    def inside(self, path: str) -> Iterator[Line]:
        """The lines of what lies in a folder."""
        within = path + "/"
        for number in range(bisect_left(self._paths, within), len(self._paths)):
            if not self._paths[number].startswith(within):
                return
            yield self._by_path[self._paths[number]]

    def around(self, path: str) -> Iterator[Line]:
        """The lines of the folders that a path lies in."""
        parts = path.split("/")
        for end in range(1, len(parts)):
            if "/".join(parts[:end]) in self._by_path:
                yield self._by_path["/".join(parts[:end])]


def plan_named(text: str, url: str) -> str:
    """The UUID in a plan's number or in the address of its page on this server. Raises ValueError."""
    if is_uuid(text):
        return text.lower()
    if "://" in text and _origin(text) != _origin(url):
        raise ValueError(f"{plain(text, 200)} is on another server than {url}, where you are logged in")
    found = [part for part in urlsplit(text).path.split("/") if is_uuid(part)]
    if len(found) != 1:
        raise ValueError(f"{plain(text, 200)!r} is no plan: give its number (a UUID), or the address of its page")
    return found[0].lower()


class PlanServer:
    """Asks for one plan and tells of it: patient with a server that is busy or away for a moment."""

    def __init__(
        self, transport: Transport, plan: str, *, say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._transport, self._say, self._sleep = transport, say, sleep
        self._plan, self._path = plan, f"artifacts/plans/{plan}/"
        self.url = transport.url

    @property
    def page(self) -> str:
        """The address of the plan's page."""
        return f"{self.url}/artifacts/plans/{self._plan}/"

    def ask(self) -> Plan:
        """The plan as it is now. Raises NotAnswered."""
        reply = self._patiently("GET", self._path, None)
        if reply.status != 200:
            raise NotAnswered(_refusal(self.url, reply))
        try:
            return _plan(reply.body, self._plan)
        except (KeyError, TypeError, ValueError) as error:
            raise NotAnswered(f"{self.url} answered what is no plan ({plain(error, 200)}): nothing more is done") from error

    def tell(self, rows: Sequence[Row]) -> None:
        """Tell what became of lines, at most MAX_ROWS. Raises NotAnswered, and NotTaken where it refuses one of them."""
        lines = [{"line": line, "outcome": outcome, "word": _storable(word)} for line, outcome, word in rows]
        reply = self._patiently("POST", f"{self._path}outcomes/", {"lines": lines})
        if reply.status in (400, 409):
            raise NotTaken(plain(reply.message, MAX_WORD), whole=reply.status == 409)
        if reply.status != 200 or not isinstance(reply.body, dict) or "changed" not in reply.body:
            raise NotAnswered(_refusal(self.url, reply))

    def _patiently(self, method: str, path: str, body: Optional[Mapping[str, Any]]) -> Response:
        why = ""
        for failures in range(1, MAX_TRIES + 1):
            wait_s = full_jitter(failures)
            try:
                reply = self._transport.call(method, path, body)
            except ServerUnavailable as error:
                why = plain(error, MAX_WORD)
            else:
                if reply.status not in _PASSING:
                    return reply
                why = f"{self.url} answered {reply.status}: {plain(reply.message, MAX_WORD)}"
                wait_s = max(wait_s, min(reply.retry_after_s or 0, MAX_RETRY_AFTER_S))
            if failures < MAX_TRIES:
                self._say(f"{why}; again in {wait_s:.0f} s")
                self._sleep(wait_s)
        raise NotAnswered(why)


def _refusal(url: str, reply: Response) -> str:
    said = plain(reply.message, MAX_WORD)
    if 300 <= reply.status < 400:
        return f"{url} redirects to {plain(reply.location, 200)}; we do not follow: set LABCARBON_URL to the right address"
    if reply.status in (401, 403):
        return f"{url} refuses ({said}); a person who may write runs is needed: labcarbon-collect login {url}"
    return f"{url} answered {reply.status}: {said}"


def _plan(told: Dict[str, Any], asked: str) -> Plan:
    lines = [_line(each) for each in told["lines"]]
    for what in ("number", "path"):
        if len({getattr(line, what) for line in lines}) != len(lines):
            raise ValueError(f"two lines have one {what}")
    found = Plan(
        uuid=_text(told["plan"]).lower(), lab=_text(told["lab"]), node=_text(told["node"]).lower(),
        hostname=_text(told["hostname"]), state=_text(told["state"], among=_STATES),
        trash_days=_whole(told["trash_days"], 1), approved_by=_text(told["approved_by"] or ""),
        approved_at=_text(told["approved_at"] or ""), lines=lines,
    )  # fmt: skip
    if found.uuid != asked:
        raise ValueError("it is another plan")
    return found


def _line(told: Dict[str, Any]) -> Line:
    goes, stays = told["goes"], _text(told["stays"])
    if not isinstance(goes, bool) or goes == bool(stays):
        raise ValueError("a line neither goes nor stays")
    digest = _text(told["digest"])
    if len(digest) != 64 or any(letter not in "0123456789abcdef" for letter in digest):
        raise ValueError("a digest is no SHA-256")
    return Line(
        number=_whole(told["line"], 1), path=_text(told["path"]), digest=digest,
        form=_text(told["form"], among=("file", "folder")), bytes=_whole(told["bytes"], 0), files=_whole(told["files"], 0),
        name=_text(told["name"]), kept=_text(told["kept"]), stays=stays,
        outcome=_text(told["outcome"], among=_OUTCOMES),
    )  # fmt: skip


def _text(value: Any, among: Sequence[str] = ()) -> str:
    if not isinstance(value, str) or (among and value not in among):
        raise ValueError(f"{value!r:.60} is not what we know")
    return value


def _whole(value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{value!r:.60} is no number from {least}")
    return value


def _origin(url: str) -> Tuple[str, Optional[str], Optional[int]]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _storable(word: str) -> str:
    """A name that is no UTF-8 comes as lone surrogates, which no server takes."""
    return word.encode("utf-8", "replace").decode("utf-8")[:MAX_WORD]
