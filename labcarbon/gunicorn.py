"""gunicorn's settings (``--config python:labcarbon.gunicorn``)."""

from typing import Any

from labcarbon.children import die_with_parent


def post_fork(server: Any, worker: Any) -> None:
    """End with the master. A worker left behind by a killed master keeps the port for as long as collectors push to it."""
    die_with_parent()
