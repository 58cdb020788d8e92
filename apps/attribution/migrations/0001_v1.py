"""The first migration of attribution: the tables, indexes and constraints of version 1. It replaces the steps before it."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.core.migration_operations import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ("attribution", "0001_attribution"),
        ("attribution", "0002_claim_by_stretches"),
    ]

    initial = True

    dependencies = [
        ("accounts", "0001_v1"),
        ("fleet", "0001_v1"),
        ("ingest", "0001_v1"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="AttributionRule",
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
                        ("os_user", models.CharField(blank=True, default="", max_length=100)),
                        ("cluster", models.CharField(blank=True, default="", max_length=100)),
                        ("account", models.CharField(blank=True, default="", max_length=100)),
                        ("namespace", models.CharField(blank=True, default="", max_length=100)),
                        ("path_prefix", models.CharField(blank=True, default="", max_length=256)),
                        ("from_hour", models.BigIntegerField()),
                        ("to_hour", models.BigIntegerField(blank=True, null=True)),
                        ("note", models.CharField(blank=True, default="", max_length=200)),
                        ("created_us", models.BigIntegerField(db_column="made_us")),
                        ("withdrawn_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rules",
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
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                to="fleet.node",
                            ),
                        ),
                        (
                            "person",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="rules",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="rules",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "site",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                to="fleet.site",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("to_hour__isnull", True),
                                    ("to_hour__gt", models.F("from_hour")),
                                    _connector="OR",
                                ),
                                name="rule_not_empty",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("project__isnull", False),
                                    ("person__isnull", False),
                                    _connector="OR",
                                ),
                                name="rule_has_a_target",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("node__isnull", False),
                                    ("site__isnull", False),
                                    models.Q(("os_user", ""), _negated=True),
                                    models.Q(("account", ""), _negated=True),
                                    models.Q(("namespace", ""), _negated=True),
                                    models.Q(("path_prefix", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="rule_asks_for_something",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("account", ""),
                                    ("cluster__gt", ""),
                                    ("namespace", ""),
                                    _negated=True,
                                ),
                                name="cluster_with_account",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Claim",
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
                        ("act", models.UUIDField(db_index=True)),
                        ("from_hour", models.BigIntegerField()),
                        ("to_hour", models.BigIntegerField()),
                        ("created_us", models.BigIntegerField(db_column="made_us")),
                        ("undone_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "consumer",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="claims",
                                to="ingest.consumer",
                            ),
                        ),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="claims",
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
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                to="fleet.node",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="claims",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "undone_by",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("to_hour__gt", models.F("from_hour"))),
                                name="claim_not_empty",
                            ),
                            models.UniqueConstraint(
                                fields=("act", "consumer", "node", "from_hour"),
                                name="claim_once_per_act",
                                nulls_distinct=False,
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Attribution",
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
                        ("from_hour", models.BigIntegerField()),
                        ("to_hour", models.BigIntegerField()),
                        (
                            "way",
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
                            ),
                        ),
                        ("os_user", models.CharField(blank=True, default="", max_length=100)),
                        ("program", models.CharField(blank=True, default="", max_length=256)),
                        (
                            "consumer",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="attributions",
                                to="ingest.consumer",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="attributions",
                                to="fleet.node",
                            ),
                        ),
                        (
                            "person",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="attributions",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="attributions",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "rule",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                to="attribution.attributionrule",
                            ),
                        ),
                        (
                            "claim",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                to="attribution.claim",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("consumer", "node", "from_hour"), name="attribution_once"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("to_hour__gt", models.F("from_hour"))),
                                name="attribution_not_empty",
                            ),
                        ],
                    },
                ),
            ]
        ),
    ]
