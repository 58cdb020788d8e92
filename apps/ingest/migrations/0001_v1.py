"""The first migration of ingest: the tables, indexes and constraints of version 1. It replaces the steps before it."""

import django.db.models.deletion
from django.db import migrations, models

from apps.core.migration_operations import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ("ingest", "0001_initial"),
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
                    name="Batch",
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
                        ("received_us", models.BigIntegerField()),
                        ("sent_us", models.BigIntegerField(null=True)),
                        ("skew_us", models.BigIntegerField(null=True)),
                        ("windows", models.IntegerField()),
                        ("origin", models.CharField(blank=True, default="", max_length=200)),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="batches",
                                to="fleet.node",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["node", "received_us"], name="batch_of_node")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Consumer",
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
                        ("key", models.CharField(max_length=256)),
                        ("kind", models.CharField(max_length=16)),
                        ("run_uuid", models.UUIDField(blank=True, db_index=True, null=True)),
                        (
                            "lab",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, to="accounts.lab"
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("lab", "key"), name="consumer_key_once_per_lab"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="DeclaredGap",
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
                        ("epoch_key", models.CharField(max_length=200)),
                        ("from_us", models.BigIntegerField()),
                        ("to_us", models.BigIntegerField()),
                        ("reason", models.CharField(max_length=32)),
                        (
                            "device",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="gaps",
                                to="fleet.device",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("device", "epoch_key", "from_us"), name="gap_once"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("to_us__gte", models.F("from_us"))),
                                name="gap_not_backwards",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="DirtyHour",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "device_id",
                                "hour",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("hour", models.BigIntegerField()),
                        (
                            "device",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, to="fleet.device"
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="Epoch",
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
                        ("key", models.CharField(max_length=200)),
                        (
                            "device",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="epochs",
                                to="fleet.device",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("device", "key"), name="epoch_once_per_device"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="EnergyWindow",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "epoch_id",
                                "sequence",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("sequence", models.BigIntegerField()),
                        ("start_us", models.BigIntegerField()),
                        ("end_us", models.BigIntegerField()),
                        ("energy_mj", models.BigIntegerField()),
                        ("counter_start", models.BigIntegerField(null=True)),
                        ("counter_end", models.BigIntegerField(null=True)),
                        (
                            "measurement",
                            models.SmallIntegerField(
                                choices=[
                                    (1, "nvml_counter"),
                                    (2, "nvml_power"),
                                    (3, "rapl"),
                                    (4, "rapl_model"),
                                    (5, "cpu_model"),
                                    (6, "host_static"),
                                    (7, "node_meter"),
                                    (8, "imported"),
                                    (9, "declared"),
                                ]
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
                        (
                            "share_quality",
                            models.SmallIntegerField(choices=[(1, "WHOLE"), (2, "SPLIT")]),
                        ),
                        (
                            "placement_quality",
                            models.SmallIntegerField(choices=[(1, "EXACT"), (2, "IMPUTED")]),
                        ),
                        ("flags", models.IntegerField(default=0)),
                        ("clock_shift_us", models.BigIntegerField(default=0)),
                        ("util_mean_pm", models.SmallIntegerField(null=True)),
                        ("util_max_pm", models.SmallIntegerField(null=True)),
                        ("mem_mean_mib", models.IntegerField(null=True)),
                        ("mem_max_mib", models.IntegerField(null=True)),
                        ("processes", models.IntegerField(null=True)),
                        ("digest", models.BigIntegerField()),
                        (
                            "batch",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="accepted",
                                to="ingest.batch",
                            ),
                        ),
                        (
                            "device",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="windows",
                                to="fleet.device",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="windows",
                                to="fleet.node",
                            ),
                        ),
                        (
                            "epoch",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="windows",
                                to="ingest.epoch",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("device", "start_us"), name="window_start_once_per_device"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("end_us__gt", models.F("start_us"))),
                                name="window_not_empty",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("energy_mj__gte", 0)),
                                name="window_energy_not_negative",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="QuarantinedWindow",
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
                        ("epoch_key", models.CharField(max_length=200)),
                        ("sequence", models.BigIntegerField()),
                        ("reason", models.CharField(max_length=64)),
                        ("energy_mj", models.BigIntegerField()),
                        ("digest", models.BigIntegerField()),
                        ("content", models.JSONField()),
                        (
                            "batch",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, to="ingest.batch"
                            ),
                        ),
                        (
                            "device",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="quarantined",
                                to="fleet.device",
                            ),
                        ),
                        (
                            "node",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, to="fleet.node"
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("device", "epoch_key", "sequence", "digest"),
                                name="quarantined_once",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="WindowShare",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "epoch_id",
                                "sequence",
                                "consumer_id",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("sequence", models.BigIntegerField()),
                        ("energy_mj", models.BigIntegerField()),
                        (
                            "consumer",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT, to="ingest.consumer"
                            ),
                        ),
                        (
                            "epoch",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE, to="ingest.epoch"
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("energy_mj__gte", 0)), name="share_not_negative"
                            )
                        ],
                    },
                ),
            ]
        ),
    ]
