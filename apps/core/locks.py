"""Writers of one process, one after the other, where the database lets only one in."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from django.db import connection

_WRITE_LOCK = Lock()


@contextmanager
def write_lock() -> Iterator[None]:
    """Wait until no other thread of this process writes in its turn. Never to be entered inside a transaction.

    SQLite lets one writer in, and has the others ask again after pauses that grow to 100 ms: who waits here goes on at
    once. On PostgreSQL writers do not wait for each other, and this is nothing.
    """
    if connection.vendor != "sqlite":
        yield
        return
    with _WRITE_LOCK:
        yield
