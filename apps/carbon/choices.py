"""Choices of carbon."""

from django.db import models


class RollupKind(models.TextChoices):
    """What is summed by day for pages."""

    USE = "use", "Energy and device time"
    HARDWARE = "hardware", "Embodied carbon"


class UseKind(models.TextChoices):
    """What energy was used for: ``idle_share`` is the part of idle energy that a project bears."""

    USED = "used", "Used"
    IDLE = "idle", "Idle"
    IDLE_SHARE = "idle_share", "Idle, borne by projects"
    OVERHEAD = "overhead", "Rest of the node"
