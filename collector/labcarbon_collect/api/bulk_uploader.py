"""Bulk upload of rows: retries with a busy server, and counts the result of every row."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.api.backoff import full_jitter
from labcarbon_collect.api.transport import MAX_RETRY_AFTER_S, ServerUnavailable, Transport

MAX_ROWS = 1000
MAX_ATTEMPTS = 8
MAX_STORED_ERRORS = 1000
RESULTS = ("created", "changed", "unchanged", "refused")


MAX_STORED_NOTES = 20


class UploadError(Exception):
    """The server did not accept a batch. The text has the reason. Earlier batches are stored.

    ``is_rejected``: the server rejected the request, so a retry is useless. Else it was unavailable
    or busy for too long. ``status``: of its response, 0 without one.
    """

    def __init__(self, message: str, *, is_rejected: bool = False, status: int = 0) -> None:
        super().__init__(message)
        self.is_rejected, self.status = is_rejected, status


@dataclass
class UploadOutcome:
    """Results of the rows so far."""

    counts: Dict[str, int] = field(default_factory=lambda: dict.fromkeys(RESULTS, 0))
    errors: List[Tuple[str, str]] = field(default_factory=list)  # (source, reason)
    notes: Dict[str, int] = field(default_factory=dict)  # remark on stored rows → number of rows

    @property
    def rows(self) -> int:
        return sum(self.counts.values())

    def add_error(self, source: str, reason: str) -> None:
        """Count a row that is not stored."""
        self.counts["refused"] += 1
        if len(self.errors) < MAX_STORED_ERRORS:
            self.errors.append((source, reason))

    def add_note(self, text: str) -> None:
        """Count a remark on a stored row."""
        if text in self.notes or len(self.notes) < MAX_STORED_NOTES:
            self.notes[text] = self.notes.get(text, 0) + 1


class BulkUploader:
    """Sends batches to one endpoint that responds ``{"results": [[result, reason?], …]}`` row by
    row.

    The rows are sent as ``key``, with ``common_fields`` (such as the node) in each request.
    """

    def __init__(
        self,
        transport: Transport,
        path: str,
        *,
        notify: Callable[[str], None],
        key: str = "runs",
        common_fields: Optional[Mapping[str, Any]] = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport, self._path, self._notify, self._sleep = transport, path, notify, sleep
        self._key, self._common_fields = key, dict(common_fields or {})
        self.outcome = UploadOutcome()

    def send(self, rows: Sequence[Tuple[str, Mapping[str, Any]]]) -> List[str]:
        """Send (source, row) pairs and return the result of each. Raises UploadError."""
        if not rows:
            return []
        results = self._post_rows({**self._common_fields, self._key: [row for _, row in rows]})
        if len(results) != len(rows):
            raise UploadError(
                f"{self._transport.url} returned {len(results)} results for {len(rows)} rows"
            )
        return [self._count_row(source, result) for (source, _), result in zip(rows, results)]

    def post(self, body: Mapping[str, Any]) -> Dict[str, Any]:
        """Send a request without row results and return the response. Raises UploadError."""
        return self._post({**self._common_fields, **body}, bool)

    def _count_row(self, source: str, row_result: Any) -> str:
        parts = (
            [str(part) for part in row_result]
            if isinstance(row_result, list) and row_result
            else [""]
        )
        result = parts[0]
        if result == "refused" or result not in RESULTS:
            self.outcome.add_error(
                source, parts[1] if len(parts) > 1 else f"unknown result: {row_result!r:.100}"
            )
            return "refused"
        self.outcome.counts[result] += 1
        for part in parts[1:]:
            self.outcome.add_note(part)
        return result

    def _post_rows(self, body: Dict[str, Any]) -> List[Any]:
        payload = self._post(body, lambda payload: isinstance(payload.get("results"), list))
        return list(payload["results"])

    def _post(
        self, body: Dict[str, Any], is_valid: Callable[[Dict[str, Any]], bool]
    ) -> Dict[str, Any]:
        reason = ""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            wait_s = full_jitter(attempt)
            try:
                reply = self._transport.call("POST", self._path, body)
            except ServerUnavailable as error:
                reason = str(error)
            else:
                if reply.status == 200 and isinstance(reply.body, dict) and is_valid(reply.body):
                    return reply.body
                reason = f"{self._transport.url} responded {reply.status}: {reply.message}"
                if reply.status not in (429, 500, 502, 503, 504):
                    raise UploadError(reason, is_rejected=True, status=reply.status)
                if reply.retry_after_s is not None:
                    wait_s = max(wait_s, min(reply.retry_after_s, MAX_RETRY_AFTER_S))
            if attempt < MAX_ATTEMPTS:
                self._notify(f"{reason}; next attempt in {wait_s:.0f} s")
                self._sleep(wait_s)
        raise UploadError(reason)
