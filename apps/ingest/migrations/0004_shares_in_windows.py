"""Moves the shares of each window into its row, and sums them by consumer and hour."""

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

_US_PER_HOUR = 3_600_000_000


def _move_shares(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor == "postgresql":
        text = "'{' || string_agg('\"' || consumer_id || '\":' || energy_mj, ',') || '}'"
        schema_editor.execute(
            "UPDATE ingest_energywindow w SET shares = s.shares FROM "
            f"(SELECT epoch_id, sequence, {text} AS shares FROM ingest_windowshare "
            "GROUP BY epoch_id, sequence) s "
            "WHERE s.epoch_id = w.epoch_id AND s.sequence = w.sequence"
        )
    else:
        text = "'{' || group_concat('\"' || consumer_id || '\":' || energy_mj, ',') || '}'"
        schema_editor.execute(
            "UPDATE ingest_energywindow SET shares = COALESCE("
            f"(SELECT {text} FROM ingest_windowshare s WHERE s.epoch_id = "
            "ingest_energywindow.epoch_id AND s.sequence = ingest_energywindow.sequence), '{}')"
        )
    schema_editor.execute(
        "INSERT INTO ingest_consumerhour (consumer_id, device_id, hour, energy_mj, last_us) "
        f"SELECT s.consumer_id, w.device_id, w.start_us / {_US_PER_HOUR}, SUM(s.energy_mj), "
        "MAX(w.end_us) FROM ingest_energywindow w JOIN ingest_windowshare s "
        "ON s.epoch_id = w.epoch_id AND s.sequence = w.sequence GROUP BY 1, 2, 3"
    )


class Migration(migrations.Migration):
    dependencies = [
        ("fleet", "0001_v1"),
        ("ingest", "0003_decisions_and_moves"),
    ]

    operations = [
        migrations.CreateModel(
            name="ConsumerHour",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "consumer_id",
                        "device_id",
                        "hour",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("hour", models.BigIntegerField()),
                ("energy_mj", models.BigIntegerField()),
                ("last_us", models.BigIntegerField()),
                (
                    "consumer",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="ingest.consumer",
                    ),
                ),
                (
                    "device",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, to="fleet.device"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("energy_mj__gte", 0)),
                        name="consumer_hour_not_negative",
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="energywindow",
            name="shares",
            field=models.TextField(default="{}"),
        ),
        migrations.RunPython(_move_shares),
        migrations.DeleteModel(name="WindowShare"),
        migrations.AlterField(
            model_name="energywindow",
            name="epoch",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="windows",
                to="ingest.epoch",
            ),
        ),
        migrations.AlterField(
            model_name="energywindow",
            name="device",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="windows",
                to="fleet.device",
            ),
        ),
        migrations.AlterField(
            model_name="energywindow",
            name="node",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="windows",
                to="fleet.node",
            ),
        ),
        migrations.AlterField(
            model_name="energywindow",
            name="batch",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="accepted",
                to="ingest.batch",
            ),
        ),
    ]
