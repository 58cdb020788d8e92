"""Choices of trackers."""

from django.db.models import IntegerChoices, TextChoices


class Channel(IntegerChoices):
    """The channel of a CodeCarbon message."""

    INTERVAL = 1, "An interval over its API"
    RECORD = 2, "A whole run over its HTTP output"
    FILE = 3, "A whole run from its file"


class SignIn(TextChoices):
    """Authentication at a tracker's server."""

    NONE = "none", "Nothing: it lets everybody in"
    PASSWORD = "password", "User and password"
    TOKEN = "token", "Bearer token"


class FileOutcome(TextChoices):
    """The outcome of a file of an MLflow run."""

    IMPORTED = "taken", "Read and known by its content"
    TOO_LARGE = "too_large", "Too large to be read over the network"
    TOO_MANY = "too_many", "More than are read of one run"
    ELSEWHERE = "elsewhere", "Lies where MLflow does not hand files out"
    UNREADABLE = "unreadable", "Could not be read"


class Act(TextChoices):
    """Audit actions of trackers' servers."""

    SERVER_ADDED = "tracker.added", "MLflow server added"
    SERVER_CHANGED = "tracker.changed", "MLflow server changed"
    SERVER_REMOVED = "tracker.removed", "MLflow server removed"
