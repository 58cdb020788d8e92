"""Serialises the writers of one process on SQLite."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from django.db import connection

_WRITE_LOCK = Lock()


@contextmanager
def write_lock() -> Iterator[None]:
    """Wait until no other thread of this process writes. Never enter it inside a transaction.

    SQLite allows one writer, and others retry after pauses that grow to 100 ms. A thread that waits
    here continues immediately. PostgreSQL has concurrent writers, so the lock does nothing there.
    """
    if connection.vendor != "sqlite":
        yield
        return
    with _WRITE_LOCK:
        yield
