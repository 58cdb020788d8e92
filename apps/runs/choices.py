"""The closed lists of runs."""

from django.db.models import TextChoices


class RunState(TextChoices):
    RUNNING = "running", "Running"
    FINISHED = "finished", "Finished"
    FAILED = "failed", "Failed"
    KILLED = "killed", "Killed"


class Way(TextChoices):
    """How a charge was decided, the strongest first."""

    EXPLICIT = "explicit", "The run named it"
    CLAIM = "claim", "Somebody claimed it"
    ACCOUNT = "account", "By account or namespace"
    PLACE = "place", "By user or path on a machine"
    USER = "user", "By user"


class Scheduler(TextChoices):
    SLURM = "slurm", "Slurm"
