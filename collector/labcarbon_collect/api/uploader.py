"""Upload of the spool to the server in batches, live windows first. A window is deleted only after
its own result.
"""

from __future__ import annotations

import json
import random
import uuid
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Set

from labcarbon_collect.api.backoff import full_jitter
from labcarbon_collect.api.former_fingerprint import call_with_fingerprint
from labcarbon_collect.api.transport import (
    MAX_RETRY_AFTER_S,
    Response,
    ServerUnavailable,
    Transport,
)
from labcarbon_collect.api.wire import (
    InvalidResponse,
    decode_results,
    encode_batch,
    received_times,
    server_time,
)
from labcarbon_collect.clock import Clock
from labcarbon_collect.spool.runs import LINEAGE
from labcarbon_collect.spool.store import MAX_BATCH, Received, Spool

LIVE_INTERVALS = 3
_UNAVAILABLE = (401, 408, 426, 429)  # of the whole server or token, not of one message
NODE_RETIRED = "node_retired"  # error code: the token ended, and the message says what to do
PENDING_DECISION = "pending_decision"  # error code: refused, but stored by the server
WAITING_FOR_APPROVAL = "waiting_for_approval"  # error code: a manager has not decided yet
SKEW_US = 5_000_000


@dataclass(frozen=True)
class UploadState:
    """Result of the last attempt. ``error`` is empty after a success."""

    ok: bool
    at_us: int
    windows: int = 0
    error: str = ""
    wait_s: float = 0.0  # delay before the next attempt
    more: bool = False  # a backlog remains: continue immediately
    skew_us: Optional[int] = (
        None  # this machine's wall clock minus the server's, within the round trip
    )


