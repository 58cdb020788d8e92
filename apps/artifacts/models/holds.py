"""Holds: somebody says that things stay until an hour, and why."""

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab, Project, User
from apps.artifacts.models.artifacts import Artifact
from apps.core.clock import utc
from apps.core.units import US_PER_HOUR
from apps.runs.models import Run


class Hold(models.Model):
    """What it names stays for ``[from_hour, until_hour)``, whole UTC hours; ``until_hour`` null: until somebody lifts it.

    It names one of three: an artifact, all artifacts of a project, all that a run made or read. Lifted or over, it is
    history and is never deleted.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="holds")
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, null=True, blank=True, related_name="holds")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, blank=True, related_name="holds")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, null=True, blank=True, related_name="holds")
    reason = models.CharField(max_length=300)
    from_hour = models.BigIntegerField()
    until_hour = models.BigIntegerField(null=True, blank=True)
    by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    placed_us = models.BigIntegerField()
    lifted_us = models.BigIntegerField(null=True, blank=True)
    lifted_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(artifact__isnull=False, project__isnull=True, run__isnull=True)
                | Q(artifact__isnull=True, project__isnull=False, run__isnull=True)
                | Q(artifact__isnull=True, project__isnull=True, run__isnull=False),
                name="hold_names_one_thing",
            ),
            models.CheckConstraint(
                condition=Q(until_hour__isnull=True) | Q(until_hour__gt=F("from_hour")), name="hold_ends_after_it_begins"
            ),
        ]
        indexes = [models.Index(fields=["lab", "until_hour"], name="hold_not_lifted", condition=Q(lifted_us__isnull=True))]

    def __str__(self) -> str:
        return self.words

    @property
    def until(self) -> str:
        """Return until when, in words, UTC."""
        if self.until_hour is None:
            return "until it is lifted"
        return f"until {utc(self.until_hour * US_PER_HOUR):%Y-%m-%d %H:%M} UTC"

    @property
    def words(self) -> str:
        """Return why something stays by it."""
        what = (
            f"project {self.project.name[:60]} is " if self.project else f"run {self.run.name[:60]} is " if self.run else ""
        )
        return f"{what}held {self.until}: {self.reason}"
