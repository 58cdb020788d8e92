"""The closed lists of trackers."""

from django.db.models import IntegerChoices, TextChoices


class Channel(IntegerChoices):
    """By which way CodeCarbon told something."""

    INTERVAL = 1, "An interval over its API"
    RECORD = 2, "A whole run over its HTTP output"
    FILE = 3, "A whole run from its file"


class SignIn(TextChoices):
    """How a tracker's server is told who asks."""

    NONE = "none", "Nothing: it lets everybody in"
    PASSWORD = "password", "User and password"
    TOKEN = "token", "Bearer token"


class FileOutcome(TextChoices):
    """What became of a file that a run of MLflow made."""

    IMPORTED = "taken", "Read and known by its content"
    TOO_LARGE = "too_large", "Too large to be read over the network"
    TOO_MANY = "too_many", "More than are read of one run"
    ELSEWHERE = "elsewhere", "Lies where MLflow does not hand files out"
    UNREADABLE = "unreadable", "Could not be read"


class Act(TextChoices):
    """What the audit log records of trackers' servers."""

    SERVER_ADDED = "tracker.added", "MLflow server added"
    SERVER_CHANGED = "tracker.changed", "MLflow server changed"
    SERVER_REMOVED = "tracker.removed", "MLflow server removed"
