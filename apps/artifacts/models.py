"""Models of artifacts: content, copies, lineage, pins, holds, retention periods and cleanup
plans.
"""

from uuid import uuid4

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab, Project, User
from apps.artifacts.choices import (
    Algorithm,
    ArtifactState,
    CopyState,
    Form,
    ItemOutcome,
    Kind,
    LineageRole,
    LineageSource,
    MailState,
    Medium,
    PlanState,
)
from apps.artifacts.cleanup.retention import RetentionClass
from apps.artifacts.reuse.similarity import TermKind
from apps.core.clock import utc
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Node
from apps.runs.models import Run


class Artifact(models.Model):
    """Content, identified by its digest: SHA-256 of a file, or of a folder's manifest
    (docs/artifacts.md).

    ``payload``: SHA-256 of a safetensors file without its header. ``start_key`` and ``data_key``:
    the parts M and D of the fingerprint of a run that starts from this content or reads it.
    ``owner`` null: unknown. ``facts``: reported properties of the content, such as parameters,
    tensors and architecture. ``is_linked``: linked with the runs recorded before its last
    registration.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="artifacts")
    digest = models.CharField(max_length=64)
    form = models.CharField(max_length=8, choices=Form)
    bytes = models.BigIntegerField()
    files = models.IntegerField(default=1)
    kind = models.CharField(max_length=16, choices=Kind)
    format = models.CharField(max_length=32, blank=True, default="")
    name = models.CharField(max_length=255)
    payload = models.CharField(max_length=64, blank=True, default="")
    licence = models.CharField(max_length=100, blank=True, default="")
    note = models.CharField(max_length=1000, blank=True, default="")
    tags = models.JSONField(default=dict, blank=True)
    facts = models.JSONField(default=dict, blank=True)
    state = models.CharField(max_length=16, choices=ArtifactState, default=ArtifactState.REGISTERED)
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="artifacts"
    )
    owner = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="artifacts"
    )
    os_user = models.CharField(max_length=100, blank=True, default="")
    start_key = models.CharField(max_length=64)
    data_key = models.CharField(max_length=64)
    registered_us = models.BigIntegerField()
    is_linked = models.BooleanField(default=False, db_column="joined")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "digest"], name="artifact_once_per_lab"),
            models.CheckConstraint(
                condition=Q(bytes__gte=0) & Q(files__gte=0), name="artifact_not_below_zero"
            ),
        ]
        indexes = [
            models.Index(fields=["lab", "kind", "-registered_us"], name="artifact_by_kind"),
            models.Index(fields=["lab", "registered_us", "id"], name="artifact_by_registration"),
            models.Index(fields=["lab", "name", "id"], name="artifact_by_name"),
            models.Index(fields=["lab", "start_key"], name="artifact_by_start"),
            models.Index(fields=["lab", "data_key"], name="artifact_by_data"),
            models.Index(
                fields=["lab", "payload"], name="artifact_by_payload", condition=~Q(payload="")
            ),
            models.Index(
                fields=["lab", "id"], name="artifact_to_join", condition=Q(is_linked=False)
            ),
            models.Index(fields=["lab"], name="artifact_promoted", condition=Q(state="promoted")),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.digest[:12]}"


class Alias(models.Model):
    """Another digest of the same content."""

    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="aliases")
    algorithm = models.CharField(max_length=8, choices=Algorithm)
    value = models.CharField(max_length=64, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["artifact", "algorithm"], name="alias_once_per_algorithm"
            )
        ]

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.value}"


class Copy(models.Model):
    """A copy of an artifact: a path on a node, or the address of an object (``node`` null).

    A path holds one artifact at a time, the last one registered there. ``location_key`` is the
    SHA-256 of node and path, because paths are too long for an index. ``first_observed_us``: when
    this artifact was first registered there, counted again after a plan removed it.
    ``restarted_us``: when other content appeared there, or content that a plan had removed; the
    file's own time can be older. ``last_observed_us``: when it was last confirmed there.
    ``hashed_us``: when it was last read. ``own_bytes``: bytes that no other copy uses, besides its
    ``shared_bytes``; null: it shares no known files, so it uses the size of its artifact.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="copies")
    node = models.ForeignKey(
        Node, on_delete=models.CASCADE, null=True, blank=True, related_name="copies"
    )
    path = models.TextField()
    location_key = models.CharField(max_length=64, db_column="place")
    medium = models.CharField(max_length=8, choices=Medium, default=Medium.UNKNOWN)
    state = models.CharField(max_length=8, choices=CopyState, default=CopyState.PRESENT)
    modified_us = models.BigIntegerField(null=True, blank=True)
    first_observed_us = models.BigIntegerField(db_column="first_us")
    restarted_us = models.BigIntegerField(default=0)
    last_observed_us = models.BigIntegerField(db_column="seen_us")
    hashed_us = models.BigIntegerField()
    own_bytes = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "location_key"], name="one_artifact_at_a_place"),
            models.CheckConstraint(
                condition=Q(own_bytes__isnull=True) | Q(own_bytes__gte=0),
                name="copy_own_bytes_not_negative",
            ),
        ]
        # A covering index: stored bytes are counted without reading the long paths.
        indexes = [
            models.Index(
                fields=["lab", "state", "artifact", "medium", "node"], name="copy_by_state"
            ),
            models.Index(
                fields=["lab"], name="copy_sharing_files", condition=Q(own_bytes__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return self.path


class SharedBytes(models.Model):
    """Bytes of files that a copy shares with other copies of its node.

    ``key``: equal for all copies that share exactly these files. ``copies``: their number; null:
    files with other names (hard links, links), which deleting the copies may not free.
    """

    copy = models.ForeignKey(
        Copy, on_delete=models.CASCADE, related_name="shared_bytes", db_index=False
    )
    key = models.CharField(max_length=64)
    bytes = models.BigIntegerField()
    copies = models.IntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["copy", "key"], name="shared_bytes_once_per_copy"),
            models.CheckConstraint(condition=Q(bytes__gte=0), name="shared_bytes_not_negative"),
        ]
        indexes = [models.Index(fields=["key"], name="shared_bytes_by_key")]

    def __str__(self) -> str:
        return f"{self.bytes} of {self.copy_id}"


class LineageEdge(models.Model):
    """A run produced an artifact, started from it or read it."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="artifact_edges")
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="run_edges")
    role = models.CharField(max_length=16, choices=LineageRole)
    source = models.CharField(
        max_length=12, choices=LineageSource, default=LineageSource.REPORTED, db_column="way"
    )
    recorded_us = models.BigIntegerField(db_column="told_us")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "artifact", "role"], name="lineage_edge_once")
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.role} {self.artifact_id}"


class Pin(models.Model):
    """A person's request to retain an artifact, with a reason. A pin is ended, not deleted."""

    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="pins")
    by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    reason = models.CharField(max_length=300)
    from_us = models.BigIntegerField()
    ended_us = models.BigIntegerField(null=True, blank=True)
    ended_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["artifact"], condition=Q(ended_us__isnull=True), name="one_pin_at_a_time"
            ),
        ]

    def __str__(self) -> str:
        return self.reason


