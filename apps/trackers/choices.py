"""The closed lists of trackers."""

from django.db.models import IntegerChoices, TextChoices


class Door(IntegerChoices):
    """By which way CodeCarbon told something."""

    EMISSION = 1, "An interval over its API"
    RECORD = 2, "A whole run over its HTTP output"
    FILE = 3, "A whole run from its file"


class SignIn(TextChoices):
    """How a tracker's server is told who asks."""

    NONE = "none", "Nothing: it lets everybody in"
    PASSWORD = "password", "User and password"
    TOKEN = "token", "Bearer token"


class Act(TextChoices):
    """What the audit log records of trackers' servers."""

    SERVER_ADDED = "tracker.added", "MLflow server added"
    SERVER_CHANGED = "tracker.changed", "MLflow server changed"
    SERVER_REMOVED = "tracker.removed", "MLflow server removed"