class Uploader:
    """Uploads the spool of one node in the upload thread."""

    def __init__(
        self,
        spool: Spool,
        transport: Transport,
        *,
        node: str,
        boot: str,
        interval_us: int,
        now: Callable[[], Clock],
        health: Callable[[], Mapping[str, Any]] = dict,
        device_facts: Callable[[], Mapping[str, Mapping[str, str]]] = dict,
        random_unit: Callable[[], float] = random.random,
    ) -> None:
        self._spool, self._transport = spool, transport
        self._node, self._boot, self._interval_us = node, boot, interval_us
        self._now, self._health, self._random_unit = now, health, random_unit
        self._device_facts = device_facts
        self._failures = 0
        self._limit = MAX_BATCH

    def upload_batch(self) -> UploadState:
        """Send one batch and apply the results. Never raises for failures of network or server."""
        clock = self._now()
        live_from_us = clock.wall_us - LIVE_INTERVALS * self._interval_us
        batch = self._spool.begin_batch(live_from_us=live_from_us, limit=self._limit)
        if batch is None:
            return UploadState(ok=True, at_us=clock.wall_us)
        body = encode_batch(
            batch=str(uuid.uuid4()),
            sent_at_us=clock.wall_us,
            node=self._node,
            boot=self._boot,
            monotonic_us=clock.monotonic_us,
            windows=batch.windows,
            gaps=batch.gaps,
            health=self._health_with_spool(),
            device_facts=self._device_facts(),
            boot_clocks=self._spool.boot_clocks(
                {window.epoch for window in batch.windows}, running=self._boot
            ),
            acknowledged_us=batch.acknowledged_us,
        )
        try:
            response = self._transport.call("POST", "ingest/", body)
        except ServerUnavailable as error:
            if not error.sent:
                self._spool.mark_unsent(batch)
            return self._fail(str(error), None)
        if response.status != 200:
            return self._reject(response)
        try:
            results = decode_results(response.body, expected=len(batch.ids))
        except InvalidResponse as error:
            return self._fail(f"{self._transport.url}: {error}; all windows are kept", None)
        times = received_times(response.body)
        self._spool.end_batch(
            batch,
            results,
            now_us=self._now().wall_us,
            received=None if times is None else Received(*times),
        )
        return self._succeed(response, results, clock)

    def _health_with_spool(self) -> Dict[str, Any]:
        depth = self._spool.depth()
        return {
            **self._health(),
            "spool": {
                "rows": depth.rows,
                "bytes": depth.bytes,
                "dead": depth.dead,
                "refused_run_messages": self._spool.runs.refused_messages().count,
            },
        }

    def _succeed(self, response: Response, results: Any, started: Clock) -> UploadState:
        finished = self._now()
        retained = sum(1 for result, _ in results if result == "retry")
        stored = len(results) - retained
        self._failures = 0 if stored else self._failures + 1
        self._limit = min(MAX_BATCH, self._limit * 2)
        server_us = server_time(response.body)
        return UploadState(
            ok=True,
            at_us=finished.wall_us,
            windows=stored,
            error=f"the server requested to send {retained} windows again" if retained else "",
            wait_s=0.0 if stored else self._delay_s(),
            more=bool(stored) and self._spool.depth().rows > retained,
            # The server read its clock in the middle of the round trip.
            skew_us=None
            if server_us is None
            else (started.wall_us + finished.wall_us) // 2 - server_us,
        )

    def _reject(self, response: Response) -> UploadState:
        """Handle an error response for the complete batch. All windows are kept."""
        url = self._transport.url
        if 300 <= response.status < 400:
            reason = (
                f"{url} redirects to {response.location[:200]}. Redirects are not followed: "
                "set LABCARBON_URL to the right URL"
            )
        elif response.error_code in (NODE_RETIRED, WAITING_FOR_APPROVAL):
            reason = f"{url}: {response.message}"
        elif response.status in (401, 403):
            reason = (
                f"{url} rejects this node's token ({response.message}): labcarbon-collect enrol "
                f"{url}"
            )
        elif response.status == 426:
            reason = (
                f"{url} needs a newer collector ({response.message}): pip install --upgrade "
                "labcarbon-collect"
            )
        else:
            reason = f"{url} answered {response.status} ({response.message})"
        if response.status in (400, 413):
            # Nothing was stored. A smaller batch isolates the invalid window, so that it does not
            # block the others.
            self._limit = max(1, self._limit // 2)
        return self._fail(f"{reason.rstrip('.')}; all windows are kept", response.retry_after_s)

    def _fail(self, reason: str, retry_after_s: Optional[int]) -> UploadState:
        self._failures += 1
        wait_s = self._delay_s()
        if retry_after_s is not None:
            wait_s = max(wait_s, min(retry_after_s, MAX_RETRY_AFTER_S))
        return UploadState(ok=False, at_us=self._now().wall_us, error=reason, wait_s=wait_s)

    def _delay_s(self) -> float:
        return full_jitter(self._failures, random_unit=self._random_unit)


def fetch_config(spool: Spool, transport: Transport) -> Optional[str]:
    """Fetch ``GET config/`` and store it in the spool. Returns the error, or None."""
    try:
        response = transport.call("GET", "config/")
    except ServerUnavailable as error:
        return str(error)
    if response.status != 200 or not isinstance(response.body, dict):
        return f"{transport.url} answered {response.status} to GET config/ ({response.message})"
    spool.set_value("config", json.dumps(response.body))
    return None


def forward_runs(spool: Spool, transport: Transport, *, now_us: int) -> Optional[str]:
    """Forward the pending messages of runs, those of one run in order. Returns the last error, or
    None.

    A message that the server refuses is kept with the later ones of its run, and sent again after
    ten minutes. A message that the server stored for a decision of a manager is removed. Neither
    delays other runs. If the server is unavailable or rejects the token, all messages wait.
    """
    problem = None
    refused_runs: Set[str] = set()
    for message, run, verb, body in spool.runs.pending_messages(now_us):
        if run in refused_runs:
            continue
        try:
            response = call_with_fingerprint(
                transport, verb, "artifacts/" if verb == LINEAGE else f"runs/{run}/", body
            )
        except ServerUnavailable as error:
            return str(error)
        if 200 <= response.status < 300:
            warning = response.body.get("warning") if isinstance(response.body, dict) else None
            if warning:
                spool.set_value(f"warning:{run}", str(warning)[:500])
            spool.runs.remove_message(message)
        elif response.status in _UNAVAILABLE or not 400 <= response.status < 500:
            return (
                f"{transport.url} answered {response.status} to {verb} runs/ ({response.message})"
            )
        else:
            problem = f"{transport.url} refused the facts of a run: {response.message}"
            spool.set_value(f"warning:{run}", problem[:500])
            if response.error_code == PENDING_DECISION:
                spool.runs.remove_message(message)
            else:
                spool.runs.hold_refused(message, problem, now_us=now_us)
                refused_runs.add(run)
    return problem
