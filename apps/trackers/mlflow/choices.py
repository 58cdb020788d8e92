"""Choices of MLflow."""

from django.db.models import TextChoices


class SignIn(TextChoices):
    """Authentication at an MLflow server."""

    NONE = "none", "None (open server)"
    PASSWORD = "password", "User and password"
    TOKEN = "token", "Bearer token"


class FileOutcome(TextChoices):
    """The outcome of a file of an MLflow run."""

    IMPORTED = "taken", "Hashed and registered"
    TOO_LARGE = "too_large", "Too large to read over the network"
    TOO_MANY = "too_many", "Over the limit per run"
    ELSEWHERE = "elsewhere", "Not served by MLflow"
    UNREADABLE = "unreadable", "Not readable"
