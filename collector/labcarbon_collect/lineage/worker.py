"""Reads and reports the declared artifacts of a run, in a process of its own at the lowest
priority.

``python -m labcarbon_collect.lineage.worker``: the first line on standard input describes the run.
Each further line declares an artifact; ``{"hurry": true}`` means that the run is over. When
standard input or the run's process ends, the rest is read at full speed and reported. One line on
standard output has the result.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Optional, Union

from labcarbon_collect.api.transport import InvalidUrlError, Transport
from labcarbon_collect.config import client_sockets, is_uuid, read_login
from labcarbon_collect.fingerprint.hash_worker import lowest_priority
from labcarbon_collect.ipc.client import Client, DaemonUnavailable
from labcarbon_collect.lineage.artifact_reader import (
    AdjustableRateLimiter,
    DeclarationError,
    Inspector,
)
from labcarbon_collect.lineage.messages import title
from labcarbon_collect.lineage.queue import HURRY
from labcarbon_collect.lineage.reporters import DaemonReporter, ServerReporter
from labcarbon_collect.node_identity import ConfigurationError

FINISH_TIMEOUT_S = 600.0  # for the remaining artifacts after the run
_SEND_INTERVAL_S, _POLL_S = 30.0, 5.0
_RETRY_DELAYS_S = (0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0)  # until the server knows the run
_SERVER_TIMEOUT_S, _DEADLINE_S = 30.0, 10.0  # all attempts; one request
_MAX_FAILURES, _DAEMON_TIMEOUT_S = 20, 2.0


class LineageWorker:
    """Worker for one run. ``request``: the first line of input."""

    def __init__(
        self, request: Mapping[str, Any], reporter: Union[ServerReporter, DaemonReporter]
    ) -> None:
        home = Path(request["home"]) if request["home"] else None
        self._rate_limiter = AdjustableRateLimiter(request["bytes_per_s"])
        self._inspector = Inspector(request["run"], self._rate_limiter, home, request["most_bytes"])
        self._reporter = reporter
        self._pid = int(request["pid"])
        self._lines: queue.SimpleQueue[Optional[str]] = queue.SimpleQueue()
        self._sent_s = time.monotonic()
        self._is_over = False

    def work(self) -> Dict[str, Any]:
        """Run until everything is reported or has failed. Returns the result."""
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        for artifact in self._declarations():
            try:
                if "digest" in artifact:
                    self._reporter.add_named(artifact)
                else:
                    self._reporter.add(self._inspector.inspect(artifact))
            except DeclarationError as problem:
                self._reporter.failed.append((title(artifact), str(problem)))
            self._send_if_due()
        reporter = self._reporter
        deadline_s = time.monotonic() + _SERVER_TIMEOUT_S
        for wait_s in _RETRY_DELAYS_S:
            is_sent = reporter.send(max(0.0, deadline_s - time.monotonic()))
            if is_sent or not reporter.can_retry or time.monotonic() + wait_s > deadline_s:
                break
            time.sleep(wait_s)
        reporter.give_up()
        return {
            "told": reporter.sent_count,
            "failed": reporter.failed[:_MAX_FAILURES],
            "lost": len(reporter.failed),
            "notes": reporter.notes[:3],
        }

    def _listen(self) -> None:
        """Read lines as they arrive, so that the writer never blocks."""
        for line in sys.stdin:
            if line == HURRY:
                self._finish()
            else:
                self._lines.put(line)
        self._finish()
        self._lines.put(None)

    def _finish(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._rate_limiter.remove_limit()
        alarm = threading.Timer(FINISH_TIMEOUT_S, os._exit, (1,))
        alarm.daemon = True
        alarm.start()

    def _declarations(self) -> Iterator[Dict[str, Any]]:
        while True:
            try:
                line = self._lines.get(timeout=_POLL_S)
            except queue.Empty:
                if not _is_alive(self._pid):  # Forks of the run may keep standard input open.
                    self._finish()
                    return
                self._send_if_due()
                continue
            if line is None:
                return
            with suppress(ValueError):
                yield json.loads(line)

    def _send_if_due(self) -> None:
        if time.monotonic() - self._sent_s > _SEND_INTERVAL_S and self._reporter.pending_count:
            self._reporter.send(_POLL_S)
            self._sent_s = time.monotonic()


def _create_reporter(request: Mapping[str, Any]) -> Union[ServerReporter, DaemonReporter]:
    """Use the user's login if there is one, else the daemon. Raises ConfigurationError and
    BadAddress.
    """
    login = read_login(os.environ)
    if login is None:
        return DaemonReporter(request["run"], os.environ)
    transport = Transport(login.url, login.token, deadline_s=_DEADLINE_S)
    return ServerReporter(transport, request["run"], request["node"] or _local_node(os.environ))


def _local_node(environ: Mapping[str, str]) -> str:
    """Return the node of local paths from the local daemon, "" without a daemon."""
    configured = environ.get("LABCARBON_NODE_ID", "")
    if is_uuid(configured):
        return configured
    try:
        client = Client(client_sockets(environ), timeout_s=_DAEMON_TIMEOUT_S)
        node = client.call({"op": "status"}, timeout_s=_DAEMON_TIMEOUT_S).get("node")
        client.close()
    except DaemonUnavailable:
        return ""
    return str(node) if is_uuid(node) else ""


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def main() -> None:
    """Read the request, process it, and print the result."""
    lowest_priority()
    request: Dict[str, Any] = json.loads(sys.stdin.readline())
    try:
        result = LineageWorker(request, _create_reporter(request)).work()
    except (ConfigurationError, InvalidUrlError) as error:
        result = {"told": 0, "failed": [], "lost": 0, "notes": [], "why": str(error)}
    with suppress(OSError):
        print(json.dumps(result), flush=True)
    os._exit(0)  # A thread may still wait for input.


if __name__ == "__main__":
    main()
