"""Daily sums of the whole lab, also of the days that an earlier version has rolled up."""

import django.db.models.deletion
from django.db import migrations, models

SUMS = "energy_mj, facility_energy_mj, emission_ug, without_factor_mj, entries"
CHARGED = ", ".join(
    f"COALESCE((SELECT SUM(u.{name}) FROM carbon_chargeday u WHERE u.day_id = b.id), 0)"
    for name in SUMS.split(", ")
)
FILL = (
    f"INSERT INTO carbon_labday (day_id, {SUMS}, covered_us) SELECT b.id, {CHARGED}, "
    "COALESCE((SELECT SUM(u.covered_us) FROM carbon_meterday u JOIN fleet_device d ON d.id = "
    "u.device_id WHERE u.day_id = b.id AND d.kind NOT IN ('host', 'declared', 'meter')), 0) "
    "FROM carbon_rolledday b WHERE b.what = 'use'"
)


class Migration(migrations.Migration):
    dependencies = [
        ("carbon", "0007_charge_day"),
    ]

    operations = [
        migrations.CreateModel(
            name="LabDay",
            fields=[
                (
                    "day",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="carbon.rolledday",
                    ),
                ),
                ("energy_mj", models.BigIntegerField()),
                ("facility_energy_mj", models.BigIntegerField()),
                ("emission_ug", models.BigIntegerField()),
                ("without_factor_mj", models.BigIntegerField()),
                ("entries", models.BigIntegerField()),
                ("covered_us", models.BigIntegerField()),
            ],
        ),
        migrations.RemoveIndex(model_name="useday", name="use_of_consumer"),
        migrations.AddIndex(
            model_name="useday",
            index=models.Index(fields=["consumer_id", "day"], name="use_of_consumer"),
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
