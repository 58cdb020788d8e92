"""The first migration of artifacts: the tables, indexes and constraints of version 1. It replaces the steps before it."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.core.migration_operations import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ("artifacts", "0001_initial"),
        ("artifacts", "0002_plans"),
        ("artifacts", "0003_reuse"),
        ("artifacts", "0004_by_registration_name_and_state"),
        ("artifacts", "0005_holds_and_notices"),
        ("artifacts", "0006_archived_and_promoted"),
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
                    name="Artifact",
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
                        ("digest", models.CharField(max_length=64)),
                        (
                            "form",
                            models.CharField(
                                choices=[("file", "File"), ("folder", "Folder")], max_length=8
                            ),
                        ),
                        ("bytes", models.BigIntegerField()),
                        ("files", models.IntegerField(default=1)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("checkpoint", "Checkpoint"),
                                    ("model", "Model"),
                                    ("dataset", "Dataset"),
                                    ("log", "Log"),
                                    ("other", "Other"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("format", models.CharField(blank=True, default="", max_length=32)),
                        ("name", models.CharField(max_length=255)),
                        ("payload", models.CharField(blank=True, default="", max_length=64)),
                        ("licence", models.CharField(blank=True, default="", max_length=100)),
                        ("note", models.CharField(blank=True, default="", max_length=1000)),
                        ("tags", models.JSONField(blank=True, default=dict)),
                        ("facts", models.JSONField(blank=True, default=dict)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("registered", "Registered"),
                                    ("stored", "Stored"),
                                    ("candidate", "Candidate"),
                                    ("promoted", "Promoted"),
                                    ("archived", "Archived"),
                                    ("scheduled", "Scheduled"),
                                    ("tombstone", "Tombstone"),
                                ],
                                default="registered",
                                max_length=16,
                            ),
                        ),
                        ("os_user", models.CharField(blank=True, default="", max_length=100)),
                        ("start_key", models.CharField(max_length=64)),
                        ("data_key", models.CharField(max_length=64)),
                        ("registered_us", models.BigIntegerField()),
                        ("is_linked", models.BooleanField(db_column="joined", default=False)),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="artifacts",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "owner",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="artifacts",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="artifacts",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["lab", "kind", "-registered_us"], name="artifact_by_kind"
                            ),
                            models.Index(fields=["lab", "start_key"], name="artifact_by_start"),
                            models.Index(fields=["lab", "data_key"], name="artifact_by_data"),
                            models.Index(
                                condition=models.Q(("payload", ""), _negated=True),
                                fields=["lab", "payload"],
                                name="artifact_by_payload",
                            ),
                            models.Index(
                                condition=models.Q(("is_linked", False)),
                                fields=["lab", "id"],
                                name="artifact_to_join",
                            ),
                            models.Index(
                                fields=["lab", "registered_us", "id"],
                                name="artifact_by_registration",
                            ),
                            models.Index(fields=["lab", "name", "id"], name="artifact_by_name"),
                            models.Index(
                                condition=models.Q(("state", "promoted")),
                                fields=["lab"],
                                name="artifact_promoted",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "digest"), name="artifact_once_per_lab"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("bytes__gte", 0), ("files__gte", 0)),
                                name="artifact_not_below_zero",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Alias",
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
                            "algorithm",
                            models.CharField(
                                choices=[("md5", "MD5"), ("xxh128", "XXH3-128")], max_length=8
                            ),
                        ),
                        ("value", models.CharField(db_index=True, max_length=64)),
                        (
                            "artifact",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="aliases",
                                to="artifacts.artifact",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("artifact", "algorithm"), name="alias_once_per_algorithm"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Copy",
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
                        ("path", models.TextField()),
                        ("location_key", models.CharField(db_column="place", max_length=64)),
                        (
                            "medium",
                            models.CharField(
                                choices=[
                                    ("hdd", "Hard disk"),
                                    ("ssd", "Solid state"),
                                    ("object", "Object storage"),
                                    ("tape", "Tape, offline"),
                                    ("unknown", "Unknown"),
                                ],
                                default="unknown",
                                max_length=8,
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("present", "Present"),
                                    ("missing", "Missing"),
                                    ("corrupt", "Corrupt"),
                                    ("trashed", "In the trash"),
                                    ("deleted", "Deleted"),
                                ],
                                default="present",
                                max_length=8,
                            ),
                        ),
                        ("modified_us", models.BigIntegerField(blank=True, null=True)),
                        ("first_observed_us", models.BigIntegerField(db_column="first_us")),
                        ("last_observed_us", models.BigIntegerField(db_column="seen_us")),
                        ("hashed_us", models.BigIntegerField()),
                        (
                            "artifact",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="copies",
                                to="artifacts.artifact",
                            ),
                        ),
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
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="copies",
                                to="fleet.node",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["lab", "state", "artifact", "medium", "node"],
                                name="copy_by_state",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "location_key"), name="one_artifact_at_a_place"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="LineageEdge",
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
                            "role",
                            models.CharField(
                                choices=[
                                    ("produced", "produced"),
                                    ("used", "used"),
                                    ("initialised_from", "initialised from"),
                                    ("distilled_from", "distilled from"),
                                ],
                                max_length=16,
                            ),
                        ),
                        (
                            "source",
                            models.CharField(
                                choices=[
                                    ("told", "reported by the run"),
                                    ("fingerprint", "from the fingerprint"),
                                ],
                                db_column="way",
                                default="told",
                                max_length=12,
                            ),
                        ),
                        ("recorded_us", models.BigIntegerField(db_column="told_us")),
                        (
                            "artifact",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="run_edges",
                                to="artifacts.artifact",
                            ),
                        ),
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
                                related_name="artifact_edges",
                                to="runs.run",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "artifact", "role"), name="lineage_edge_once"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Pin",
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
                        ("reason", models.CharField(max_length=300)),
                        ("from_us", models.BigIntegerField()),
                        ("ended_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "artifact",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="pins",
                                to="artifacts.artifact",
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "ended_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_us__isnull", True)),
                                fields=("artifact",),
                                name="one_pin_at_a_time",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CleanupPlan",
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
                        ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("draft", "Draft"),
                                    ("told", "Owners notified"),
                                    ("approved", "Approved"),
                                    ("applied", "Applied"),
                                    ("withdrawn", "Withdrawn"),
                                ],
                                default="draft",
                                max_length=12,
                            ),
                        ),
                        ("created_us", models.BigIntegerField(db_column="made_us")),
                        ("grace_until_us", models.BigIntegerField(blank=True, null=True)),
                        ("trash_days", models.IntegerField(default=14)),
                        ("approved_us", models.BigIntegerField(blank=True, null=True)),
                        ("ended_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "approved_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="cleanup_plans",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "created_by",
                            models.ForeignKey(
                                db_column="made_by_id",
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="cleanup_plans",
                                to="fleet.node",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="cleanup_plans",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "db_table": "artifacts_plan",
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("state__in", ("draft", "told", "approved"))),
                                fields=("node",),
                                name="one_open_plan_per_node",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("trash_days__gte", 1)),
                                name="plan_a_day_in_the_trash",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CleanupItem",
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
                            "retention_class",
                            models.CharField(
                                choices=[
                                    ("pinned", "pinned"),
                                    ("promoted", "promoted"),
                                    ("held", "held"),
                                    ("ancestor", "ancestor of a promoted or pinned artifact"),
                                    ("dataset", "dataset"),
                                    ("referenced", "input of another run"),
                                    ("unknown", "producing run unknown"),
                                    ("running", "its run is still running"),
                                    ("archived", "archived"),
                                    ("final", "the last or best of a finished run"),
                                    ("crashed", "the last of a run that did not finish"),
                                    ("intermediate", "an intermediate state of a run"),
                                    ("sweep", "of a sweep that another run won"),
                                ],
                                db_column="kept",
                                max_length=16,
                            ),
                        ),
                        ("is_last_copy", models.BooleanField()),
                        ("due_us", models.BigIntegerField()),
                        ("storage_mj", models.BigIntegerField(blank=True, null=True)),
                        ("retrain_mj", models.BigIntegerField(blank=True, null=True)),
                        ("selected", models.BooleanField(db_column="chosen")),
                        ("objection", models.CharField(blank=True, default="", max_length=300)),
                        (
                            "previous_state",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("registered", "Registered"),
                                    ("stored", "Stored"),
                                    ("candidate", "Candidate"),
                                    ("promoted", "Promoted"),
                                    ("archived", "Archived"),
                                    ("scheduled", "Scheduled"),
                                    ("tombstone", "Tombstone"),
                                ],
                                db_column="before",
                                default="",
                                max_length=16,
                            ),
                        ),
                        (
                            "outcome",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("trashed", "In the trash"),
                                    ("refused", "Left in place"),
                                    ("restored", "Restored"),
                                    ("deleted", "Deleted"),
                                ],
                                default="",
                                max_length=8,
                            ),
                        ),
                        (
                            "message",
                            models.CharField(
                                blank=True, db_column="word", default="", max_length=300
                            ),
                        ),
                        ("outcome_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "artifact",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="cleanup_items",
                                to="artifacts.artifact",
                            ),
                        ),
                        (
                            "copy",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="cleanup_items",
                                to="artifacts.copy",
                            ),
                        ),
                        (
                            "objected_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "plan",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="items",
                                to="artifacts.cleanupplan",
                            ),
                        ),
                        (
                            "retrain_run",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to="runs.run",
                            ),
                        ),
                        ("retrain_ug", models.BigIntegerField(blank=True, null=True)),
                        ("storage_ug", models.BigIntegerField(blank=True, null=True)),
                        (
                            "parent_item",
                            models.ForeignKey(
                                blank=True,
                                db_column="went_with_id",
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="contained_items",
                                to="artifacts.cleanupitem",
                            ),
                        ),
                    ],
                    options={
                        "db_table": "artifacts_planline",
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("plan", "copy"), name="copy_once_per_plan"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RetentionPeriod",
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
                            "retention_class",
                            models.CharField(
                                choices=[
                                    ("pinned", "pinned"),
                                    ("promoted", "promoted"),
                                    ("held", "held"),
                                    ("ancestor", "ancestor of a promoted or pinned artifact"),
                                    ("dataset", "dataset"),
                                    ("referenced", "input of another run"),
                                    ("unknown", "producing run unknown"),
                                    ("running", "its run is still running"),
                                    ("archived", "archived"),
                                    ("final", "the last or best of a finished run"),
                                    ("crashed", "the last of a run that did not finish"),
                                    ("intermediate", "an intermediate state of a run"),
                                    ("sweep", "of a sweep that another run won"),
                                ],
                                db_column="kept",
                                max_length=16,
                            ),
                        ),
                        ("days", models.IntegerField(blank=True, null=True)),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="retention_periods",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="retention_periods",
                                to="accounts.project",
                            ),
                        ),
                    ],
                    options={
                        "db_table": "artifacts_retentiondays",
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("project__isnull", False)),
                                fields=("project", "retention_class"),
                                name="retention_once_per_project",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("project__isnull", True)),
                                fields=("lab", "retention_class"),
                                name="retention_once_per_lab",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("days__isnull", True), ("days__gte", 1), _connector="OR"
                                ),
                                name="retention_a_day_at_least",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ReuseTerm",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "lab",
                                "kind",
                                "term",
                                "artifact",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        (
                            "kind",
                            models.SmallIntegerField(
                                choices=[
                                    (1, "the same data"),
                                    (2, "data of a like name"),
                                    (3, "the same architecture"),
                                    (4, "a like kind of model"),
                                    (5, "a like purpose"),
                                ]
                            ),
                        ),
                        ("term", models.CharField(max_length=40)),
                        (
                            "artifact",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="reuse_terms",
                                to="artifacts.artifact",
                            ),
                        ),
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
                ),
                migrations.CreateModel(
                    name="Hold",
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
                        ("reason", models.CharField(max_length=300)),
                        ("from_hour", models.BigIntegerField()),
                        ("until_hour", models.BigIntegerField(blank=True, null=True)),
                        ("placed_us", models.BigIntegerField()),
                        ("lifted_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "artifact",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="holds",
                                to="artifacts.artifact",
                            ),
                        ),
                        (
                            "by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="holds",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "lifted_by",
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
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="holds",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "run",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="holds",
                                to="runs.run",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("lifted_us__isnull", True)),
                                fields=["lab", "until_hour"],
                                name="hold_not_lifted",
                            )
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(
                                        ("artifact__isnull", False),
                                        ("project__isnull", True),
                                        ("run__isnull", True),
                                    ),
                                    models.Q(
                                        ("artifact__isnull", True),
                                        ("project__isnull", False),
                                        ("run__isnull", True),
                                    ),
                                    models.Q(
                                        ("artifact__isnull", True),
                                        ("project__isnull", True),
                                        ("run__isnull", False),
                                    ),
                                    _connector="OR",
                                ),
                                name="hold_names_one_thing",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("until_hour__isnull", True),
                                    ("until_hour__gt", models.F("from_hour")),
                                    _connector="OR",
                                ),
                                name="hold_ends_after_it_begins",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Notification",
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
                        ("name", models.CharField(max_length=150)),
                        ("own_items", models.IntegerField(db_column="own")),
                        ("other_items", models.IntegerField(db_column="others")),
                        ("notified_us", models.BigIntegerField(db_column="told_us")),
                        (
                            "mail",
                            models.CharField(
                                choices=[
                                    ("off", "No mail: no mail server configured"),
                                    ("no_address", "No mail: no address"),
                                    ("waiting", "Mail queued"),
                                    ("sending", "Sending mail"),
                                    ("sent", "Mailed"),
                                    ("failed", "Mail failed"),
                                ],
                                max_length=12,
                            ),
                        ),
                        ("mailed_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "message",
                            models.CharField(
                                blank=True, db_column="word", default="", max_length=300
                            ),
                        ),
                        (
                            "plan",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="notifications",
                                to="artifacts.cleanupplan",
                            ),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "db_table": "artifacts_notice",
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("plan", "user"), name="told_once_of_a_plan"
                            )
                        ],
                    },
                ),
            ]
        ),
    ]
