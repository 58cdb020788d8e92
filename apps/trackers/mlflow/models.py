"""MLflow servers, the position of their polling, and their runs, curves and files."""

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab, Project, User
from apps.fleet.models import Device, Node
from apps.runs.models import Run
from apps.trackers.mlflow.choices import FileOutcome, SignIn


class MlflowSource(models.Model):
    """An MLflow server of a lab.

    - ``secret``: encrypted (apps.accounts.encryption).
    - ``removed_us``: set if the server is removed. It is not polled.
    - ``node``: node of the GPU energy of runs with an unknown node.
    - ``bound``: ``node`` is a node of the lab, and its collector takes precedence. Otherwise
      ``node`` represents unknown nodes.
    - ``project``: project of experiments without a pattern. Null: these are not imported.

    Position of the polling:

    - ``new_from_ms``: start of the newest run.
    - ``all_from_ms``: position of the pass over all runs. Null: no pass is active.
    - ``all_done_us``: end of the last pass.
    - ``files_bytes``: bytes of files read on ``files_day`` (days since 1970).
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=100)
    address = models.CharField(max_length=300)
    sign_in = models.CharField(max_length=8, choices=SignIn, default=SignIn.NONE)
    user = models.CharField(max_length=200, blank=True, default="")
    secret = models.TextField(blank=True, default="")
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="+")
    bound = models.BooleanField()
    writes_verdicts = models.BooleanField(default=True, db_column="tells_verdicts")
    reads_files = models.BooleanField(default=True)
    enabled = models.BooleanField(default=True, db_column="on")
    created_by = models.ForeignKey(
        User,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        db_column="made_by_id",
    )
    created_us = models.BigIntegerField(db_column="made_us")
    removed_us = models.BigIntegerField(null=True, blank=True)

    polled_us = models.BigIntegerField(null=True, blank=True, db_column="asked_us")
    succeeded_us = models.BigIntegerField(null=True, blank=True, db_column="answered_us")
    problem = models.CharField(max_length=400, blank=True, default="")
    failures = models.IntegerField(default=0)
    due_us = models.BigIntegerField(default=0)
    version = models.CharField(max_length=40, blank=True, default="")
    experiments = models.IntegerField(null=True, blank=True)
    experiments_imported = models.IntegerField(null=True, blank=True, db_column="experiments_taken")
    skew_us = models.BigIntegerField(null=True, blank=True)
    new_from_ms = models.BigIntegerField(default=0)
    all_from_ms = models.BigIntegerField(null=True, blank=True)
    all_done_us = models.BigIntegerField(null=True, blank=True)
    files_day = models.IntegerField(default=0)
    files_bytes = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "address"], name="mlflow_source_once_per_lab"),
            models.CheckConstraint(
                condition=Q(sign_in="none") | ~Q(secret="") | Q(removed_us__isnull=False),
                name="mlflow_source_signs_in",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class MlflowExperiments(models.Model):
    """Experiments with a name like ``pattern`` (``*`` and ``?``) are charged to ``project``.

    The first match applies.
    """

    source = models.ForeignKey(
        MlflowSource, on_delete=models.CASCADE, related_name="patterns", db_index=False
    )
    position = models.SmallIntegerField()
    pattern = models.CharField(max_length=200)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["source", "position"], name="mlflow_pattern_position_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.pattern} = {self.project_id}"


class MlflowRun(models.Model):
    """A run of MLflow.

    - ``run``: the imported run. Null if it is not imported (see ``problem``).
    - ``is_linked``: another source reports the run, and MLflow only adds to it.
    - ``digest``: of the complete run, so that an unchanged run is not read again.
    - ``facts_digest``: of everything except its metrics.
    - ``is_open``: running in MLflow, or partly read.
    - ``parent``: id of the parent run, or ''.
    - ``node_uuid``: node that its process reported.
    - ``quiet``: part of another run, so no verdict is written.
    - ``verdict``: text to write. ``written_verdict``: text in MLflow. ``tries``, ``due_us``: of
      the write.
    - ``files_read``: outputs are read, or are unreadable. ``files_left``: number of other files.
      ``files_problem``, ``files_tries``, ``files_due_us``: of the read.
    """

    source = models.ForeignKey(
        MlflowSource, on_delete=models.CASCADE, related_name="runs", db_index=False
    )
    mlflow_id = models.CharField(max_length=64)
    parent = models.CharField(max_length=64, blank=True, default="")
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, null=True, blank=True, related_name="mlflow"
    )
    node_uuid = models.UUIDField(null=True, blank=True)
    is_linked = models.BooleanField(default=False, db_column="joined")
    quiet = models.BooleanField(default=False)
    is_open = models.BooleanField(default=True)
    digest = models.CharField(max_length=64, blank=True, default="")
    facts_digest = models.CharField(max_length=64, blank=True, default="")
    problem = models.CharField(max_length=300, blank=True, default="")
    last_listed_us = models.BigIntegerField(db_column="seen_us")
    verdict = models.CharField(max_length=500, blank=True, default="")
    written_verdict = models.CharField(
        max_length=500, blank=True, default="", db_column="told_verdict"
    )
    verdict_problem = models.CharField(
        max_length=300, blank=True, default="", db_column="tell_problem"
    )
    tries = models.IntegerField(default=0)
    due_us = models.BigIntegerField(default=0)
    files_read = models.BooleanField(default=False)
    files_left = models.IntegerField(default=0)
    files_problem = models.CharField(max_length=300, blank=True, default="")
    files_tries = models.IntegerField(default=0)
    files_due_us = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "mlflow_id"], name="mlflow_run_once")
        ]
        indexes = [
            models.Index(fields=["source", "id"], name="mlflow_open", condition=Q(is_open=True)),
            models.Index(
                fields=["source", "parent"], name="mlflow_nested", condition=~Q(parent="")
            ),
            models.Index(
                fields=["source", "due_us"],
                name="mlflow_to_tell",
                condition=~Q(verdict=F("written_verdict")),
            ),
            models.Index(
                fields=["source", "id"], name="mlflow_files_to_read", condition=Q(files_read=False)
            ),
        ]

    def __str__(self) -> str:
        return self.mlflow_id


class MlflowSeries(models.Model):
    """Read position of one metric.

    - ``token``: next page. ``points``: number of points before it.
    - ``latest_value``: newest value at the last read.
    - ``is_complete``: read from its start after the end of the run.

    For GPU power:

    - ``device``: device of the GPU.
    - ``until_us``: end of the assigned energy.
    - ``last_sample_us``: newest sample that is not after ``until_us``.
    - ``carry_nj``: remainder below a millijoule.
    """

    tracked_run = models.ForeignKey(
        MlflowRun,
        on_delete=models.CASCADE,
        related_name="series",
        db_index=False,
        db_column="told_id",
    )
    name = models.CharField(max_length=250)
    token = models.CharField(max_length=500, blank=True, default="")
    points = models.BigIntegerField(default=0)
    latest_value = models.CharField(max_length=100, blank=True, default="", db_column="seen")
    is_complete = models.BooleanField(default=False, db_column="whole")
    device = models.ForeignKey(
        Device, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    until_us = models.BigIntegerField(null=True, blank=True)
    last_sample_us = models.BigIntegerField(null=True, blank=True, db_column="held_us")
    carry_nj = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tracked_run", "name"], name="mlflow_series_once")
        ]

    def __str__(self) -> str:
        return self.name


class MlflowFile(models.Model):
    """A file of a run that may be an artifact. ``model``: id of its logged model, '' for a file of
    the run itself.

    ``digest``: SHA-256 of its content, '' if not read (see ``outcome``, ``reason``).
    ``path_hash``: SHA-256 of model and path, because paths are too long for an index.
    """

    tracked_run = models.ForeignKey(
        MlflowRun,
        on_delete=models.CASCADE,
        related_name="files",
        db_index=False,
        db_column="told_id",
    )
    model = models.CharField(max_length=64, blank=True, default="", db_index=True)
    path = models.CharField(max_length=1000)
    path_hash = models.CharField(max_length=64, db_column="place")
    bytes = models.BigIntegerField()
    digest = models.CharField(max_length=64, blank=True, default="")
    outcome = models.CharField(max_length=12, choices=FileOutcome)
    reason = models.CharField(max_length=300, blank=True, default="", db_column="why")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tracked_run", "path_hash"], name="mlflow_file_once")
        ]

    def __str__(self) -> str:
        return self.path
