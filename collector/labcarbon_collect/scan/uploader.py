"""Tells a server of artifacts: in a thread of its own, while hashing goes on; only news."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, Deque, Dict, List, Optional, Tuple

from labcarbon_collect.api.bulk_uploader import MAX_ROWS, BulkUploader, UploadError, UploadOutcome
from labcarbon_collect.pseudonyms import DROPPED, UserNames, name_of
from labcarbon_collect.scan.database import FOLDER
from labcarbon_collect.scan.description import shown
from labcarbon_collect.scan.queries import Asked, Untold
from labcarbon_collect.scan.state import Entry

_MOST_KEPT, _MOST_BYTES, _MOST_NEWS = 4000, 4 << 20, 5000
_TELL_EVERY_S = 10.0
_LONGEST_NAME, _LONGEST_USER = 255, 100
Row = Tuple[Untold, Dict[str, Any]]
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Teller:
    """What one scan tells one server."""

    def __init__(
        self, asked: Asked, push: BulkUploader, news: BulkUploader, *, server: str, project: str, names: UserNames
    ) -> None:
        """``push`` to artifacts/, ``news`` to artifacts/copies/; ``server``: under which it is remembered what was told;
        ``names``: how people are named."""
        self._asked, self._push, self._news, self._project = asked, push, news, project
        self._server, self._names = asked.server(server), names
        self._users: Dict[int, Dict[str, Any]] = {}
        self._waiting: Deque[Row] = deque()
        self._words = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tell")
        self._sent: Optional[Tuple[List[Row], Future[List[str]]]] = None
        self._last_s = time.monotonic()
        self._refused: set[Tuple[int, bytes]] = set()
        self.told_gone = 0
        self.ended: Optional[UploadError] = None

    @property
    def outcome(self) -> UploadOutcome:
        """What the server answered so far."""
        return self._push.outcome

    def forget(self) -> None:
        """Tell everything again."""
        self._asked.forget_told(self._server)

    def found(self, above: bytes, entry: Entry) -> None:
        """Note an artifact that is news. What is too much to note is told at the end."""
        if len(self._waiting) < _MOST_KEPT and self.ended is None:
            self._waiting.append(self._row(_untold(above, entry)))

    def poll(self) -> None:
        """Take answers, and send what has come together. Raises PushEnded where the server says no."""
        if self._sent is not None and self._sent[1].done():
            self._take()
        due = len(self._waiting) >= MAX_ROWS or time.monotonic() - self._last_s > _TELL_EVERY_S
        if self._sent is None and self._waiting and due and self.ended is None:
            self._send(self._some())

    def finish(self) -> None:
        """Tell all that is not told. Raises PushEnded."""
        if self._sent is not None:
            self._take()
        self._waiting.clear()
        self.ended = None
        after = (-1, b"")
        while True:
            rows = self._asked.untold(self._server, self._project, after, MAX_ROWS)
            if not rows:
                break
            after = (rows[-1].folder, rows[-1].name)
            self._waiting.extend(self._row(row) for row in rows if (row.folder, row.name) not in self._refused)
            while self._waiting:
                self._send(self._some())
                self._take()
                if self.ended is not None:
                    raise self.ended
        self._tell_news()

    def close(self) -> None:
        """Have the thread end."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _tell_news(self) -> None:
        while True:
            news = _within(self._asked.news(self._server, _MOST_NEWS), _MOST_BYTES)
            if not news:
                return
            copies = [{"path": path.decode("utf-8", "replace"), "state": state} for path, state in news]
            self._news.post({"copies": copies})
            self.told_gone += len(copies)
            self._asked.note_news(self._server, [path for path, _ in news])

    def _send(self, rows: List[Row]) -> None:
        self._last_s = time.monotonic()
        named = [(shown(_path(untold)), row) for untold, row in rows]
        self._sent = (rows, self._thread.submit(self._push.send, named))

    def _take(self) -> None:
        if self._sent is None:
            return
        (rows, future), self._sent = self._sent, None
        try:
            results = future.result()
        except UploadError as ended:
            self.ended = ended
            if ended.is_rejected:
                raise
            return
        # A word beside an answer says that the project is not known: it is told again once that may have been mended.
        words, self._words = self._words, sum(self.outcome.notes.values())
        project = self._project if words == self._words else ""
        told = []
        for (untold, _), result in zip(rows, results):
            if result == "refused":
                self._refused.add((untold.folder, untold.name))
            else:
                told.append((untold, project))
        self._asked.note_told(self._server, told)

    def _some(self) -> List[Row]:
        """What goes into one request."""
        rows: List[Row] = []
        size = 0
        while self._waiting and len(rows) < MAX_ROWS and size < _MOST_BYTES:
            row = self._waiting.popleft()
            size += _size(row[0])
            rows.append(row)
        return rows

    def _row(self, untold: Untold) -> Row:
        return untold, {**wire(untold, self._project), **self._whose(untold.owner)}

    def _whose(self, owner: Optional[int]) -> Dict[str, Any]:
        """Whose it is: as people are named to the server, and whether they are who tells it."""
        if owner is None:
            return {}
        if owner not in self._users:
            name = self._names.public_name(name_of(owner))[:_LONGEST_USER]
            own = {"own": True} if _is_own(owner) else {}
            self._users[owner] = own if name == DROPPED else {"user": name, **own}
        return self._users[owner]


