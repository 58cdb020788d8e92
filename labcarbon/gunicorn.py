"""gunicorn's settings (``--config python:labcarbon.gunicorn``)."""

import signal
from typing import Any

from django.db import connections
from gunicorn.config import Config
from gunicorn.glogging import Logger

from labcarbon.launch import die_with_parent
from labcarbon.log_redaction import Redacting

# The master loads the application, and a worker is a copy of it: a new one is there at once, and several share memory.
preload_app = True


def pre_fork(server: Any, worker: Any) -> None:
    """Keep no connection to the database that a worker would share with the master."""
    connections.close_all()


def post_fork(server: Any, worker: Any) -> None:
    """End with the master, at once: a worker that a killed master left behind keeps the port from the next one.

    Left to itself it does so for as long as collectors push to it, or until its application is loaded. What is cut off is
    sent again. A master that is asked to stop lets its workers finish first.
    """
    die_with_parent(signal.SIGKILL)


class RedactingLogger(Logger):
    """gunicorn's log, access log included, without the secrets of tokens."""

    def setup(self, cfg: Config) -> None:
        """Set the handlers up, and let each redact what it writes."""
        super().setup(cfg)  # type: ignore[no-untyped-call]
        for handler in (*self.error_log.handlers, *self.access_log.handlers):
            handler.setFormatter(Redacting(inner=handler.formatter))


logger_class = RedactingLogger
