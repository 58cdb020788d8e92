"""Fleet tokens, the nodes that they enrolled, and known nodes that they refused."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.core.migration_operations import CreateModels


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_v1"),
        ("fleet", "0002_retired_nodes"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="FleetToken",
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
                        ("public_id", models.CharField(max_length=8, unique=True)),
                        ("digest", models.CharField(max_length=64)),
                        ("pepper", models.PositiveSmallIntegerField()),
                        ("needs_approval", models.BooleanField(default=False)),
                        ("max_uses", models.PositiveIntegerField()),
                        ("uses_left", models.PositiveIntegerField()),
                        ("created_us", models.BigIntegerField()),
                        ("expires_us", models.BigIntegerField()),
                        ("revoked_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "created_by",
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
                                related_name="fleet_tokens",
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
                            "site",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="fleet.site",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("uses_left__lte", models.F("max_uses"))),
                                name="fleet_token_uses_bounded",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("expires_us__gt", models.F("created_us"))),
                                name="fleet_token_ends_after_it_begins",
                            ),
                        ]
                    },
                ),
                migrations.CreateModel(
                    name="FleetEnrolment",
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
                        ("node_uuid", models.UUIDField()),
                        ("hostname", models.CharField(max_length=255)),
                        ("facts", models.JSONField(blank=True, default=dict)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "Waiting for approval"),
                                    ("enrolled", "Enrolled"),
                                    ("declined", "Declined"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("created_us", models.BigIntegerField()),
                        ("decided_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "decided_by",
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
                                related_name="+",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "node_token",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to="accounts.token",
                            ),
                        ),
                        (
                            "fleet_token",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="enrolments",
                                to="fleet.fleettoken",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "node_uuid"), name="fleet_enrolment_once_per_node"
                            )
                        ]
                    },
                ),
                migrations.CreateModel(
                    name="RefusedEnrolment",
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
                        ("node_uuid", models.UUIDField()),
                        ("hostname", models.CharField(max_length=255)),
                        ("attempts", models.PositiveIntegerField(default=1)),
                        ("created_us", models.BigIntegerField()),
                        ("last_us", models.BigIntegerField()),
                        ("allowed_until_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "fleet_token",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="fleet.fleettoken",
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
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "node_uuid"), name="refused_enrolment_once_per_node"
                            )
                        ]
                    },
                ),
            ]
        ),
    ]
