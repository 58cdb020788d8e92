"""Ends a command with the database problem and what to do, instead of a traceback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def exit_on_database_problems() -> Iterator[None]:
    """Exit with status 1 and the reason if the database cannot be used."""
    from django.db import Error

    try:
        yield
    except Error as error:
        text = explain_database_error(error)
        if not text:
            raise
        sys.exit(text)


def explain_database_error(error: BaseException) -> str:
    """Return what is wrong with the database and what to do. '': the error has another cause."""
    from apps.core.database.health import database_path, unavailability_of

    reason = unavailability_of(error)
    if reason is None:
        return ""
    path = database_path()
    return reason.explain() + (f" The database is {path}." if path else "")
