"""Whether the database can be used now: its file, its disk, damage that requests or jobs met, and
the results of the daily checks.
"""

import logging
import math
import time
from pathlib import Path

from django.db import Error, connection

from apps.core.database.sqlite_file import FileProblem, file_problem, identity_of
from apps.core.database.table_checks import check_soon, damaged_tables
from apps.core.database_problems import DatabaseUnavailable, Problem, problem_of

log = logging.getLogger(__name__)

# A problem that a query of this process met is reported for this time. Checks confirm damage.
_REPORTED_S = {Problem.DAMAGED: 3600.0, Problem.DISK_FULL: 60.0, Problem.READ_ONLY: 60.0}
_CHECK_INTERVAL_S = 3600.0
_last_met: dict[Problem, tuple[float, object]] = {}


def unavailability_of(error: BaseException | None) -> DatabaseUnavailable | None:
    """Return the problem behind Django's database error, remembered for :func:`current_problem`."""
    problem = problem_of(error)
    if problem is None:
        return None
    detail = " ".join(str(error).split())
    if problem != Problem.UNAVAILABLE and (cause := _file_problem()):
        problem, detail = cause.problem, cause.detail
    _remember(problem)
    return DatabaseUnavailable(problem, detail)


def current_problem() -> DatabaseUnavailable | None:
    """Return the present problem, or None. Some system calls and a query of a small table."""
    if cause := _file_problem():
        return DatabaseUnavailable(cause.problem, cause.detail)
    if connection.vendor == "postgresql" and _is_read_only():
        return DatabaseUnavailable(Problem.READ_ONLY)
    if damaged := damaged_tables():
        observed = "; ".join(f"{name}: {problem}" for name, problem in damaged)
        return DatabaseUnavailable(Problem.DAMAGED, observed)
    for problem, limit_s in _REPORTED_S.items():
        if _age_s(problem) < limit_s:
            return DatabaseUnavailable(problem)
    return None


def _age_s(problem: Problem) -> float:
    """Return the time since this process met a problem of the present database."""
    met_s, database = _last_met.get(problem, (-math.inf, None))
    return time.monotonic() - met_s if database == _identity() else math.inf


def _remember(problem: Problem) -> None:
    is_new = _age_s(problem) >= _CHECK_INTERVAL_S
    _last_met[problem] = (time.monotonic(), _identity())
    if problem == Problem.DAMAGED and is_new:
        try:
            check_soon()
        except Error as error:
            log.warning("the tables cannot be checked now: %s", error)


def _identity() -> tuple[int, int] | None:
    path = database_path()
    return None if path is None else identity_of(path)


def _file_problem() -> FileProblem | None:
    path = database_path()
    return None if path is None else file_problem(path)


def database_path() -> Path | None:
    """Return the file of SQLite. None: another database, or one in memory."""
    path: Path | None = getattr(connection, "file_path", None)
    return path


def _is_read_only() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('transaction_read_only')")
        return bool(cursor.fetchone()[0] == "on")
