"""Ends a command with one line instead of a traceback, if the configuration or the database is the
cause.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from labcarbon.env import ConfigurationError


@contextmanager
def exit_with_reason() -> Iterator[None]:
    """Exit with status 1 and the reason if a setting is invalid or the database cannot be used."""
    from django.db import Error

    try:
        yield
    except ConfigurationError as error:
        sys.exit(str(error))
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
