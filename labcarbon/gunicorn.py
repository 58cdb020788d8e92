"""Settings of gunicorn (``--config python:labcarbon.gunicorn``)."""

import signal
from typing import Any

from django.db import connections
from gunicorn.config import Config
from gunicorn.glogging import Logger

from labcarbon.launch import die_with_parent
from labcarbon.log_redaction import RedactingFormatter

# The master loads the application and forks the workers: they start fast and share memory.
preload_app = True
worker_class = "labcarbon.web_worker.WaitressWorker"


def pre_fork(server: Any, worker: Any) -> None:
    """Close database connections, which workers must not share with the master."""
    connections.close_all()
    for connection in connections.all(initialized_only=True):
        if connection.vendor == "postgresql":
            connection.close_pool()  # type: ignore[attr-defined]


def post_fork(server: Any, worker: Any) -> None:
    """End the worker immediately when its master is gone.

    An orphaned worker would keep the port while collectors upload to it or while it loads the
    application. Interrupted uploads are repeated. A regular stop of the master lets its workers
    finish.
    """
    die_with_parent(signal.SIGKILL)


class RedactingLogger(Logger):
    """gunicorn's logger, including the access log, with redacted tokens."""

    def setup(self, cfg: Config) -> None:
        """Set up the handlers with redacting formatters."""
        super().setup(cfg)  # type: ignore[no-untyped-call]
        for handler in (*self.error_log.handlers, *self.access_log.handlers):
            handler.setFormatter(RedactingFormatter(inner=handler.formatter))


logger_class = RedactingLogger
