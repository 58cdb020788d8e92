"""Statistics of SQLite's query planner. PostgreSQL keeps its own (autovacuum).

Without them SQLite takes each index as equally selective and may read all rows of a lab to find
one.
"""

from django.db import connection

STATISTICS_JOB = "core.statistics"
HOUR_US = 3_600_000_000
_ROWS_OF_AN_INDEX = 1_000  # more are estimated: some milliseconds for any size


def update_statistics() -> None:
    """Count the distinct values of each index of SQLite. Open connections read them when they open
    again, within a minute.
    """
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA analysis_limit = {_ROWS_OF_AN_INDEX}")
            cursor.execute("ANALYZE")
