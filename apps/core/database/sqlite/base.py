"""Django's SQLite backend, which never creates a database and notices when its file is moved,
deleted or replaced.

SQLite continues to write to a deleted file, and every such row would be lost.
"""

import sqlite3
import time
from pathlib import Path
from typing import Any

from django.db.backends.sqlite3 import base, features

from apps.core.database.sqlite_file import (
    UnusableDatabase,
    content_problem,
    file_problem,
    identity_of,
    state_of,
)
from apps.core.database_problems import Problem

_CHECK_INTERVAL_S = 5.0


class _Features(features.DatabaseFeatures):
    # Django would connect to find out, and system checks must work before there is a database.
    supports_json_field = True


class DatabaseWrapper(base.DatabaseWrapper):
    features_class = _Features
    _file: tuple[int, int] | None = None
    _checked_state: tuple[int, ...] | None = None
    _check_due_s = 0.0

    def get_connection_params(self) -> dict[str, Any]:
        """Return the parameters of ``sqlite3.connect``, for an existing file only."""
        params: dict[str, Any] = super().get_connection_params()
        if path := self.file_path:
            params["database"] = f"{path.resolve().as_uri()}?mode=rw"
        return params

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Connect. Raises the driver's error with the reason for a file that cannot be used."""
        path = self.file_path
        if path is None:
            return super().get_new_connection(conn_params)
        if cause := content_problem(path):
            raise UnusableDatabase(cause)
        self._file = identity_of(path)
        try:
            return super().get_new_connection(conn_params)
        except sqlite3.OperationalError as error:
            # SQLite reports "unable to open database file" for all of these
            cause = file_problem(path)
            if cause and cause.problem != Problem.DAMAGED:
                raise UnusableDatabase(cause) from error
            raise

    def close_if_unusable_or_obsolete(self) -> None:
        """Called by Django before and after each request. Closes the connection to a file that was
        replaced, or whose header was overwritten; the next one reports the reason.
        """
        path = self.file_path
        if path is not None and self.connection is not None and not self.in_atomic_block:
            state = state_of(path)
            if state is None or state[:2] != self._file:
                self.close()
                return
            if state != self._checked_state or time.monotonic() >= self._check_due_s:
                if content_problem(path):
                    self.close()
                    return
                self._checked_state = state
                self._check_due_s = time.monotonic() + _CHECK_INTERVAL_S
        super().close_if_unusable_or_obsolete()

    @property
    def file_path(self) -> Path | None:
        """The database file. None in memory, where tests have it."""
        name = str(self.settings_dict["NAME"])
        return None if name.startswith("file:") or name == ":memory:" else Path(name)
