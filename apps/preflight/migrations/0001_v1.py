"""The first migration of preflight: the tables, indexes and constraints of version 1. It replaces the steps before it."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.core.migration_operations import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ("preflight", "0001_questions_and_repeats"),
    ]

    initial = True

    dependencies = [
        ("accounts", "0001_v1"),
        ("runs", "0001_v1"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Preflight",
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
                        ("uuid", models.UUIDField(unique=True)),
                        ("at_us", models.BigIntegerField()),
                        ("node_uuid", models.UUIDField(blank=True, null=True)),
                        ("run_uuid", models.UUIDField(blank=True, null=True)),
                        ("name", models.CharField(blank=True, default="", max_length=200)),
                        (
                            "verdict",
                            models.CharField(
                                choices=[
                                    ("same_run", "Same run"),
                                    ("declared", "Declared duplicate"),
                                    ("concurrent", "Running now"),
                                    ("will_fail", "Will fail again"),
                                    ("resume", "Can be resumed"),
                                    ("duplicate", "Duplicate"),
                                    ("near", "Near duplicate"),
                                    ("sweep", "Part of a sweep"),
                                    ("replicate", "Another seed"),
                                    ("none", "New"),
                                ],
                                max_length=16,
                            ),
                        ),
                        (
                            "certainty",
                            models.CharField(
                                choices=[("verified", "Verified"), ("possible", "Possible")],
                                max_length=16,
                            ),
                        ),
                        (
                            "level",
                            models.CharField(
                                choices=[
                                    ("loud", "Block"),
                                    ("warn", "Warning"),
                                    ("inform", "Information"),
                                    ("silent", "Silent"),
                                ],
                                max_length=8,
                            ),
                        ),
                        ("matches", models.JSONField(blank=True, default=list)),
                        ("f1", models.BigIntegerField(blank=True, null=True)),
                        ("f1_weak", models.BigIntegerField(blank=True, null=True)),
                        (
                            "outcome",
                            models.CharField(
                                blank=True,
                                choices=[("stopped", "Stopped"), ("went_on", "Proceeded")],
                                default="",
                                max_length=8,
                            ),
                        ),
                        ("outcome_us", models.BigIntegerField(blank=True, null=True)),
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
                            "project",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "user",
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
                        "indexes": [
                            models.Index(fields=["lab", "-at_us"], name="preflight_by_time")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Avoided",
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
                        ("f1", models.BigIntegerField()),
                        ("f1_weak", models.BigIntegerField(blank=True, null=True)),
                        ("at_us", models.BigIntegerField()),
                        ("withdrawn_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "by_run",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to="runs.run",
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
                        (
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="runs.run",
                            ),
                        ),
                        (
                            "preflight",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="avoided",
                                to="preflight.preflight",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["lab", "-at_us"], name="avoided_by_time")],
                    },
                ),
                migrations.CreateModel(
                    name="DuplicateFinding",
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
                            "verdict",
                            models.CharField(
                                choices=[
                                    ("same_run", "Same run"),
                                    ("declared", "Declared duplicate"),
                                    ("concurrent", "Running now"),
                                    ("will_fail", "Will fail again"),
                                    ("resume", "Can be resumed"),
                                    ("duplicate", "Duplicate"),
                                    ("near", "Near duplicate"),
                                    ("sweep", "Part of a sweep"),
                                    ("replicate", "Another seed"),
                                    ("none", "New"),
                                ],
                                max_length=16,
                            ),
                        ),
                        (
                            "certainty",
                            models.CharField(
                                choices=[("verified", "Verified"), ("possible", "Possible")],
                                max_length=16,
                            ),
                        ),
                        (
                            "unverified_parts",
                            models.JSONField(blank=True, default=list, db_column="weak"),
                        ),
                        ("detected_us", models.BigIntegerField(db_column="found_us")),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("open", "Open"),
                                    ("confirmed", "Duplicate"),
                                    ("intentional", "Intentional"),
                                    ("dismissed", "Not a duplicate"),
                                ],
                                default="open",
                                max_length=16,
                            ),
                        ),
                        ("decided_us", models.BigIntegerField(blank=True, null=True)),
                        ("reason", models.CharField(blank=True, default="", max_length=400)),
                        (
                            "decided_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                                db_column="by_id",
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
                        (
                            "original",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="duplicates",
                                to="runs.run",
                                db_column="of_id",
                            ),
                        ),
                        (
                            "run",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="duplicate_finding",
                                to="runs.run",
                            ),
                        ),
                    ],
                    options={
                        "db_table": "preflight_repeat",
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("run", models.F("original")), _negated=True),
                                name="repeat_of_another",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("decided_us__isnull", True), ("state", "open")),
                                    models.Q(
                                        models.Q(("state", "open"), _negated=True),
                                        ("decided_us__isnull", False),
                                    ),
                                    _connector="OR",
                                ),
                                name="repeat_decided_at_a_time",
                            ),
                        ],
                        "indexes": [
                            models.Index(
                                fields=["lab", "state", "-detected_us"], name="repeat_by_state"
                            )
                        ],
                    },
                ),
            ]
        ),
    ]
