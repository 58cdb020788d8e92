"""The first migration of trackers: the tables, indexes and constraints of version 1. It replaces the steps before it."""

import django.db.models.deletion
import django.db.models.expressions
from django.conf import settings
from django.db import migrations, models

from apps.core.migration_operations import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ("trackers", "0001_codecarbon"),
        ("trackers", "0002_mlflow"),
        ("trackers", "0003_mlflow_files"),
        ("trackers", "0001_squashed_0003"),
    ]

    initial = True

    dependencies = [
        ("accounts", "0001_v1"),
        ("fleet", "0001_v1"),
        ("runs", "0001_v1"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="CodeCarbonSource",
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
                        ("bound", models.BooleanField()),
                        ("client_pue_ppm", models.BigIntegerField()),
                        ("created_us", models.BigIntegerField()),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="fleet.node",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "token",
                            models.OneToOneField(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="codecarbon",
                                to="accounts.token",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("client_pue_ppm__gte", 1000000)),
                                name="codecarbon_pue_at_least_one",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("token__isnull", True)),
                                fields=("lab", "project", "node"),
                                name="codecarbon_file_source_once",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CodeCarbonRun",
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
                        ("facts", models.JSONField(default=dict)),
                        ("signature", models.CharField(blank=True, default="", max_length=64)),
                        ("received_us", models.BigIntegerField()),
                        (
                            "run",
                            models.OneToOneField(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="codecarbon",
                                to="runs.run",
                            ),
                        ),
                        (
                            "source",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="runs",
                                to="trackers.codecarbonsource",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("signature", ""), _negated=True),
                                fields=["signature"],
                                name="codecarbon_signature",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("source", "uuid"), name="codecarbon_run_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CodeCarbonPost",
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
                        (
                            "channel",
                            models.SmallIntegerField(
                                choices=[
                                    (1, "Interval, sent to the API"),
                                    (2, "Whole run, sent by the HTTP output"),
                                    (3, "Whole run, imported from a file"),
                                ],
                                db_column="door",
                            ),
                        ),
                        ("body", models.BinaryField()),
                        ("received_us", models.BigIntegerField()),
                        ("processed", models.BooleanField(default=False, db_column="worked")),
                        ("problem", models.CharField(blank=True, default="", max_length=300)),
                        (
                            "tracked_run",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="posts",
                                to="trackers.codecarbonrun",
                                db_column="told_id",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("processed", False)),
                                fields=["tracked_run", "id"],
                                name="codecarbon_waiting",
                            ),
                            models.Index(
                                fields=["tracked_run", "received_us"], name="codecarbon_post_of_run"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CodeCarbonInterval",
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
                        ("at_us", models.BigIntegerField()),
                        ("start_us", models.BigIntegerField()),
                        ("end_us", models.BigIntegerField()),
                        ("gpu_mj", models.BigIntegerField()),
                        ("cpu_mj", models.BigIntegerField()),
                        ("ram_mj", models.BigIntegerField()),
                        ("energy_mj", models.BigIntegerField()),
                        ("client_ug", models.BigIntegerField(blank=True, null=True)),
                        (
                            "post",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="interval",
                                to="trackers.codecarbonpost",
                            ),
                        ),
                        (
                            "tracked_run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="intervals",
                                to="trackers.codecarbonrun",
                                db_column="told_id",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("tracked_run", "at_us", "energy_mj"),
                                name="codecarbon_interval_once",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("end_us__gt", models.F("start_us"))),
                                name="codecarbon_interval_not_empty",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    (
                                        "energy_mj",
                                        django.db.models.expressions.CombinedExpression(
                                            django.db.models.expressions.CombinedExpression(
                                                models.F("gpu_mj"), "+", models.F("cpu_mj")
                                            ),
                                            "+",
                                            models.F("ram_mj"),
                                        ),
                                    )
                                ),
                                name="codecarbon_interval_sums",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SharedMachine",
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
                        ("intervals", models.IntegerField()),
                        ("energy_mj", models.BigIntegerField()),
                        (
                            "duplicate",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="shared_as_duplicate",
                                to="trackers.codecarbonrun",
                                db_column="again_id",
                            ),
                        ),
                        (
                            "primary",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="shared_as_primary",
                                to="trackers.codecarbonrun",
                                db_column="first_id",
                            ),
                        ),
                    ],
                    options={
                        "db_table": "trackers_samemachine",
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("primary", "duplicate"), name="codecarbon_same_machine_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="MlflowSource",
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
                        ("name", models.CharField(max_length=100)),
                        ("address", models.CharField(max_length=300)),
                        (
                            "sign_in",
                            models.CharField(
                                choices=[
                                    ("none", "None (open server)"),
                                    ("password", "User and password"),
                                    ("token", "Bearer token"),
                                ],
                                default="none",
                                max_length=8,
                            ),
                        ),
                        ("user", models.CharField(blank=True, default="", max_length=200)),
                        ("secret", models.TextField(blank=True, default="")),
                        ("bound", models.BooleanField()),
                        (
                            "writes_verdicts",
                            models.BooleanField(default=True, db_column="tells_verdicts"),
                        ),
                        ("enabled", models.BooleanField(default=True, db_column="on")),
                        ("created_us", models.BigIntegerField(db_column="made_us")),
                        ("removed_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "polled_us",
                            models.BigIntegerField(blank=True, null=True, db_column="asked_us"),
                        ),
                        (
                            "succeeded_us",
                            models.BigIntegerField(blank=True, null=True, db_column="answered_us"),
                        ),
                        ("problem", models.CharField(blank=True, default="", max_length=400)),
                        ("failures", models.IntegerField(default=0)),
                        ("due_us", models.BigIntegerField(default=0)),
                        ("version", models.CharField(blank=True, default="", max_length=40)),
                        ("experiments", models.IntegerField(blank=True, null=True)),
                        (
                            "experiments_imported",
                            models.IntegerField(
                                blank=True, null=True, db_column="experiments_taken"
                            ),
                        ),
                        ("skew_us", models.BigIntegerField(blank=True, null=True)),
                        ("new_from_ms", models.BigIntegerField(default=0)),
                        ("all_from_ms", models.BigIntegerField(blank=True, null=True)),
                        ("all_done_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "created_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                                db_column="made_by_id",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="fleet.node",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="accounts.project",
                            ),
                        ),
                        ("files_bytes", models.BigIntegerField(default=0)),
                        ("files_day", models.IntegerField(default=0)),
                        ("reads_files", models.BooleanField(default=True)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "address"), name="mlflow_source_once_per_lab"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("sign_in", "none"),
                                    models.Q(("secret", ""), _negated=True),
                                    ("removed_us__isnull", False),
                                    _connector="OR",
                                ),
                                name="mlflow_source_signs_in",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="MlflowRun",
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
                        ("mlflow_id", models.CharField(max_length=64)),
                        ("parent", models.CharField(blank=True, default="", max_length=64)),
                        ("node_uuid", models.UUIDField(blank=True, null=True)),
                        ("is_linked", models.BooleanField(default=False, db_column="joined")),
                        ("quiet", models.BooleanField(default=False)),
                        ("is_open", models.BooleanField(default=True)),
                        ("digest", models.CharField(blank=True, default="", max_length=64)),
                        ("facts_digest", models.CharField(blank=True, default="", max_length=64)),
                        ("problem", models.CharField(blank=True, default="", max_length=300)),
                        ("last_listed_us", models.BigIntegerField(db_column="seen_us")),
                        ("verdict", models.CharField(blank=True, default="", max_length=500)),
                        (
                            "written_verdict",
                            models.CharField(
                                blank=True, default="", max_length=500, db_column="told_verdict"
                            ),
                        ),
                        (
                            "verdict_problem",
                            models.CharField(
                                blank=True, default="", max_length=300, db_column="tell_problem"
                            ),
                        ),
                        ("tries", models.IntegerField(default=0)),
                        ("due_us", models.BigIntegerField(default=0)),
                        (
                            "run",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="mlflow",
                                to="runs.run",
                            ),
                        ),
                        (
                            "source",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="runs",
                                to="trackers.mlflowsource",
                            ),
                        ),
                        ("files_due_us", models.BigIntegerField(default=0)),
                        ("files_left", models.IntegerField(default=0)),
                        ("files_problem", models.CharField(blank=True, default="", max_length=300)),
                        ("files_read", models.BooleanField(default=False)),
                        ("files_tries", models.IntegerField(default=0)),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("is_open", True)),
                                fields=["source", "id"],
                                name="mlflow_open",
                            ),
                            models.Index(
                                condition=models.Q(("parent", ""), _negated=True),
                                fields=["source", "parent"],
                                name="mlflow_nested",
                            ),
                            models.Index(
                                condition=models.Q(
                                    ("verdict", models.F("written_verdict")), _negated=True
                                ),
                                fields=["source", "due_us"],
                                name="mlflow_to_tell",
                            ),
                            models.Index(
                                condition=models.Q(("files_read", False)),
                                fields=["source", "id"],
                                name="mlflow_files_to_read",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("source", "mlflow_id"), name="mlflow_run_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="MlflowExperiments",
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
                        ("position", models.SmallIntegerField()),
                        ("pattern", models.CharField(max_length=200)),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "source",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="patterns",
                                to="trackers.mlflowsource",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("source", "position"), name="mlflow_pattern_position_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="MlflowSeries",
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
                        ("name", models.CharField(max_length=250)),
                        ("token", models.CharField(blank=True, default="", max_length=500)),
                        ("points", models.BigIntegerField(default=0)),
                        (
                            "latest_value",
                            models.CharField(
                                blank=True, default="", max_length=100, db_column="seen"
                            ),
                        ),
                        ("is_complete", models.BooleanField(default=False, db_column="whole")),
                        ("until_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "last_sample_us",
                            models.BigIntegerField(blank=True, null=True, db_column="held_us"),
                        ),
                        ("carry_nj", models.BigIntegerField(default=0)),
                        (
                            "device",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="fleet.device",
                            ),
                        ),
                        (
                            "tracked_run",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="series",
                                to="trackers.mlflowrun",
                                db_column="told_id",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("tracked_run", "name"), name="mlflow_series_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="MlflowFile",
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
                        (
                            "model",
                            models.CharField(blank=True, db_index=True, default="", max_length=64),
                        ),
                        ("path", models.CharField(max_length=1000)),
                        ("path_hash", models.CharField(max_length=64, db_column="place")),
                        ("bytes", models.BigIntegerField()),
                        ("digest", models.CharField(blank=True, default="", max_length=64)),
                        (
                            "outcome",
                            models.CharField(
                                choices=[
                                    ("taken", "Hashed and registered"),
                                    ("too_large", "Too large to read over the network"),
                                    ("too_many", "Over the limit per run"),
                                    ("elsewhere", "Not served by MLflow"),
                                    ("unreadable", "Not readable"),
                                ],
                                max_length=12,
                            ),
                        ),
                        (
                            "reason",
                            models.CharField(
                                blank=True, default="", max_length=300, db_column="why"
                            ),
                        ),
                        (
                            "tracked_run",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="files",
                                to="trackers.mlflowrun",
                                db_column="told_id",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("tracked_run", "path_hash"), name="mlflow_file_once"
                            )
                        ],
                    },
                ),
            ]
        ),
    ]