class Hold(models.Model):
    """A dated request to retain artifacts for ``[from_hour, until_hour)``, whole UTC hours.
    ``until_hour`` null: until lifted.

    It names one of three subjects: an artifact, all artifacts of a project, or all artifacts that a
    run produced or read. Holds that ended are never deleted.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="holds")
    artifact = models.ForeignKey(
        Artifact, on_delete=models.CASCADE, null=True, blank=True, related_name="holds"
    )
    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, null=True, blank=True, related_name="holds"
    )
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, null=True, blank=True, related_name="holds"
    )
    reason = models.CharField(max_length=300)
    from_hour = models.BigIntegerField()
    until_hour = models.BigIntegerField(null=True, blank=True)
    by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    placed_us = models.BigIntegerField()
    lifted_us = models.BigIntegerField(null=True, blank=True)
    lifted_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(artifact__isnull=False, project__isnull=True, run__isnull=True)
                | Q(artifact__isnull=True, project__isnull=False, run__isnull=True)
                | Q(artifact__isnull=True, project__isnull=True, run__isnull=False),
                name="hold_names_one_thing",
            ),
            models.CheckConstraint(
                condition=Q(until_hour__isnull=True) | Q(until_hour__gt=F("from_hour")),
                name="hold_ends_after_it_begins",
            ),
        ]
        indexes = [
            models.Index(
                fields=["lab", "until_hour"],
                name="hold_not_lifted",
                condition=Q(lifted_us__isnull=True),
            )
        ]

    def __str__(self) -> str:
        return self.description

    @property
    def until(self) -> str:
        """Return the end of the hold as text, UTC."""
        if self.until_hour is None:
            return "until it is lifted"
        return f"until {utc(self.until_hour * US_PER_HOUR):%Y-%m-%d %H:%M} UTC"

    @property
    def description(self) -> str:
        """Return the reason why the hold protects an artifact."""
        subject = (
            f"project {self.project.name[:60]} is "
            if self.project
            else f"run {self.run.name[:60]} is "
            if self.run
            else ""
        )
        return f"{subject}held {self.until}: {self.reason}"


class RetentionPeriod(models.Model):
    """The retention period of a class in days, for a project or (``project`` null) for the lab.

    ``days`` null: artifacts of the class are never proposed.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="retention_periods")
    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, null=True, blank=True, related_name="retention_periods"
    )
    retention_class = models.CharField(max_length=16, choices=RetentionClass, db_column="kept")
    days = models.IntegerField(null=True, blank=True)

    class Meta:
        db_table = "artifacts_retentiondays"
        constraints = [
            models.UniqueConstraint(
                fields=["project", "retention_class"],
                condition=Q(project__isnull=False),
                name="retention_once_per_project",
            ),
            models.UniqueConstraint(
                fields=["lab", "retention_class"],
                condition=Q(project__isnull=True),
                name="retention_once_per_lab",
            ),
            models.CheckConstraint(
                condition=Q(days__isnull=True) | Q(days__gte=0), name="retention_days_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.retention_class} {self.days}"


class CleanupPlan(models.Model):
    """Copies on one node that can be deleted. Only ``apply-plan`` on that node moves or deletes
    files.

    ``grace_until_us``: owners can object until then, and the plan cannot be approved before.
    ``trash_days``: how long trashed copies can be restored.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="cleanup_plans")
    uuid = models.UUIDField(unique=True, default=uuid4)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="cleanup_plans")
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="cleanup_plans"
    )
    state = models.CharField(max_length=12, choices=PlanState, default=PlanState.DRAFT)
    created_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, related_name="+", db_column="made_by_id"
    )
    created_us = models.BigIntegerField(db_column="made_us")
    grace_until_us = models.BigIntegerField(null=True, blank=True)
    trash_days = models.IntegerField(default=14)
    approved_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    approved_us = models.BigIntegerField(null=True, blank=True)
    ended_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        db_table = "artifacts_plan"
        constraints = [
            # Two plans of one node could each delete the copy that the other relies on.
            models.UniqueConstraint(
                fields=["node"],
                condition=Q(state__in=("draft", "told", "approved")),
                name="one_open_plan_per_node",
            ),
            models.CheckConstraint(condition=Q(trash_days__gte=1), name="plan_a_day_in_the_trash"),
        ]

    def __str__(self) -> str:
        return f"{self.uuid} {self.state}"


class CleanupItem(models.Model):
    """A copy in a cleanup plan, as it was when the plan was created.

    ``storage_mj``: energy of one year of storage, null where the medium is unknown. ``retrain_mj``:
    energy of the run that produced the artifact (``retrain_run``), null if not measured.
    ``storage_ug`` and ``retrain_ug``: their location-based emissions, null without a factor.
    ``previous_state``: state of the artifact before its owner was notified. ``parent_item``: item
    of the folder with which it was trashed.
    """

    plan = models.ForeignKey(CleanupPlan, on_delete=models.CASCADE, related_name="items")
    copy = models.ForeignKey(Copy, on_delete=models.CASCADE, related_name="cleanup_items")
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="cleanup_items")
    retention_class = models.CharField(max_length=16, choices=RetentionClass, db_column="kept")
    is_last_copy = models.BooleanField()
    due_us = models.BigIntegerField()
    storage_mj = models.BigIntegerField(null=True, blank=True)
    retrain_mj = models.BigIntegerField(null=True, blank=True)
    storage_ug = models.BigIntegerField(null=True, blank=True)
    retrain_ug = models.BigIntegerField(null=True, blank=True)
    retrain_run = models.ForeignKey(
        Run, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    selected = models.BooleanField(db_column="chosen")
    objection = models.CharField(max_length=300, blank=True, default="")
    objected_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    previous_state = models.CharField(
        max_length=16, choices=ArtifactState, blank=True, default="", db_column="before"
    )
    outcome = models.CharField(max_length=8, choices=ItemOutcome, blank=True, default="")
    message = models.CharField(max_length=300, blank=True, default="", db_column="word")
    outcome_us = models.BigIntegerField(null=True, blank=True)
    parent_item = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="contained_items",
        db_column="went_with_id",
    )

    class Meta:
        db_table = "artifacts_planline"
        constraints = [models.UniqueConstraint(fields=["plan", "copy"], name="copy_once_per_plan")]

    def __str__(self) -> str:
        return f"{self.copy_id} in {self.plan_id}"


class Notification(models.Model):
    """A person was notified of a plan at ``notified_us``, on every page. ``mail``: state of the
    mail.

    ``own_items``: selected items of this person. ``other_items``: selected items without an owner
    in the lab, for which this person stands in. ``name``: the user name at that time, because the
    account may be deleted.
    """

    plan = models.ForeignKey(CleanupPlan, on_delete=models.CASCADE, related_name="notifications")
    user = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    name = models.CharField(max_length=150)
    own_items = models.IntegerField(db_column="own")
    other_items = models.IntegerField(db_column="others")
    notified_us = models.BigIntegerField(db_column="told_us")
    mail = models.CharField(max_length=12, choices=MailState)
    mailed_us = models.BigIntegerField(null=True, blank=True)
    message = models.CharField(max_length=300, blank=True, default="", db_column="word")

    class Meta:
        db_table = "artifacts_notice"
        constraints = [models.UniqueConstraint(fields=["plan", "user"], name="told_once_of_a_plan")]

    def __str__(self) -> str:
        return f"{self.name} of {self.plan_id}"


class ReuseTerm(models.Model):
    """A term of a model (see ``reuse.similarity``)."""

    pk = models.CompositePrimaryKey("lab", "kind", "term", "artifact")
    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+", db_index=False)
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="reuse_terms")
    kind = models.SmallIntegerField(choices=TermKind)
    term = models.CharField(max_length=40)

    def __str__(self) -> str:
        return f"{self.kind} {self.term}"
