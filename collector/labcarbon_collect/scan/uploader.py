"""Uploads artifacts to a server during the scan, in a thread of its own. Sends only changes."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Deque, Dict, Iterator, List, Optional, Tuple

from labcarbon_collect.api.bulk_uploader import MAX_ROWS, BulkUploader, UploadError, UploadOutcome
from labcarbon_collect.pseudonyms import DROPPED, UserNames, user_name_of
from labcarbon_collect.scan.database import FOLDER
from labcarbon_collect.scan.description import printable
from labcarbon_collect.scan.hashed_files import Entry
from labcarbon_collect.scan.queries import PendingArtifact, ScanQueries
from labcarbon_collect.scan.shared_bytes import SpaceChange, mark_space_uploaded, space_changes

_MAX_QUEUED, _MAX_REQUEST_BYTES, _MAX_COPY_CHANGES = 4000, 4 << 20, 5000
_UPLOAD_INTERVAL_S = 10.0
_MAX_NAME_CHARS, _MAX_USER_CHARS = 255, 100
Row = Tuple[PendingArtifact, Dict[str, Any]]
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Uploader:
    """Uploads of one scan to one server."""

    def __init__(
        self,
        queries: ScanQueries,
        uploads: BulkUploader,
        copy_uploads: BulkUploader,
        space_uploads: BulkUploader,
        *,
        server: str,
        project: str,
        names: UserNames,
    ) -> None:
        """``uploads``: to artifacts/. ``copy_uploads``: to artifacts/copies/. ``space_uploads``:
        to artifacts/copies/space/. ``server``: key of the stored uploads. ``names``: how users are
        named.
        """
        self._queries, self._uploads, self._copy_uploads, self._project = (
            queries,
            uploads,
            copy_uploads,
            project,
        )
        self._space_uploads = space_uploads
        self._server, self._names = queries.server_id(server), names
        self._users: Dict[int, Dict[str, Any]] = {}
        self._queue: Deque[Row] = deque()
        self._note_count = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tell")
        self._in_flight: Optional[Tuple[List[Row], Future[List[str]]]] = None
        self._sent_s = time.monotonic()
        self._refused: set[Tuple[int, bytes]] = set()
        self.copy_changes_sent = 0
        self.error: Optional[UploadError] = None

    @property
    def outcome(self) -> UploadOutcome:
        """The server's results so far."""
        return self._uploads.outcome

    def resend_all(self) -> None:
        """Forget earlier uploads, so that everything is sent again."""
        self._queries.forget_uploads(self._server)

    def add(self, parent_path: bytes, entry: Entry) -> None:
        """Queue a new or changed artifact. Artifacts beyond the queue's limit are sent at the
        end.
        """
        if len(self._queue) < _MAX_QUEUED and self.error is None:
            self._queue.append(self._row(_pending_artifact(parent_path, entry)))

    def poll(self) -> None:
        """Collect results and send queued artifacts. Raises UploadError if the server rejects
        them.
        """
        if self._in_flight is not None and self._in_flight[1].done():
            self._collect()
        due = len(self._queue) >= MAX_ROWS or time.monotonic() - self._sent_s > _UPLOAD_INTERVAL_S
        if self._in_flight is None and self._queue and due and self.error is None:
            self._send(self._next_request())

    def finish(self) -> None:
        """Send everything that is pending. Raises UploadError."""
        if self._in_flight is not None:
            self._collect()
        self._queue.clear()
        self.error = None
        position = (-1, b"")
        while True:
            rows = self._queries.pending(self._server, self._project, position, MAX_ROWS)
            if not rows:
                break
            position = (rows[-1].folder, rows[-1].name)
            self._queue.extend(
                self._row(row) for row in rows if (row.folder, row.name) not in self._refused
            )
            while self._queue:
                self._send(self._next_request())
                self._collect()
                if self.error is not None:
                    raise self.error
        self._upload_copy_changes()
        self._upload_spaces()

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _upload_copy_changes(self) -> None:
        while True:
            changes = _limit_request(
                self._queries.copy_changes(self._server, _MAX_COPY_CHANGES), _MAX_REQUEST_BYTES
            )
            if not changes:
                return
            copies = [
                {"path": path.decode("utf-8", "replace"), "state": state} for path, state in changes
            ]
            self._copy_uploads.post({"copies": copies})
            self.copy_changes_sent += len(copies)
            self._queries.clear_copy_changes(self._server, [path for path, _ in changes])

    def _upload_spaces(self) -> None:
        """Upload the space of copies that share files, also of folders scanned earlier. A server
        of an earlier version counts each copy in full.
        """
        database = self._queries.database
        for changes in _requests(space_changes(database, self._server)):
            try:
                self._space_uploads.post({"copies": [change.row for change in changes]})
            except UploadError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    return
                raise
            mark_space_uploaded(database, self._server, changes)

    def _send(self, rows: List[Row]) -> None:
        self._sent_s = time.monotonic()
        named = [(printable(_artifact_path(artifact)), row) for artifact, row in rows]
        self._in_flight = (rows, self._thread.submit(self._uploads.send, named))

    def _collect(self) -> None:
        if self._in_flight is None:
            return
        (rows, future), self._in_flight = self._in_flight, None
        try:
            results = future.result()
        except UploadError as error:
            self.error = error
            if error.is_rejected:
                raise
            return
        # A note says that the project is unknown. The artifact is sent again in case that was
        # corrected.
        note_count, self._note_count = self._note_count, sum(self.outcome.notes.values())
        project = self._project if note_count == self._note_count else ""
        uploaded = []
        for (artifact, _), result in zip(rows, results):
            if result == "refused":
                self._refused.add((artifact.folder, artifact.name))
            else:
                uploaded.append((artifact, project))
        self._queries.mark_uploaded(self._server, uploaded)

    def _next_request(self) -> List[Row]:
        """Return the rows of the next request."""
        rows: List[Row] = []
        size = 0
        while self._queue and len(rows) < MAX_ROWS and size < _MAX_REQUEST_BYTES:
            row = self._queue.popleft()
            size += _estimate_bytes(row[0])
            rows.append(row)
        return rows

    def _row(self, artifact: PendingArtifact) -> Row:
        return artifact, {
            **artifact_payload(artifact, self._project),
            **self._owner_fields(artifact.owner),
        }

    def _owner_fields(self, owner: Optional[int]) -> Dict[str, Any]:
        """Return the owner's name for the server, and whether the owner runs the scan."""
        if owner is None:
            return {}
        if owner not in self._users:
            name = self._names.public_name(user_name_of(owner))[:_MAX_USER_CHARS]
            own_fields = {"own": True} if _is_own_file(owner) else {}
            self._users[owner] = own_fields if name == DROPPED else {"user": name, **own_fields}
        return self._users[owner]