def _within(news: List[Tuple[bytes, str]], most_bytes: int) -> List[Tuple[bytes, str]]:
    """As much of it from its beginning as one request takes: a path of control characters is six times as long as JSON."""
    size = 0
    for count, (path, _) in enumerate(news):
        size += 50 + len(json.dumps(path.decode("utf-8", "replace")))
        if size > most_bytes and count:
            return news[:count]
    return news


def wire(untold: Untold, project: str) -> Dict[str, Any]:
    """An artifact and where it lies, as the server takes it (docs/artifacts.md)."""
    copy = {"path": _path(untold).decode("utf-8"), "medium": untold.medium, "modified_at": moment(untold.mtime_ns)}
    name = untold.name.decode("utf-8")[:_LONGEST_NAME]
    return {
        "digest": untold.digest.hex(), "name": name, "bytes": untold.size,
        "form": "folder" if untold.what == FOLDER else "file", "files": untold.files, **_about(untold.about),
        **({"project": project} if project else {}),
        "copies": [{key: value for key, value in copy.items() if value is not None}],
    }  # fmt: skip


@lru_cache(maxsize=256)
def _about(told: str) -> Dict[str, Any]:
    """What is told beside the digest: alike for most. It is read only."""
    about: Dict[str, Any] = json.loads(told)
    return about


def moment(mtime_ns: int) -> Optional[str]:
    """A time of change as it is told; None where it lies outside the years that have four digits."""
    seconds, ns = divmod(mtime_ns, 1_000_000_000)
    try:
        return f"{_second(seconds)}.{ns // 1000:06}+00:00"
    except OverflowError:
        return None


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    """A second of UTC: what is written together was often written within one. Raises OverflowError."""
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()


def _is_own(owner: int) -> bool:
    """Whether a file is of who scans. Root's is nobody's own."""
    return owner == os.getuid() != 0


def _size(untold: Untold) -> int:
    """About how long it is as JSON."""
    return 300 + 2 * (len(untold.path) + len(untold.name)) + len(untold.about)


def _path(untold: Untold) -> bytes:
    return untold.path + b"/" + untold.name


def _untold(above: bytes, entry: Entry) -> Untold:
    return Untold(
        entry.folder, entry.name, above, entry.what, entry.size, entry.files, entry.mtime_ns, entry.digest or b"",
        entry.about or "{}", entry.medium or "unknown", entry.owner,
    )  # fmt: skip
