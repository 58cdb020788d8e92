"""Runs: training, evaluation, inference services and data jobs."""

from django.db import models

from apps.accounts.models import Lab, Project, User
from apps.fleet.models import Node
from apps.runs.choices import AttributionSource, Failure, Intent, RunState, Scheduler, Source, Tier


class Run(models.Model):
    """A run, identified by the UUID of its client, or created from the job of its scheduler.

    ``project`` is the project that the run requested. ``charged_project``, ``charged_person`` and
    ``attributed_by`` are derived from it, and from claims and rules at the start of the run
    (apps/attribution). Null is unattributed.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="runs")
    uuid = models.UUIDField()
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="runs"
    )
    requested_project = models.CharField(
        max_length=60, blank=True, default="", db_column="project_asked"
    )
    user = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="runs"
    )
    node = models.ForeignKey(
        Node, on_delete=models.SET_NULL, null=True, blank=True, related_name="runs"
    )
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
    charged_person = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="charged_runs"
    )
    attributed_by = models.CharField(
        max_length=16, choices=AttributionSource, blank=True, default="", db_column="charge_way"
    )

    reported_by = models.CharField(
        max_length=16, choices=Source, blank=True, default="", db_column="teller"
    )
    intent = models.CharField(max_length=16, choices=Intent, default=Intent.TRAIN)
    sweep = models.CharField(max_length=100, blank=True, default="")
    parent = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="children"
    )
    # A reported parent that is not registered yet. Its registration sets ``parent``.
    requested_parent = models.UUIDField(null=True, blank=True, db_column="parent_asked")
    # The estimate that the registration named. apps.planner attaches it, or returns a warning.
    requested_estimate = models.UUIDField(null=True, blank=True)
    tags = models.JSONField(default=dict, blank=True)
    last_report_us = models.BigIntegerField(
        null=True, blank=True, db_column="seen_us"
    )  # by the server's clock
    failure = models.CharField(max_length=16, choices=Failure, blank=True, default="")
    failure_point = models.CharField(max_length=64, blank=True, default="")
    failure_text = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "uuid"], name="run_uuid_once_per_lab"),
            models.CheckConstraint(
                condition=models.Q(ended_us__isnull=True)
                | models.Q(ended_us__gte=models.F("started_us")),
                name="run_ends_after_start",
            ),
        ]
        indexes = [
            models.Index(fields=["lab", "-started_us"], name="run_by_start"),
            models.Index(fields=["lab", "cluster", "job_id"], name="run_by_job"),
            models.Index(
                fields=["lab", "requested_parent"],
                name="run_by_parent_asked",
                condition=models.Q(requested_parent__isnull=False),
            ),
            models.Index(
                fields=["lab", "last_report_us"],
                name="run_going_on",
                condition=models.Q(state__in=("running", "lost")),
            ),
            models.Index(
                fields=["lab", "uuid"],
                name="run_that_failed",
                condition=models.Q(state="failed"),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def active_until_us(self, now: int) -> int:
        """Return the end of a run in µs UTC: last report of a lost run, ``now`` for a running
        one.
        """
        if self.ended_us is not None:
            return self.ended_us
        return (
            max(self.last_report_us or self.started_us, self.started_us)
            if self.state == RunState.LOST
            else now
        )


class ExternalId(models.Model):
    """The id of a run in another tool. The same id of the same tool is the same run."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="external_ids")
    tool = models.CharField(max_length=16)
    value = models.CharField(max_length=200)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["lab", "tool", "value"], name="external_id_once_per_lab"
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.value}"


class Fingerprint(models.Model):
    """The parts of a run's fingerprint (docs/fingerprint.md); '' and null are unknown.

    ``params`` and ``seeds`` map names to hashes. Empty ``seeds`` (``{}``) means that no seed was
    set. ``told`` has the plain values that may be stored. ``recipe`` is the sum of the parameters
    that the project compares. ``*_weak`` is '' if only the verified hash is known. ``labels`` maps
    names to hashes. ``dropped`` has names, in version lc2 with hashes ('' for secrets).
    ``not_compared`` names what may change the result and was not examined.
    """

    run = models.OneToOneField(
        Run, on_delete=models.CASCADE, primary_key=True, related_name="fingerprint"
    )
    version = models.CharField(max_length=8, default="lc2")
    entry = models.CharField(max_length=64, blank=True, default="")
    entry_name = models.CharField(max_length=255, blank=True, default="")
    code = models.CharField(max_length=64, blank=True, default="")
    code_weak = models.CharField(max_length=64, blank=True, default="")
    code_normal = models.CharField(max_length=64, blank=True, default="")
    commit = models.CharField(max_length=64, blank=True, default="")
    dirty = models.BooleanField(null=True, blank=True)
    params = models.JSONField(null=True, blank=True)
    told = models.JSONField(default=dict, blank=True)
    dropped = models.JSONField(default=list, blank=True)
    labels = models.JSONField(null=True, blank=True)
    not_compared = models.JSONField(default=list, blank=True)
    recipe = models.CharField(max_length=32, blank=True, default="")
    seeds = models.JSONField(null=True, blank=True)
    data = models.CharField(max_length=64, blank=True, default="")
    data_weak = models.CharField(max_length=64, blank=True, default="")
    data_items = models.JSONField(default=list, blank=True)
    start = models.CharField(max_length=64, blank=True, default="")
    start_weak = models.CharField(max_length=64, blank=True, default="")
    start_name = models.CharField(max_length=255, blank=True, default="")
    environment = models.JSONField(default=dict, blank=True)
    hardware = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return f"{self.version} of {self.run_id}"


