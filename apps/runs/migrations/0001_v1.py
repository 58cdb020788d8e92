"""The first migration of runs: the tables, indexes and constraints of version 1. It replaces the steps before it."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.core.migration_operations import CreateModels, PostgresSQL

# Databases from before version 1 have this name: the table was renamed there, its primary key was not.
NAME_PRIMARY_KEY = (
    "ALTER TABLE runs_tierkey RENAME CONSTRAINT runs_tierkey_pkey TO runs_newtierkey_pkey"
)


class Migration(migrations.Migration):
    replaces = [
        ("runs", "0001_initial"),
        ("runs", "0002_attribution"),
        ("runs", "0003_fingerprints"),
        ("runs", "0004_unknown_seeds"),
        ("runs", "0005_parents_and_lost_runs"),
        ("runs", "0006_keys_of_runs_without_ids"),
        ("runs", "0007_left_out_keys_side_by_side"),
        ("runs", "0001_squashed_0007"),
    ]

    initial = True

    dependencies = [
        ("accounts", "0001_v1"),
        ("fleet", "0001_v1"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Run",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("uuid", models.UUIDField()),
                        (
                            "requested_project",
                            models.CharField(
                                blank=True, default="", max_length=60, db_column="project_asked"
                            ),
                        ),
                        ("os_user", models.CharField(blank=True, default="", max_length=100)),
                        ("host", models.CharField(blank=True, default="", max_length=255)),
                        ("name", models.CharField(max_length=200)),
                        ("command", models.JSONField(blank=True, default=list)),
                        ("params", models.JSONField(blank=True, default=dict)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("running", "Running"),
                                    ("finished", "Finished"),
                                    ("failed", "Failed"),
                                    ("killed", "Killed"),
                                    ("lost", "Lost"),
                                ],
                                default="running",
                                max_length=16,
                            ),
                        ),
                        ("started_us", models.BigIntegerField()),
                        ("ended_us", models.BigIntegerField(blank=True, null=True)),
                        ("exit_code", models.IntegerField(blank=True, null=True)),
                        ("reported_energy_mj", models.BigIntegerField(blank=True, null=True)),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="runs",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="runs",
                                to="fleet.node",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="runs",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="runs",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("account", models.CharField(blank=True, default="", max_length=100)),
                        (
                            "attributed_by",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("explicit", "Named by the run"),
                                    ("claim", "Claimed"),
                                    ("account", "By account or namespace"),
                                    ("place", "By user or path on a node"),
                                    ("user", "By user"),
                                ],
                                default="",
                                max_length=16,
                                db_column="charge_way",
                            ),
                        ),
                        (
                            "charged_person",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="charged_runs",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "charged_project",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="charged_runs",
                                to="accounts.project",
                            ),
                        ),
                        ("cluster", models.CharField(blank=True, default="", max_length=100)),
                        ("job_facts", models.JSONField(blank=True, default=dict)),
                        ("job_id", models.CharField(blank=True, default="", max_length=64)),
                        ("partition", models.CharField(blank=True, default="", max_length=100)),
                        (
                            "scheduler",
                            models.CharField(
                                blank=True, choices=[("slurm", "Slurm")], default="", max_length=16
                            ),
                        ),
                        (
                            "failure",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("user_error", "Error in the code"),
                                    ("cuda_memory", "GPU memory"),
                                    ("host_memory", "Memory"),
                                    ("shared_memory", "Data loader shared memory"),
                                    ("preempted", "Preempted"),
                                    ("nan", "Loss is NaN"),
                                    ("node", "Node failure"),
                                ],
                                default="",
                                max_length=16,
                            ),
                        ),
                        ("failure_point", models.CharField(blank=True, default="", max_length=64)),
                        ("failure_text", models.TextField(blank=True, default="")),
                        (
                            "intent",
                            models.CharField(
                                choices=[
                                    ("train", "Train"),
                                    ("replicate", "Replicate"),
                                    ("sweep", "Sweep"),
                                    ("ablation", "Ablation"),
                                    ("benchmark", "Benchmark"),
                                    ("debug", "Debug"),
                                ],
                                default="train",
                                max_length=16,
                            ),
                        ),
                        (
                            "parent",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="children",
                                to="runs.run",
                            ),
                        ),
                        (
                            "last_report_us",
                            models.BigIntegerField(blank=True, null=True, db_column="seen_us"),
                        ),
                        ("sweep", models.CharField(blank=True, default="", max_length=100)),
                        ("tags", models.JSONField(blank=True, default=dict)),
                        (
                            "reported_by",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("collector", "Collector"),
                                    ("api", "API"),
                                    ("slurm", "Slurm"),
                                    ("codecarbon", "CodeCarbon"),
                                    ("mlflow", "MLflow"),
                                ],
                                default="",
                                max_length=16,
                                db_column="teller",
                            ),
                        ),
                        (
                            "requested_parent",
                            models.UUIDField(blank=True, null=True, db_column="parent_asked"),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["lab", "-started_us"], name="run_by_start"),
                            models.Index(fields=["lab", "cluster", "job_id"], name="run_by_job"),
                            models.Index(
                                condition=models.Q(("requested_parent__isnull", False)),
                                fields=["lab", "requested_parent"],
                                name="run_by_parent_asked",
                            ),
                            models.Index(
                                condition=models.Q(("state__in", ("running", "lost"))),
                                fields=["lab", "last_report_us"],
                                name="run_going_on",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "uuid"), name="run_uuid_once_per_lab"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("ended_us__isnull", True),
                                    ("ended_us__gte", models.F("started_us")),
                                    _connector="OR",
                                ),
                                name="run_ends_after_start",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CodeState",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("normal", models.CharField(max_length=64)),
                        ("shingles", models.BinaryField()),
                        (
                            "lab",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="accounts.lab",
                            ),
                        ),
                    ],
                    options={
                        "db_table": "runs_codetext",
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "normal"), name="code_text_once_per_lab"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="MinHashBand",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("band", models.BigIntegerField()),
                        (
                            "lab",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "code_state",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="bands",
                                to="runs.codestate",
                                db_column="text_id",
                            ),
                        ),
                    ],
                    options={
                        "db_table": "runs_codeband",
                        "indexes": [
                            models.Index(
                                fields=["lab", "band", "-code_state"], name="code_band_lookup"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ExternalId",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("tool", models.CharField(max_length=16)),
                        ("value", models.CharField(max_length=200)),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="external_ids",
                                to="runs.run",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "tool", "value"), name="external_id_once_per_lab"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="IgnoredParameter",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("name", models.CharField(max_length=256)),
                        ("since_us", models.BigIntegerField()),
                        (
                            "by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="ignored_parameters",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("project", "name"), name="ignored_parameter_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Metric",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("name", models.CharField(max_length=200)),
                        ("count", models.BigIntegerField(default=0)),
                        ("last_step", models.BigIntegerField(blank=True, null=True)),
                        ("last_value", models.FloatField(blank=True, null=True)),
                        ("min_value", models.FloatField(blank=True, null=True, db_column="least")),
                        (
                            "max_value",
                            models.FloatField(blank=True, null=True, db_column="greatest"),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="metrics",
                                to="runs.run",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "name"), name="metric_once_per_run"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="MetricPoint",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("step", models.BigIntegerField()),
                        ("at_us", models.BigIntegerField()),
                        ("value", models.FloatField(blank=True, null=True)),
                        (
                            "special_value",
                            models.CharField(
                                blank=True, default="", max_length=9, db_column="word"
                            ),
                        ),
                        (
                            "metric",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="points",
                                to="runs.metric",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("metric", "step"), name="metric_point_once_per_step"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Fingerprint",
                    fields=[
                        (
                            "run",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="fingerprint",
                                serialize=False,
                                to="runs.run",
                            ),
                        ),
                        ("version", models.CharField(default="lc1", max_length=8)),
                        ("entry", models.CharField(blank=True, default="", max_length=64)),
                        ("entry_name", models.CharField(blank=True, default="", max_length=255)),
                        ("code", models.CharField(blank=True, default="", max_length=64)),
                        ("code_weak", models.CharField(blank=True, default="", max_length=64)),
                        ("code_normal", models.CharField(blank=True, default="", max_length=64)),
                        ("commit", models.CharField(blank=True, default="", max_length=64)),
                        ("dirty", models.BooleanField(blank=True, null=True)),
                        ("params", models.JSONField(blank=True, null=True)),
                        ("told", models.JSONField(blank=True, default=dict)),
                        ("dropped", models.JSONField(blank=True, default=list)),
                        ("recipe", models.CharField(blank=True, default="", max_length=32)),
                        ("seeds", models.JSONField(blank=True, null=True)),
                        ("data", models.CharField(blank=True, default="", max_length=64)),
                        ("data_weak", models.CharField(blank=True, default="", max_length=64)),
                        ("data_items", models.JSONField(blank=True, default=list)),
                        ("start", models.CharField(blank=True, default="", max_length=64)),
                        ("start_weak", models.CharField(blank=True, default="", max_length=64)),
                        ("start_name", models.CharField(blank=True, default="", max_length=255)),
                        ("environment", models.JSONField(blank=True, default=dict)),
                        ("hardware", models.JSONField(blank=True, default=dict)),
                    ],
                ),
                migrations.CreateModel(
                    name="TierKey",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "lab",
                                "tier",
                                "key",
                                "run",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        (
                            "tier",
                            models.SmallIntegerField(
                                choices=[
                                    (10, "the same work"),
                                    (11, "the same work (by names, sizes and times)"),
                                    (15, "the same work except comments and format"),
                                    (
                                        16,
                                        "the same work except comments and format (by names, sizes and times)",
                                    ),
                                    (20, "another seed"),
                                    (21, "another seed (by names, sizes and times)"),
                                    (30, "the same recipe, other code"),
                                    (31, "the same recipe, other code (by names, sizes and times)"),
                                    (40, "the same family"),
                                    (41, "the same family (by names, sizes and times)"),
                                    (55, "differs in one parameter at most"),
                                    (
                                        56,
                                        "differs in one parameter at most (by names, sizes and times)",
                                    ),
                                ]
                            ),
                        ),
                        ("key", models.BigIntegerField()),
                        (
                            "lab",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="tier_keys",
                                to="runs.run",
                            ),
                        ),
                    ],
                ),
            ]
        ),
        PostgresSQL(NAME_PRIMARY_KEY, migrations.RunSQL.noop),
    ]
