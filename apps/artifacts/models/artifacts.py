"""Checkpoints, models, datasets, logs: known by their content, kept as copies, joined with the runs they came of."""

from django.db import models
from django.db.models import Q

from apps.accounts.models import Lab, Project, User
from apps.artifacts.choices import Algorithm, ArtifactState, CopyState, Form, Kind, Medium, Role, Way
from apps.fleet.models import Node
from apps.runs.models import Run


class Artifact(models.Model):
    """Content, known by its digest: SHA-256 of a file, or of a folder's manifest (docs/artifacts.md).

    ``payload``: SHA-256 of a safetensors file without its header. ``start_key`` and ``data_key``: what a fingerprint's
    parts M and D would be for it, so that runs that began from it or read it are found. ``owner`` null: nobody known here.
    ``facts``: what is known of its inside (parameters, tensors, architecture, …), as told.
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
    project = models.ForeignKey(Project, on_delete=models.PROTECT, null=True, blank=True, related_name="artifacts")
    owner = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="artifacts")
    os_user = models.CharField(max_length=100, blank=True, default="")
    start_key = models.CharField(max_length=64)
    data_key = models.CharField(max_length=64)
    registered_us = models.BigIntegerField()
    joined = models.BooleanField(default=False)  # with the runs that were there when it was last told of

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "digest"], name="artifact_once_per_lab"),
            models.CheckConstraint(condition=Q(bytes__gte=0) & Q(files__gte=0), name="artifact_not_below_zero"),
        ]
        indexes = [
            models.Index(fields=["lab", "kind", "-registered_us"], name="artifact_by_kind"),
            models.Index(fields=["lab", "registered_us", "id"], name="artifact_by_registration"),
            models.Index(fields=["lab", "name", "id"], name="artifact_by_name"),
            models.Index(fields=["lab", "start_key"], name="artifact_by_start"),
            models.Index(fields=["lab", "data_key"], name="artifact_by_data"),
            models.Index(fields=["lab", "payload"], name="artifact_by_payload", condition=~Q(payload="")),
            models.Index(fields=["lab", "id"], name="artifact_to_join", condition=Q(joined=False)),
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
        constraints = [models.UniqueConstraint(fields=["artifact", "algorithm"], name="alias_once_per_algorithm")]

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.value}"


class Copy(models.Model):
    """Where an artifact lies: a path on a node, or the address of an object (``node`` null).

    A path holds one artifact at a time, the last that was found there. ``place`` is the SHA-256 of node and path, as paths
    are longer than an index takes. ``first_us``: when this artifact was first found there, anew after a plan took it away;
    ``seen_us``: when somebody last found it there; ``hashed_us``: when it was last read.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="copies")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, null=True, blank=True, related_name="copies")
    path = models.TextField()
    place = models.CharField(max_length=64)
    medium = models.CharField(max_length=8, choices=Medium, default=Medium.UNKNOWN)
    state = models.CharField(max_length=8, choices=CopyState, default=CopyState.PRESENT)
    modified_us = models.BigIntegerField(null=True, blank=True)
    first_us = models.BigIntegerField()
    seen_us = models.BigIntegerField()
    hashed_us = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "place"], name="one_artifact_at_a_place"),
        ]
        # What a lab keeps is counted from this alone: paths are long.
        indexes = [models.Index(fields=["lab", "state", "artifact", "medium", "node"], name="copy_by_state")]

    def __str__(self) -> str:
        return self.path


class LineageEdge(models.Model):
    """A run produced an artifact, or began from it, or read it."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="artifact_edges")
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="run_edges")
    role = models.CharField(max_length=16, choices=Role)
    way = models.CharField(max_length=12, choices=Way, default=Way.TOLD)
    told_us = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "artifact", "role"], name="lineage_edge_once")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.role} {self.artifact_id}"


class Pin(models.Model):
    """Somebody says that an artifact stays, and why. Ended, not deleted."""

    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="pins")
    by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    reason = models.CharField(max_length=300)
    from_us = models.BigIntegerField()
    ended_us = models.BigIntegerField(null=True, blank=True)
    ended_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["artifact"], condition=Q(ended_us__isnull=True), name="one_pin_at_a_time"),
        ]

    def __str__(self) -> str:
        return self.reason