class TierKey(models.Model):
    """A key of a run: the first 63 bits of SHA-256 over the tier's parts.

    Runs with equal keys are compared in full. Lookups use the primary key.
    """

    pk = models.CompositePrimaryKey("lab", "tier", "key", "run")
    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+", db_index=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="tier_keys")
    tier = models.SmallIntegerField(choices=Tier)
    key = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.tier} {self.key}"


class CodeState(models.Model):
    """The hashed lines of one normalised code state. They give its similarity without the code."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+", db_index=False)
    normal = models.CharField(max_length=64)
    shingles = models.BinaryField()  # sorted 32-bit integers, big endian

    class Meta:
        db_table = "runs_codetext"
        constraints = [
            models.UniqueConstraint(fields=["lab", "normal"], name="code_text_once_per_lab")
        ]

    def __str__(self) -> str:
        return self.normal[:12]


class MinHashBand(models.Model):
    """One MinHash band of a code state. States that share a band may be similar."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+", db_index=False)
    code_state = models.ForeignKey(
        CodeState, on_delete=models.CASCADE, related_name="bands", db_column="text_id"
    )
    band = models.BigIntegerField()

    class Meta:
        db_table = "runs_codeband"
        indexes = [models.Index(fields=["lab", "band", "-code_state"], name="code_band_lookup")]

    def __str__(self) -> str:
        return str(self.band)


class Metric(models.Model):
    """One metric of a run with its latest value.

    The curve is in MetricPoint. ``count`` is its number of points.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="metrics")
    name = models.CharField(max_length=200)
    count = models.BigIntegerField(default=0)
    last_step = models.BigIntegerField(null=True, blank=True)
    last_value = models.FloatField(null=True, blank=True)
    min_value = models.FloatField(null=True, blank=True, db_column="least")
    max_value = models.FloatField(null=True, blank=True, db_column="greatest")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="metric_once_per_run")]

    def __str__(self) -> str:
        return self.name


class MetricPoint(models.Model):
    """One value of a metric at a step.

    ``value`` is null for a value that is not finite. ``special_value`` names it.
    """

    metric = models.ForeignKey(
        Metric, on_delete=models.CASCADE, related_name="points", db_index=False
    )
    step = models.BigIntegerField()
    at_us = models.BigIntegerField()
    value = models.FloatField(null=True, blank=True)
    special_value = models.CharField(max_length=9, blank=True, default="", db_column="word")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["metric", "step"], name="metric_point_once_per_step")
        ]

    def __str__(self) -> str:
        return f"{self.step}: {self.value}"


class IgnoredParameter(models.Model):
    """A parameter that a project ignores when runs are compared."""

    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, related_name="ignored_parameters"
    )
    name = models.CharField(max_length=256)
    by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    since_us = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="ignored_parameter_once")
        ]

    def __str__(self) -> str:
        return self.name


class RefusedMessage(models.Model):
    """A message of a node about a run that was refused, kept until a manager decides.

    ``reason``: the text of the refusal. ``digest`` (SHA-256) of ``body``: a repeated message is
    stored once. The row is deleted with the decision, which the audit log names.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="refused_messages")
    run_uuid = models.UUIDField()
    verb = models.CharField(max_length=8)
    body = models.JSONField()
    digest = models.CharField(max_length=64)
    reason = models.CharField(max_length=500)
    received_us = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node", "run_uuid", "verb", "digest"], name="refused_message_once"
            ),
            models.CheckConstraint(
                condition=models.Q(verb__in=("PUT", "PATCH")), name="refused_message_verb"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.run_uuid}"


class SavedView(models.Model):
    """A named view of the list of runs: the query of its address, without defaults.

    ``owner`` null: of the lab. The default view of a person, else of the lab, opens with the list.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="run_views")
    owner = models.ForeignKey(
        User, on_delete=models.CASCADE, null=True, blank=True, related_name="run_views"
    )
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=2000, blank=True)
    is_default = models.BooleanField(default=False)
    created_us = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["lab", "owner", "name"], name="run_view_name_once", nulls_distinct=False
            ),
            models.UniqueConstraint(
                fields=["lab", "owner"],
                name="run_view_default_once",
                condition=models.Q(is_default=True),
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        return self.name


class RunComment(models.Model):
    """A comment of a person on a run."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="comments")
    author = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    text = models.TextField()
    created_us = models.BigIntegerField()

    def __str__(self) -> str:
        return self.text[:60]
