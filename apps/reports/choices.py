"""Choices of reports."""

from django.db.models import TextChoices


class StatementAct(TextChoices):
    """Audit actions on statements."""

    CLOSED = "statement.closed", "Period closed"
    RESTATED = "statement.restated", "Period restated"
