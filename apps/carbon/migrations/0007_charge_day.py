"""Daily sums by charged party, also of the days that an earlier version has rolled up."""

import django.db.models.deletion
from django.db import migrations, models

KEYS = "day_id, project_id, person_id, kind, energy_quality, factor_id, pue_ppm, price_id, currency"
SUMS = "energy_mj, facility_energy_mj, emission_ug, without_factor_mj, cost_ucurrency, entries"
FILL = (
    f"INSERT INTO carbon_chargeday ({KEYS}, {SUMS}) SELECT {KEYS}, "
    f"{', '.join(f'SUM({name})' for name in SUMS.split(', '))} FROM carbon_useday GROUP BY {KEYS}"
)
# Hours are rolled up too: the job that waits for the end of the day is due at once, by its new name.
HOURLY = "UPDATE core_job SET kind = 'carbon.hour_over', due_us = 0 WHERE kind = 'carbon.day_over'"


class Migration(migrations.Migration):
    dependencies = [
        ("carbon", "0006_system_use"),
        ("core", "0003_erased_name"),
    ]

    operations = [
        migrations.CreateModel(
            name="ChargeDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("project_id", models.BigIntegerField(null=True)),
                ("person_id", models.BigIntegerField(null=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("used", "Used"),
                            ("idle", "Idle"),
                            ("idle_share", "Idle, charged to projects"),
                            ("overhead", "Node overhead"),
                            ("system", "System processes"),
                        ],
                        max_length=12,
                    ),
                ),
                (
                    "energy_quality",
                    models.SmallIntegerField(
                        choices=[(1, "COUNTER"), (2, "SAMPLED"), (3, "MODELLED"), (4, "DECLARED")]
                    ),
                ),
                ("factor_id", models.BigIntegerField(null=True)),
                ("pue_ppm", models.BigIntegerField(null=True)),
                ("price_id", models.BigIntegerField(null=True)),
                ("currency", models.CharField(blank=True, default="", max_length=3)),
                ("energy_mj", models.BigIntegerField()),
                ("facility_energy_mj", models.BigIntegerField()),
                ("emission_ug", models.BigIntegerField()),
                ("without_factor_mj", models.BigIntegerField()),
                ("cost_ucurrency", models.BigIntegerField(default=0)),
                ("entries", models.BigIntegerField()),
            ],
        ),
        migrations.AddIndex(
            model_name="useday",
            index=models.Index(fields=["consumer_id"], name="use_of_consumer"),
        ),
        migrations.AddField(
            model_name="chargeday",
            name="day",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="carbon.rolledday",
            ),
        ),
        migrations.RunSQL([FILL, HOURLY], migrations.RunSQL.noop),
    ]
