"""The first migration of energy: the tables, indexes and constraints of version 1. It replaces the steps before it."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.core.migration_operations import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ("energy", "0001_initial"),
        ("energy", "0002_attribute_what_is_there"),
        ("energy", "0003_idle_policy"),
        ("energy", "0001_squashed_0003"),
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
                    name="LedgerEntry",
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
                        ("hour", models.BigIntegerField()),
                        (
                            "energy_quality",
                            models.SmallIntegerField(
                                choices=[
                                    (1, "COUNTER"),
                                    (2, "SAMPLED"),
                                    (3, "MODELLED"),
                                    (4, "DECLARED"),
                                ]
                            ),
                        ),
                        (
                            "share_quality",
                            models.SmallIntegerField(choices=[(1, "WHOLE"), (2, "SPLIT")]),
                        ),
                        (
                            "placement_quality",
                            models.SmallIntegerField(choices=[(1, "EXACT"), (2, "IMPUTED")]),
                        ),
                        ("energy_mj", models.BigIntegerField()),
                        (
                            "consumer",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, to="ingest.consumer"
                            ),
                        ),
                        (
                            "device",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                to="fleet.device",
                            ),
                        ),
                        (
                            "lab",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                to="fleet.node",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["lab", "hour"], name="ledger_of_lab"),
                            models.Index(fields=["node", "hour"], name="ledger_of_node"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=(
                                    "device",
                                    "hour",
                                    "node",
                                    "consumer",
                                    "energy_quality",
                                    "share_quality",
                                    "placement_quality",
                                ),
                                name="ledger_entry_once",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="DeviceHour",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "device_id",
                                "hour",
                                "node_id",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("hour", models.BigIntegerField()),
                        ("covered_us", models.BigIntegerField()),
                        ("windows", models.IntegerField()),
                        ("energy_mj", models.BigIntegerField()),
                        (
                            "device",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                to="fleet.device",
                            ),
                        ),
                        (
                            "lab",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                to="fleet.node",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["lab", "hour"], name="device_hour_of_lab")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="IdlePolicy",
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
                        (
                            "policy",
                            models.CharField(
                                choices=[
                                    ("visible", "Shown separately"),
                                    ("by_reservation", "Distributed by reserved device-hours"),
                                    ("by_energy", "Distributed by energy used"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("created_us", models.BigIntegerField(db_column="made_us")),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="idle_policies",
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
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "from_hour"), name="idle_policy_once_per_hour"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="IdleShare",
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
                        ("low", models.IntegerField()),
                        ("high", models.IntegerField()),
                        ("total", models.IntegerField()),
                        (
                            "lab",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, to="accounts.project"
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "from_hour", "project"), name="idle_share_once"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("high__gt", models.F("low")),
                                    ("low__gte", 0),
                                    ("to_hour__gt", models.F("from_hour")),
                                    ("total__gte", models.F("high")),
                                ),
                                name="idle_share_is_a_part",
                            ),
                        ],
                    },
                ),
            ]
        ),
    ]
