"""Utilization and memory per device-hour; a job per node records those of the stored windows."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def _enqueue(apps: Any, schema_editor: Any) -> None:
    job = apps.get_model("core", "Job")
    nodes = apps.get_model("fleet", "Node").objects.values_list("pk", flat=True)
    job.objects.bulk_create(
        [job(kind="energy.record_utilization", key=str(node_id)) for node_id in nodes]
    )


class Migration(migrations.Migration):
    dependencies = [
        ("core", "0001_v1"),
        ("energy", "0001_v1"),
        ("fleet", "0003_fleet_tokens"),
        ("ingest", "0005_sealed_hours"),
    ]

    operations = [
        migrations.CreateModel(
            name="UtilizationHour",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "device_id",
                        "hour",
                        "node_id",
                        "consumer_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("hour", models.BigIntegerField()),
                ("util_us", models.BigIntegerField()),
                ("util_pm_us", models.BigIntegerField()),
                ("idle_us", models.BigIntegerField()),
                ("util_bins", models.TextField()),
                ("mem_us", models.BigIntegerField()),
                ("mem_mib_us", models.BigIntegerField()),
                ("mem_max_mib", models.IntegerField()),
                ("mem_bins", models.TextField()),
                ("shared_us", models.BigIntegerField()),
                ("most_consumers", models.IntegerField()),
                (
                    "consumer",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, to="ingest.consumer"
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
                    "node",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, to="fleet.node"
                    ),
                ),
            ],
        ),
        migrations.RunPython(_enqueue, migrations.RunPython.noop),
    ]