def _limit_request(changes: List[Tuple[bytes, str]], max_bytes: int) -> List[Tuple[bytes, str]]:
    """Return the leading changes that fit into one request. In JSON a path of control characters is
    six times as long.
    """
    size = 0
    for count, (path, _) in enumerate(changes):
        size += 50 + len(json.dumps(path.decode("utf-8", "replace")))
        if size > max_bytes and count:
            return changes[:count]
    return changes


def _requests(changes: List[SpaceChange]) -> Iterator[List[SpaceChange]]:
    """Divide changes into requests."""
    request: List[SpaceChange] = []
    size = 0
    for change in changes:
        size += len(json.dumps(change.row))
        if request and (size > _MAX_REQUEST_BYTES or len(request) == MAX_ROWS):
            yield request
            request, size = [], 0
        request.append(change)
    if request:
        yield request


def artifact_payload(artifact: PendingArtifact, project: str) -> Dict[str, Any]:
    """Return an artifact with its copy as the server expects it (docs/artifacts.md)."""
    copy = {
        "path": _artifact_path(artifact).decode("utf-8"),
        "medium": artifact.medium,
        "modified_at": format_time(artifact.mtime_ns),
    }
    name = artifact.name.decode("utf-8")[:_MAX_NAME_CHARS]
    return {
        "digest": artifact.digest.hex(),
        "name": name,
        "bytes": artifact.size,
        "form": "folder" if artifact.what == FOLDER else "file",
        "files": artifact.files,
        **_parse_description(artifact.about),
        **({"project": project} if project else {}),
        "copies": [{key: value for key, value in copy.items() if value is not None}],
    }


@lru_cache(maxsize=256)
def _parse_description(text: str) -> Dict[str, Any]:
    """Parse the stored description. Cached, as most are equal; callers must not modify it."""
    description: Dict[str, Any] = json.loads(text)
    return description


def format_time(mtime_ns: int) -> Optional[str]:
    """Return an mtime as ISO 8601. None outside of the years 1 to 9999."""
    seconds, ns = divmod(mtime_ns, 1_000_000_000)
    try:
        return f"{_format_second(seconds)}.{ns // 1000:06}+00:00"
    except OverflowError:
        return None


@lru_cache(maxsize=1024)
def _format_second(seconds: int) -> str:
    """Return a second of UTC. Cached, as files are often written within one second. Raises
    OverflowError.
    """
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()


def _is_own_file(owner: int) -> bool:
    """Return whether the user who scans owns a file. Files of root belong to nobody."""
    return owner == os.getuid() != 0


def _estimate_bytes(artifact: PendingArtifact) -> int:
    """Return the approximate size as JSON."""
    return 300 + 2 * (len(artifact.path) + len(artifact.name)) + len(artifact.about)


def _artifact_path(artifact: PendingArtifact) -> bytes:
    return artifact.path + b"/" + artifact.name


def _pending_artifact(parent_path: bytes, entry: Entry) -> PendingArtifact:
    return PendingArtifact(
        entry.folder,
        entry.name,
        parent_path,
        entry.what,
        entry.size,
        entry.files,
        entry.mtime_ns,
        entry.digest or b"",
        entry.about or "{}",
        entry.medium or "unknown",
        entry.owner,
    )
