"""The first migration of carbon: the tables, indexes and constraints of version 1. It replaces the steps before it."""

import django.db.models.deletion
from django.db import migrations, models

from apps.core.migration_operations import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ("carbon", "0001_initial"),
        ("carbon", "0002_rolled_days"),
        ("carbon", "0001_squashed_0002"),
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
                    name="EmissionFactor",
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
                        ("zone", models.CharField(max_length=80)),
                        ("zone_name", models.CharField(max_length=120)),
                        (
                            "basis",
                            models.CharField(
                                choices=[("lifecycle", "Lifecycle"), ("direct", "Direct")],
                                max_length=16,
                            ),
                        ),
                        ("resolution", models.CharField(max_length=32)),
                        ("year", models.IntegerField()),
                        ("edition", models.IntegerField()),
                        ("ug_per_kwh", models.BigIntegerField()),
                        ("low_ug_per_kwh", models.BigIntegerField(blank=True, null=True)),
                        ("high_ug_per_kwh", models.BigIntegerField(blank=True, null=True)),
                        ("source", models.CharField(max_length=400)),
                        ("licence", models.CharField(max_length=120)),
                        ("loaded_us", models.BigIntegerField()),
                        ("superseded_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "lab",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                to="accounts.lab",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("zone", "basis", "resolution", "year", "edition"),
                                name="factor_edition_once",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("ug_per_kwh__gt", 0)), name="factor_not_zero"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RolledDay",
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
                            "what",
                            models.CharField(
                                choices=[
                                    ("use", "Energy and device time"),
                                    ("hardware", "Embodied carbon"),
                                ],
                                max_length=8,
                            ),
                        ),
                        ("from_hour", models.BigIntegerField()),
                        ("to_hour", models.BigIntegerField()),
                        (
                            "basis",
                            models.CharField(
                                choices=[("lifecycle", "Lifecycle"), ("direct", "Direct")],
                                max_length=16,
                            ),
                        ),
                        ("time_zone", models.CharField(max_length=64)),
                        (
                            "lab",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="accounts.lab",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "what", "from_hour"), name="rolled_day_once"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("to_hour__gt", models.F("from_hour"))),
                                name="rolled_day_not_empty",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="MeterDay",
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
                        ("device_id", models.BigIntegerField()),
                        ("node_id", models.BigIntegerField()),
                        ("covered_us", models.BigIntegerField()),
                        ("measured_us", models.BigIntegerField()),
                        ("estimated_us", models.BigIntegerField()),
                        ("energy_mj", models.BigIntegerField()),
                        ("facility_energy_mj", models.BigIntegerField()),
                        ("emission_ug", models.BigIntegerField()),
                        ("without_factor_mj", models.BigIntegerField()),
                        ("idle_mj", models.BigIntegerField()),
                        ("entries", models.BigIntegerField()),
                        (
                            "day",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="carbon.rolledday",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [models.Index(fields=["day", "device_id"], name="meter_days")],
                    },
                ),
                migrations.CreateModel(
                    name="EmbodiedDay",
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
                            "kind",
                            models.CharField(
                                choices=[
                                    ("used", "Used"),
                                    ("idle", "On and idle"),
                                    ("idle_share", "Share of idle time"),
                                    ("unmeasured", "Off or not measured"),
                                    ("held", "By time, without meter"),
                                    ("lent", "Lent"),
                                    ("end_of_life", "Difference at end of life"),
                                    ("written_off", "Written off"),
                                ],
                                max_length=12,
                            ),
                        ),
                        ("project_id", models.BigIntegerField(null=True)),
                        ("embodied_ug", models.BigIntegerField()),
                        ("entries", models.BigIntegerField()),
                        (
                            "day",
                            models.ForeignKey(
                                db_constraint=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="carbon.rolledday",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="StaleSpan",
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
                            "what",
                            models.CharField(
                                choices=[
                                    ("use", "Energy and device time"),
                                    ("hardware", "Embodied carbon"),
                                ],
                                max_length=8,
                            ),
                        ),
                        ("from_hour", models.BigIntegerField()),
                        ("to_hour", models.BigIntegerField()),
                        (
                            "lab",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="accounts.lab",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["lab", "what", "from_hour"], name="stale_spans_of_lab"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="UseDay",
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
                        ("node_id", models.BigIntegerField()),
                        ("consumer_id", models.BigIntegerField()),
                        ("project_id", models.BigIntegerField(null=True)),
                        ("person_id", models.BigIntegerField(null=True)),
                        ("os_user", models.CharField(blank=True, default="", max_length=100)),
                        ("program", models.CharField(blank=True, default="", max_length=256)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("used", "Used"),
                                    ("idle", "Idle"),
                                    ("idle_share", "Idle, charged to projects"),
                                    ("overhead", "Node overhead"),
                                ],
                                max_length=12,
                            ),
                        ),
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
                        ("factor_id", models.BigIntegerField(null=True)),
                        ("pue_ppm", models.BigIntegerField(null=True)),
                        ("energy_mj", models.BigIntegerField()),
                        ("facility_energy_mj", models.BigIntegerField()),
                        ("emission_ug", models.BigIntegerField()),
                        ("without_factor_mj", models.BigIntegerField()),
                        ("entries", models.BigIntegerField()),
                        (
                            "day",
                            models.ForeignKey(
                                db_constraint=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="carbon.rolledday",
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="AppliedFactor",
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
                            "basis",
                            models.CharField(
                                choices=[("lifecycle", "Lifecycle"), ("direct", "Direct")],
                                max_length=16,
                            ),
                        ),
                        ("pue_ppm", models.BigIntegerField()),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="applied_factors",
                                to="fleet.node",
                            ),
                        ),
                        (
                            "factor",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.PROTECT,
                                to="carbon.emissionfactor",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("node", "basis", "from_hour"), name="applied_factor_once"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("to_hour__gt", models.F("from_hour"))),
                                name="applied_factor_not_empty",
                            ),
                        ],
                    },
                ),
            ]
        ),
    ]
