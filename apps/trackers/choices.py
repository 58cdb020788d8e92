"""Choices that all trackers share."""

from django.db.models import TextChoices


class Act(TextChoices):
    """Audit actions on servers of trackers."""

    SERVER_ADDED = "tracker.added", "Tracker server added"
    SERVER_CHANGED = "tracker.changed", "Tracker server changed"
    SERVER_REMOVED = "tracker.removed", "Tracker server removed"
