"""Registers the artifacts of a run with the server, directly or through the daemon."""

from __future__ import annotations

import json
import time
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from labcarbon_collect.api.bulk_uploader import MAX_ROWS, BulkUploader, UploadError
from labcarbon_collect.api.transport import ServerUnavailable, Transport
from labcarbon_collect.config import client_sockets
from labcarbon_collect.ipc.client import Client, DaemonUnavailable, response_error
from labcarbon_collect.lineage.artifact_reader import DeclarationError
from labcarbon_collect.lineage.messages import MAX_DAEMON_ROWS, title
from labcarbon_collect.startup_timeout import STARTUP_TIMEOUT_S

# Note for a row with an unknown run (docs/artifacts.md): the artifact is stored without its edge.
_UNKNOWN_RUN_NOTE = "There is no run "
_RETRY_STATUSES = (429, 500, 502, 503, 504)


class ServerReporter:
    """Registers artifacts of one run with the server. ``error``: why the server does not have
    them.
    """

    can_retry = True  # the server may respond later

    def __init__(
        self,
        transport: Transport,
        run: str,
        node: str,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport, self._run, self._node, self._now, self._sleep = (
            transport,
            run,
            node,
            now,
            sleep,
        )
        self._waiting: List[Dict[str, Any]] = []
        self._named: List[Mapping[str, Any]] = []
        self._deadline_s = 0.0
        self.sent_count, self.error = 0, ""
        self.failed: List[Tuple[str, str]] = []
        self.notes: List[str] = []

    @property
    def pending_count(self) -> int:
        """Number of artifacts not reported yet."""
        return len(self._waiting) + len(self._named)

    def add(self, row: Dict[str, Any]) -> None:
        """Queue an artifact."""
        self._waiting.append(row)

    def add_named(self, artifact: Mapping[str, Any]) -> None:
        """Queue an artifact that is declared by digest only."""
        self._named.append(artifact)

    def _resolve_named(self) -> bool:
        """Look up artifacts declared by digest. Returns whether the server responded."""
        while self._named:
            artifact = self._named[0]
            try:
                self.add(self._fetch_artifact(artifact))
            except DeclarationError as why:
                self.failed.append((title(artifact), str(why)))
            except UploadError as error:
                self.error = str(error)
                return False
            del self._named[0]
        return True

    def _fetch_artifact(self, artifact: Mapping[str, Any]) -> Dict[str, Any]:
        """Fetch an artifact from the server. Raises DeclarationError, and UploadError if a retry
        may succeed.
        """
        try:
            reply = self._transport.call("GET", f"artifacts/{artifact['digest']}/")
        except ServerUnavailable as error:
            raise UploadError(str(error)) from error
        if reply.status == 404:
            raise DeclarationError("the server has no artifact with this digest")
        if reply.status != 200 or not isinstance(reply.body, dict):
            why = f"{self._transport.url} returned {reply.status}: {reply.message}"
            if reply.status in _RETRY_STATUSES:
                raise UploadError(why)
            raise DeclarationError(why)
        try:
            row = {key: reply.body[key] for key in ("digest", "name", "bytes", "form", "files")}
        except KeyError as error:
            raise DeclarationError(f"{self._transport.url} is not a LabCarbon server") from error
        return {**row, "runs": [{"run": self._run, "role": artifact["role"]}]}

    def send(self, timeout_s: float) -> bool:
        """Send pending artifacts. Returns whether none is left. Failed ones stay pending if a retry
        may succeed.
        """
        self._deadline_s = self._now() + timeout_s
        if not self._resolve_named():
            return False
        while self._waiting:
            rows = self._waiting[:MAX_ROWS]
            try:
                is_known = self._send(rows)
            except UploadError as error:
                if not error.is_rejected:
                    self.error = str(error)
                    return False
                self._fail_rows(rows, str(error))
                is_known = True
            if not is_known:
                self.error = "the server does not have this run"
                return False
            del self._waiting[: len(rows)]
        return True

    def give_up(self) -> None:
        """Mark all pending artifacts as failed."""
        self._fail_rows([*self._waiting, *self._named], self.error)
        self._waiting, self._named = [], []

    def _send(self, rows: List[Dict[str, Any]]) -> bool:
        """Send rows. Returns whether the server knows their run. Raises UploadError."""
        try:
            return self._upload(rows, self._node)
        except UploadError as error:
            if not (error.is_rejected and self._node):
                raise
            # The lab may not have this node. Then the paths cannot be assigned.
            self.notes.append(f"paths not recorded: {error}")
            self._node = ""
            return self._upload(rows, "")

    def _upload(self, rows: List[Dict[str, Any]], node: str) -> bool:
        common_fields = {"node": node} if node else {}
        uploader = BulkUploader(
            self._transport,
            "artifacts/",
            key="artifacts",
            common_fields=common_fields,
            notify=_ignore_message,
            sleep=self._wait,
        )
        uploaded_rows = (
            rows
            if node
            else [{key: value for key, value in row.items() if key != "copies"} for row in rows]
        )
        results = uploader.send([(title(row), row) for row in uploaded_rows])
        if any(note.startswith(_UNKNOWN_RUN_NOTE) for note in uploader.outcome.notes):
            return False
        self.sent_count += sum(result != "refused" for result in results)
        self.failed += uploader.outcome.errors
        return True

    def _fail_rows(self, rows: Sequence[Mapping[str, Any]], why: str) -> None:
        self.failed += [(title(row), why) for row in rows]

    def _wait(self, delay_s: float) -> None:
        if self._now() + delay_s > self._deadline_s:
            raise UploadError(f"{self._transport.url} does not respond")
        self._sleep(delay_s)


def _ignore_message(text: str) -> None:
    """Ignore messages about retries: the user did not start this process."""


_MOST_BYTES = 40 * 1024  # per request; the daemon accepts lines of up to 64 KiB


class DaemonReporter:
    """Forwards artifacts of one run through the daemon. Same interface as ServerReporter."""

    can_retry = False  # a daemon responds immediately or is not running

    def __init__(self, run: str, environ: Mapping[str, str]) -> None:
        self._run, self._environ = run, environ
        self._waiting: List[Dict[str, Any]] = []
        self.sent_count, self.error = 0, ""
        self.failed: List[Tuple[str, str]] = []
        self.notes: List[str] = []

    @property
    def pending_count(self) -> int:
        """Number of artifacts not reported yet."""
        return len(self._waiting)

    def add(self, row: Dict[str, Any]) -> None:
        """Queue an artifact."""
        self._waiting.append(row)

    def add_named(self, artifact: Mapping[str, Any]) -> None:
        """Refuse an artifact declared by digest: a node token cannot query the server."""
        self.failed.append(
            (title(artifact), "a digest needs a personal login: labcarbon-collect login URL")
        )

    def send(self, timeout_s: float) -> bool:
        """Send pending artifacts. Returns whether none is left."""
        while self._waiting:
            rows = _next_request(self._waiting)
            try:
                answer = self._call_daemon(rows, max(STARTUP_TIMEOUT_S, timeout_s))
            except DaemonUnavailable as error:
                self.error = f"you are not logged in, and {error}"
                return False
            problem = response_error(answer)
            if problem is None and answer.get("artifacts") != len(rows):
                problem = "the local daemon is an older version: restart it"
            if problem is None:
                self.sent_count += len(rows)
            else:
                self.failed += [(title(row), problem) for row in rows]
            del self._waiting[: len(rows)]
        return True

    def give_up(self) -> None:
        """Mark all pending artifacts as failed."""
        self.failed += [(title(row), self.error) for row in self._waiting]
        self._waiting = []

    def _call_daemon(self, rows: Sequence[Mapping[str, Any]], timeout_s: float) -> Dict[str, Any]:
        client = Client(client_sockets(self._environ), timeout_s=STARTUP_TIMEOUT_S)
        try:
            artifact = [
                {key: value for key, value in row.items() if key != "copies"} for row in rows
            ]
            return client.call(
                {"op": "tell", "run": self._run, "artifacts": artifact}, timeout_s=timeout_s
            )
        finally:
            client.close()


def _next_request(rows: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Return the rows of the next request: at least one."""
    count, size = 0, 0
    for row in rows[:MAX_DAEMON_ROWS]:
        size += len(json.dumps(row))
        if count and size > _MOST_BYTES:
            break
        count += 1
    return rows[:count]
