"""Writes of activities: the import of declared use, and activities that are recorded one by one."""

from apps.activity.drafts import Draft
from apps.activity.services.activities import (
    Preview,
    preview_activity,
    record_activity,
    withdraw_activity,
)
from apps.activity.services.declared_import import (
    MAX_ROWS,
    RowErrors,
    import_declared,
    read_rows,
)

__all__ = [
    "MAX_ROWS",
    "Draft",
    "Preview",
    "RowErrors",
    "import_declared",
    "preview_activity",
    "read_rows",
    "record_activity",
    "withdraw_activity",
]
