"""CodeCarbon: sources, runs, raw messages and parsed intervals."""

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab, Project, Token
from apps.fleet.models import Node
from apps.runs.models import Run
from apps.trackers.codecarbon.choices import Channel


class CodeCarbonSource(models.Model):
    """A CodeCarbon token (null: imported files), with its project and node.

    ``bound``: ``node`` is a node of the lab, and its collector takes precedence. Otherwise ``node``
    represents unknown nodes.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    token = models.OneToOneField(
        Token, on_delete=models.PROTECT, null=True, blank=True, related_name="codecarbon"
    )
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="+")
    bound = models.BooleanField()
    client_pue_ppm = models.BigIntegerField()
    created_us = models.BigIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(client_pue_ppm__gte=1_000_000), name="codecarbon_pue_at_least_one"
            ),
            models.UniqueConstraint(
                fields=["lab", "project", "node"],
                condition=Q(token__isnull=True),
                name="codecarbon_file_source_once",
            ),
        ]

    def __str__(self) -> str:
        return self.token.name if self.token else f"files of {self.node}"


class CodeCarbonRun(models.Model):
    """A run of CodeCarbon. ``uuid`` is its id in CodeCarbon; ``run`` is null until the first
    message is processed. A client that creates its run twice has one ``run``.

    ``signature`` is a hash of its hardware, '' if unknown.
    """

    source = models.ForeignKey(CodeCarbonSource, on_delete=models.CASCADE, related_name="runs")
    uuid = models.UUIDField()
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, null=True, blank=True, related_name="codecarbon"
    )
    facts = models.JSONField(default=dict)
    signature = models.CharField(max_length=64, blank=True, default="")
    received_us = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "uuid"], name="codecarbon_run_once")
        ]
        indexes = [
            models.Index(
                fields=["signature"], name="codecarbon_signature", condition=~Q(signature="")
            )
        ]

    def __str__(self) -> str:
        return str(self.uuid)


class CodeCarbonPost(models.Model):
    """A raw message. ``processed`` false: queued. ``problem``: reason for a rejection, or ''."""

    tracked_run = models.ForeignKey(
        CodeCarbonRun,
        on_delete=models.CASCADE,
        related_name="posts",
        db_index=False,
        db_column="told_id",
    )
    channel = models.SmallIntegerField(choices=Channel, db_column="door")
    body = models.BinaryField()
    received_us = models.BigIntegerField()
    processed = models.BooleanField(default=False, db_column="worked")
    problem = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        indexes = [
            models.Index(
                fields=["tracked_run", "id"],
                name="codecarbon_waiting",
                condition=Q(processed=False),
            ),
            models.Index(fields=["tracked_run", "received_us"], name="codecarbon_post_of_run"),
        ]

    def __str__(self) -> str:
        return f"{self.get_channel_display()} {self.received_us}"


class CodeCarbonInterval(models.Model):
    """Energy of one time interval, with CodeCarbon's PUE divided out.

    ``client_ug``: carbon by CodeCarbon, never added to LabCarbon's; null if none. ``at_us``: end by
    the client's clock. ``[start_us, end_us)``: interval to which the energy is assigned.
    """

    tracked_run = models.ForeignKey(
        CodeCarbonRun, on_delete=models.CASCADE, related_name="intervals", db_column="told_id"
    )
    post = models.OneToOneField(CodeCarbonPost, on_delete=models.CASCADE, related_name="interval")
    at_us = models.BigIntegerField()
    start_us = models.BigIntegerField()
    end_us = models.BigIntegerField()
    gpu_mj = models.BigIntegerField()
    cpu_mj = models.BigIntegerField()
    ram_mj = models.BigIntegerField()
    energy_mj = models.BigIntegerField()
    client_ug = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tracked_run", "at_us", "energy_mj"], name="codecarbon_interval_once"
            ),
            models.CheckConstraint(
                condition=Q(end_us__gt=F("start_us")), name="codecarbon_interval_not_empty"
            ),
            models.CheckConstraint(
                condition=Q(energy_mj=F("gpu_mj") + F("cpu_mj") + F("ram_mj")),
                name="codecarbon_interval_sums",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.start_us}: {self.energy_mj} mJ"


class SharedMachine(models.Model):
    """Two simultaneous runs on equal hardware with nearly equal readings.

    They are probably ranks of one job, and each measured the complete node.
    ``energy_mj``: energy of the later run in the matching intervals.
    """

    primary = models.ForeignKey(
        CodeCarbonRun,
        on_delete=models.CASCADE,
        related_name="shared_as_primary",
        db_column="first_id",
    )
    duplicate = models.ForeignKey(
        CodeCarbonRun,
        on_delete=models.CASCADE,
        related_name="shared_as_duplicate",
        db_column="again_id",
    )
    intervals = models.IntegerField()
    energy_mj = models.BigIntegerField()

    class Meta:
        db_table = "trackers_samemachine"
        constraints = [
            models.UniqueConstraint(
                fields=["primary", "duplicate"], name="codecarbon_same_machine_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.primary} and {self.duplicate}"
