"""One piece of work: training, evaluation, inference service, data job."""

from django.db import models

from apps.accounts.models import Lab, Project, User
from apps.fleet.models import Node
from apps.runs.choices import RunState, Scheduler, Way


class Run(models.Model):
    """A run, known by the UUID its client made, or made from its scheduler's job.

    ``project`` is what the run itself named. ``charged_project``, ``charged_person`` and ``charge_way`` are derived from
    it, from claims and rules at the run's start (apps/attribution); null while nobody said where it is charged.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="runs")
    uuid = models.UUIDField()
    project = models.ForeignKey(Project, on_delete=models.PROTECT, null=True, blank=True, related_name="runs")
    project_asked = models.CharField(max_length=60, blank=True, default="")
    user = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="runs")
    node = models.ForeignKey(Node, on_delete=models.SET_NULL, null=True, blank=True, related_name="runs")
    os_user = models.CharField(max_length=100, blank=True, default="")
    host = models.CharField(max_length=255, blank=True, default="")
    name = models.CharField(max_length=200)
    command = models.JSONField(default=list, blank=True)
    params = models.JSONField(default=dict, blank=True)
    state = models.CharField(max_length=16, choices=RunState, default=RunState.RUNNING)
    started_us = models.BigIntegerField()
    ended_us = models.BigIntegerField(null=True, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    reported_energy_mj = models.BigIntegerField(null=True, blank=True)

    scheduler = models.CharField(max_length=16, choices=Scheduler, blank=True, default="")
    cluster = models.CharField(max_length=100, blank=True, default="")
    job_id = models.CharField(max_length=64, blank=True, default="")
    account = models.CharField(max_length=100, blank=True, default="")
    partition = models.CharField(max_length=100, blank=True, default="")
    job_facts = models.JSONField(default=dict, blank=True)
    charged_project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="charged_runs"
    )
    charged_person = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="charged_runs")
    charge_way = models.CharField(max_length=16, choices=Way, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "uuid"], name="run_uuid_once_per_lab"),
            models.CheckConstraint(
                condition=models.Q(ended_us__isnull=True) | models.Q(ended_us__gte=models.F("started_us")),
                name="run_ends_after_start",
            ),
        ]
        indexes = [
            models.Index(fields=["lab", "-started_us"], name="run_by_start"),
            models.Index(fields=["lab", "cluster", "job_id"], name="run_by_job"),
        ]

    def __str__(self) -> str:
        return self.name
