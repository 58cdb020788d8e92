"""A gunicorn worker that serves requests with waitress: one thread reads all connections, and a
request occupies a worker thread only after it was received completely.
"""

import os
import resource
import time
from collections.abc import Iterable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from gunicorn.workers.base import Worker
from waitress import wasyncore
from waitress.server import create_server

# A connection that sends and receives nothing for this time is closed.
IDLE_TIMEOUT_S = 30
MAX_CONNECTIONS = 4096
MAX_REQUEST_BYTES = 65 << 20  # a model file of 64 MiB
_RESERVED_FILES = 200  # files beside connections: database, templates, temporary bodies


class WaitressWorker(Worker):
    """Options of gunicorn that apply: bind, workers, threads, timeouts, logs, hooks."""

    def run(self) -> None:
        """Serve until gunicorn ends this worker. Running requests are then completed."""
        channels: dict[int, Any] = {}
        server = create_server(  # type: ignore[no-untyped-call]
            self._log_access,
            map=channels,
            sockets=[listener.sock for listener in self.sockets],
            threads=self.cfg.threads,
            connection_limit=_allow_connections(),
            channel_timeout=IDLE_TIMEOUT_S,
            cleanup_interval=5,
            max_request_body_size=MAX_REQUEST_BYTES,
            # Django reads the proxy's headers, by LABCARBON_BEHIND_TLS_PROXY
            clear_untrusted_proxy_headers=False,
            ident=None,
        )
        dispatcher = server.task_dispatcher
        while self.alive:
            self.notify()  # type: ignore[no-untyped-call]
            _step(channels, timeout_s=1.0)
            if self.ppid != os.getppid():
                break
        deadline = time.monotonic() + self.cfg.graceful_timeout
        while time.monotonic() < deadline and _is_busy(dispatcher, channels):
            self.notify()  # type: ignore[no-untyped-call]
            _step(channels, timeout_s=0.1)
        dispatcher.shutdown(timeout=1)
        server.close()

    def _log_access(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Call the application, and write gunicorn's access log if it is on."""
        if not self.cfg.accesslog:
            return self.wsgi(environ, start_response)  # type: ignore[no-any-return]
        started = time.monotonic()
        response = SimpleNamespace(status="", headers=[], sent=None, response_length=None)

        def start(status: str, headers: list[tuple[str, str]], *args: Any) -> Any:
            response.status, response.headers = status, headers
            return start_response(status, headers, *args)

        content = self.wsgi(environ, start)
        environ.setdefault("RAW_URI", environ.get("REQUEST_URI", environ["PATH_INFO"]))
        self.log.access(
            response,
            SimpleNamespace(headers=[]),
            environ,
            timedelta(seconds=time.monotonic() - started),
        )
        return content  # type: ignore[no-any-return]


def _step(channels: dict[int, Any], *, timeout_s: float) -> None:
    """Read and write what is possible now."""
    wasyncore.loop(timeout_s, True, channels, 1)  # type: ignore[no-untyped-call]


def _is_busy(dispatcher: Any, channels: dict[int, Any]) -> bool:
    """Return whether requests run, or responses are not sent yet."""
    unsent = any(getattr(channel, "total_outbufs_len", 0) for channel in channels.values())
    return bool(dispatcher.active_count or dispatcher.queue or unsent)


def _allow_connections() -> int:
    """Raise the limit of open files as far as permitted. Returns the number of connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + _RESERVED_FILES
    files = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return files - _RESERVED_FILES
