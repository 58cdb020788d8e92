"""Comparison of the recorded migrations with the steps that each app's ``0001_v1`` replaces.

Django applies a migration with ``replaces`` if no replaced migration is recorded, and treats it as
applied if all are recorded. If only some are recorded, Django silently omits it from the plan,
because the files of the replaced migrations no longer exist. Such a database is refused before any
change.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

FIRST = "0001_v1"
LAST_COMMIT_WITH_STEPS = "2350ec53194c03b2309224f949a1aa7c2db37d91"

_SQUASHED = re.compile(r"0001_squashed_\d+")  # recorded together with the steps that it replaced
_LEFT_OVER = f"""Files of migrations that {FIRST} replaces are still in the folders of these apps: %s.
This happens where a new version is copied over an old one. Delete the old folder and copy again. Nothing was changed."""  # noqa: E501
_REFUSAL = f"""This database is not at the last migration before {FIRST}. This version cannot upgrade it.
Nothing was changed. Missing:
%s
Go through commit {LAST_COMMIT_WITH_STEPS} first, the last one with these migrations:
  1. git checkout {LAST_COMMIT_WITH_STEPS}
  2. manage.py migrate
  3. check out this version again and repeat the command.
docs/install.md describes it under "Upgrade from a version before {FIRST}"."""  # noqa: E501


@dataclass(frozen=True)
class AppHistory:
    """The recorded migrations of one app up to its ``0001_v1``."""

    label: str
    replaced: tuple[str, ...]
    recorded: frozenset[str]
    is_left_over: bool  # a file of a replaced migration still exists

    @property
    def missing(self) -> list[str]:
        """Return the unrecorded steps. Empty if ``0001_v1`` is recorded, as it includes them."""
        if self.is_v1:
            return []
        return [
            name
            for name in self.replaced
            if name not in self.recorded and not _SQUASHED.match(name)
        ]

    @property
    def is_v1(self) -> bool:
        return FIRST in self.recorded

    @property
    def is_empty(self) -> bool:
        return not self.recorded


def read_histories(
    connection: BaseDatabaseWrapper, loader: MigrationLoader | None = None
) -> list[AppHistory]:
    """Return the history of each app with a ``0001_v1``. ``loader``: a loader with read files."""
    applied = MigrationRecorder(connection).applied_migrations()
    if loader is None:
        loader = MigrationLoader(None, load=False)
        loader.load_disk()
    disk = loader.disk_migrations
    histories = []
    for (label, name), migration in disk.items():
        if name == FIRST:
            replaced = tuple(step for _, step in migration.replaces)
            recorded = frozenset(step for step in (*replaced, FIRST) if (label, step) in applied)
            is_left_over = any((label, step) in disk for step in replaced)
            histories.append(AppHistory(label, replaced, recorded, is_left_over))
    return sorted(histories, key=lambda history: history.label)


def explain_refusal(histories: Sequence[AppHistory]) -> str:
    """Return why a database with these histories cannot be migrated and what to do; '' if it can.

    It can if all apps are complete, or all are empty. Empty and complete apps together are accepted
    if a complete app has its ``0001_v1`` recorded: an interrupted first migration continues.
    """
    if left_over := [history.label for history in histories if history.is_left_over]:
        return _LEFT_OVER % ", ".join(left_over)
    behind = [history for history in histories if history.missing]
    partial = [history for history in behind if not history.is_empty]
    if not partial and (
        len(behind) == len(histories) or any(history.is_v1 for history in histories)
    ):
        behind = []
    if not behind:
        return ""
    lines = (f"  {history.label}: {_name_missing(history)}" for history in behind)
    return _REFUSAL % "\n".join(lines)


def _name_missing(history: AppHistory) -> str:
    return "all migrations" if history.is_empty else ", ".join(history.missing)


def record_replaced(connection: BaseDatabaseWrapper, histories: Iterable[AppHistory]) -> None:
    """Record absent replaced names of complete apps, as Django does after ``0001_v1``."""
    recorder = MigrationRecorder(connection)
    for history in histories:
        if not history.missing:
            for name in history.replaced:
                if name not in history.recorded:
                    recorder.record_applied(history.label, name)


def record_first(connection: BaseDatabaseWrapper, label: str) -> None:
    """Record the ``0001_v1`` of an app.

    Django records it at the end of a command, which can be interrupted before.
    """
    MigrationRecorder(connection).record_applied(label, FIRST)
