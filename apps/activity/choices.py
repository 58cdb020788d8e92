"""Choices of activities."""

from django.db.models import TextChoices


class ActivityKind(TextChoices):
    CLOUD_COMPUTE = "cloud_compute", "Cloud compute"
    CLOUD_STORAGE = "cloud_storage", "Cloud storage"
    CLOUD_BACKUP = "cloud_backup", "Cloud backup"
    EXTERNAL_CLUSTER = "external_cluster", "External cluster"
    FILE_SERVER = "file_server", "File server"
    NETWORK_TRANSFER = "network_transfer", "Network transfer"
    OTHER_DEVICE = "other_device", "Other device"


class Act(TextChoices):
    """Audit actions on activities."""

    RECORDED = "activity.recorded", "Activity recorded"
    WITHDRAWN = "activity.withdrawn", "Activity withdrawn"
    IMPORTED = "activity.imported", "Activities imported"
    RECURRING_ADDED = "activity.recurring_added", "Recurring activity added"
    RECURRING_ENDED = "activity.recurring_ended", "Recurring activity ended"


class RepetitionKind(TextChoices):
    """How often a recurring activity repeats."""

    WEEK = "week", "Every week"
    MONTH = "month", "Every month"
    QUARTER = "quarter", "Every quarter"
    YEAR = "year", "Every year"


class RecurringState(TextChoices):
    """State of a recurring activity. Problem: its next period cannot be recorded."""

    ACTIVE = "active", "Active"
    PROBLEM = "problem", "Problem"
    ENDED = "ended", "Ended"


class FileState(TextChoices):
    """State of a file of activities."""

    MAPPING = "mapping", "Columns to assign"
    CHECKING = "checking", "Checking"
    CHECKED = "checked", "Preview"
    RECORDING = "recording", "Recording"
    DONE = "done", "Recorded"
    REFUSED = "refused", "Rejected"
