"""Tables of sealed hours and of the blocks of archived windows."""

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.exceptions import IrreversibleError


def _refuse_loss(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Refuse to drop the only record of archived windows."""
    if apps.get_model("ingest", "SealedBlock").objects.exists():
        raise IrreversibleError("Windows are archived. Restore a backup from before the upgrade.")


class Migration(migrations.Migration):
    dependencies = [
        ("fleet", "0001_v1"),
        ("ingest", "0004_shares_in_windows"),
    ]

    operations = [
        migrations.CreateModel(
            name="SealedBlock",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("first_sequence", models.BigIntegerField()),
                ("last_sequence", models.BigIntegerField()),
                ("start_us", models.BigIntegerField()),
                ("end_us", models.BigIntegerField()),
                ("counter_low", models.BigIntegerField(null=True)),
                ("counter_high", models.BigIntegerField(null=True)),
                ("windows", models.IntegerField()),
                ("file", models.CharField(max_length=80)),
                ("offset", models.BigIntegerField()),
                ("length", models.IntegerField()),
                ("sha256", models.BinaryField(max_length=32)),
                (
                    "device",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="fleet.device",
                    ),
                ),
                (
                    "epoch",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="ingest.epoch",
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="fleet.node"),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["epoch", "last_sequence"], name="sealed_block_of_epoch"),
                    models.Index(fields=["device", "start_us"], name="sealed_block_of_device"),
                    models.Index(fields=["device", "end_us"], name="sealed_block_ends"),
                ],
            },
        ),
        migrations.CreateModel(
            name="SealedHour",
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
                ("windows", models.IntegerField()),
                ("energy_mj", models.BigIntegerField()),
                ("sha256", models.BinaryField(max_length=32)),
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
            options={
                "indexes": [models.Index(fields=["node", "hour"], name="sealed_hour_of_node")],
            },
        ),
        migrations.RunPython(migrations.RunPython.noop, _refuse_loss),
    ]
