"""The closed lists of runs."""

from django.db.models import TextChoices


class RunState(TextChoices):
    RUNNING = "running", "Running"
    FINISHED = "finished", "Finished"
    FAILED = "failed", "Failed"
    KILLED = "killed", "Killed"
