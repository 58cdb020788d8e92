"""How many examples a property is tried on."""

import os

_ON_POSTGRES = os.environ.get("LABCARBON_DATABASE_URL", "").startswith("postgres")


def examples(count: int) -> int:
    """Return ``count`` on SQLite, where it is shown what a property says of arithmetic and histories; a third on PostgreSQL,
    where it is shown that SQL says the same there. Each run draws others."""
    return max(3, count // 3) if _ON_POSTGRES else count
