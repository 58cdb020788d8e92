"""Duplicate checks before runs, avoided runs, and duplicate findings."""

from django.db import models

from apps.accounts.models import Lab, Project, User
from apps.preflight.choices import Certainty, FindingState, Level, Outcome, Verdict
from apps.runs.models import Run


class Preflight(models.Model):
    """One question and what was answered. ``matches``: UUIDs of the runs it rested on, the first
    one first.

    ``f1`` and ``f1_weak`` are the keys of the checked work (null: a part is unknown).
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+", db_index=False)
    uuid = models.UUIDField(unique=True)
    at_us = models.BigIntegerField()
    user = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    node_uuid = models.UUIDField(null=True, blank=True)
    project = models.ForeignKey(
        Project, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    run_uuid = models.UUIDField(null=True, blank=True)
    name = models.CharField(max_length=200, blank=True, default="")
    verdict = models.CharField(max_length=16, choices=Verdict)
    certainty = models.CharField(max_length=16, choices=Certainty)
    level = models.CharField(max_length=8, choices=Level)
    matches = models.JSONField(default=list, blank=True)
    f1 = models.BigIntegerField(null=True, blank=True)
    f1_weak = models.BigIntegerField(null=True, blank=True)
    outcome = models.CharField(max_length=8, choices=Outcome, blank=True, default="")
    outcome_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["lab", "-at_us"], name="preflight_by_time")]

    def __str__(self) -> str:
        return f"{self.verdict} {self.uuid}"


class Avoided(models.Model):
    """A run that was stopped because it was known: at most what ``run`` used was avoided. Never
    part of a total.

    ``withdrawn_us``: the same work was run after all (``by_run``), or the asker went on.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+", db_index=False)
    preflight = models.OneToOneField(Preflight, on_delete=models.CASCADE, related_name="avoided")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+")
    f1 = models.BigIntegerField()
    f1_weak = models.BigIntegerField(null=True, blank=True)
    at_us = models.BigIntegerField()
    withdrawn_us = models.BigIntegerField(null=True, blank=True)
    by_run = models.ForeignKey(
        Run, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        indexes = [models.Index(fields=["lab", "-at_us"], name="avoided_by_time")]

    def __str__(self) -> str:
        return f"avoided {self.preflight_id}"


class DuplicateFinding(models.Model):
    """``run`` repeats ``original``. ``decided_by``, ``decided_us`` and ``reason`` record the
    decision. Why it is only possible: ``unverified_parts`` were compared by names, sizes and times,
    ``labels`` differ, ``not_compared`` was not examined.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+", db_index=False)
    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="duplicate_finding")
    original = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="duplicates", db_column="of_id"
    )
    verdict = models.CharField(max_length=16, choices=Verdict)
    certainty = models.CharField(max_length=16, choices=Certainty)
    unverified_parts = models.JSONField(default=list, blank=True, db_column="weak")
    labels = models.JSONField(default=list, blank=True)
    not_compared = models.JSONField(default=list, blank=True)
    detected_us = models.BigIntegerField(db_column="found_us")
    state = models.CharField(max_length=16, choices=FindingState, default=FindingState.OPEN)
    decided_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_column="by_id"
    )
    decided_us = models.BigIntegerField(null=True, blank=True)
    reason = models.CharField(max_length=400, blank=True, default="")

    class Meta:
        db_table = "preflight_repeat"
        constraints = [
            models.CheckConstraint(
                condition=~models.Q(run=models.F("original")), name="repeat_of_another"
            ),
            models.CheckConstraint(
                condition=models.Q(state=FindingState.OPEN, decided_us__isnull=True)
                | (~models.Q(state=FindingState.OPEN) & models.Q(decided_us__isnull=False)),
                name="repeat_decided_at_a_time",
            ),
        ]
        indexes = [models.Index(fields=["lab", "state", "-detected_us"], name="repeat_by_state")]

    def __str__(self) -> str:
        return f"{self.verdict}: {self.run_id} of {self.original_id}"
