"""gunicorn's settings (``--config python:labcarbon.gunicorn``)."""

import signal
from typing import Any

from labcarbon.children import die_with_parent


def post_fork(server: Any, worker: Any) -> None:
    """End with the master, at once: a worker that a killed master left behind keeps the port from the next one.

    Left to itself it does so for as long as collectors push to it, or until its application is loaded. What is cut off is
    sent again. A master that is asked to stop lets its workers finish first.
    """
    die_with_parent(signal.SIGKILL)
