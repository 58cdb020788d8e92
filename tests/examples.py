"""The number of examples per property test."""

import os

_ON_POSTGRES = os.environ.get("LABCARBON_DATABASE_URL", "").startswith("postgres")


def examples(count: int) -> int:
    """Return ``count`` on SQLite, where properties check arithmetic and histories. Return a third
    on PostgreSQL, where they check that SQL agrees. Each run draws other examples.
    """
    return max(3, count // 3) if _ON_POSTGRES else count
