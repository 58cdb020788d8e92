"""What is kept for how long; plans of what may go: proposed, reviewed, told to owners, approved, carried out elsewhere."""

from uuid import uuid4

from django.db import models
from django.db.models import Q

from apps.accounts.models import Lab, Project, User
from apps.artifacts.choices import ArtifactState, LineOutcome, PlanState
from apps.artifacts.cleanup.retention import Retention
from apps.artifacts.models.artifacts import Artifact, Copy
from apps.fleet.models import Node
from apps.runs.models import Run


class RetentionDays(models.Model):
    """For how many days a class is kept, in a project or (``project`` null) where a project says nothing. ``days`` null:
    it is never proposed."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="retention_days")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, blank=True, related_name="retention_days")
    kept = models.CharField(max_length=16, choices=Retention)
    days = models.IntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "kept"], condition=Q(project__isnull=False), name="retention_once_per_project"
            ),
            models.UniqueConstraint(
                fields=["lab", "kept"], condition=Q(project__isnull=True), name="retention_once_per_lab"
            ),
            models.CheckConstraint(condition=Q(days__isnull=True) | Q(days__gte=1), name="retention_a_day_at_least"),
        ]

    def __str__(self) -> str:
        return f"{self.kept} {self.days}"


class Plan(models.Model):
    """Copies on one node that may go. Nobody but ``apply-plan`` on that node moves or deletes anything.

    ``grace_until_us``: until then owners may object, and nothing is approved. ``trash_days``: how long what was moved to the
    trash can come back.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="plans")
    uuid = models.UUIDField(unique=True, default=uuid4)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="plans")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, null=True, blank=True, related_name="plans")
    state = models.CharField(max_length=12, choices=PlanState, default=PlanState.DRAFT)
    made_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    made_us = models.BigIntegerField()
    grace_until_us = models.BigIntegerField(null=True, blank=True)
    trash_days = models.IntegerField(default=14)
    approved_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    approved_us = models.BigIntegerField(null=True, blank=True)
    ended_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            # Two plans for one place could each believe that the other keeps the last copy.
            models.UniqueConstraint(
                fields=["node"], condition=Q(state__in=("draft", "told", "approved")), name="one_open_plan_per_node"
            ),
            models.CheckConstraint(condition=Q(trash_days__gte=1), name="plan_a_day_in_the_trash"),
        ]

    def __str__(self) -> str:
        return f"{self.uuid} {self.state}"


class PlanLine(models.Model):
    """A copy that may go, as it was when the plan was made. ``storage_mj``: a year of keeping it, null where its medium is
    unknown; ``retrain_mj``: what the run that made it (``retrain_run``) took, null where nobody measured that;
    ``storage_ug`` and ``retrain_ug``: what that emits, location-based, null where no factor is known. ``before``: the state
    its artifact had before its owner was told. ``went_with``: the line of the folder that it went to the trash in."""

    plan = models.ForeignKey(Plan, on_delete=models.CASCADE, related_name="lines")
    copy = models.ForeignKey(Copy, on_delete=models.CASCADE, related_name="plan_lines")
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="plan_lines")
    kept = models.CharField(max_length=16, choices=Retention)
    is_last_copy = models.BooleanField()
    due_us = models.BigIntegerField()
    storage_mj = models.BigIntegerField(null=True, blank=True)
    retrain_mj = models.BigIntegerField(null=True, blank=True)
    storage_ug = models.BigIntegerField(null=True, blank=True)
    retrain_ug = models.BigIntegerField(null=True, blank=True)
    retrain_run = models.ForeignKey(Run, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    chosen = models.BooleanField()
    objection = models.CharField(max_length=300, blank=True, default="")
    objected_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    before = models.CharField(max_length=16, choices=ArtifactState, blank=True, default="")
    outcome = models.CharField(max_length=8, choices=LineOutcome, blank=True, default="")
    word = models.CharField(max_length=300, blank=True, default="")
    outcome_us = models.BigIntegerField(null=True, blank=True)
    went_with = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, blank=True, related_name="took_along")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["plan", "copy"], name="copy_once_per_plan")]

    def __str__(self) -> str:
        return f"{self.copy_id} in {self.plan_id}"
