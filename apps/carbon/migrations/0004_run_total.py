import django.db.models.deletion
from django.db import migrations, models

SUMS = "energy_mj, facility_energy_mj, emission_ug, without_factor_mj, entries"
FILL = (
    f"INSERT INTO carbon_runtotal (lab_id, run_uuid, {SUMS}) SELECT c.lab_id, c.run_uuid, "
    + ", ".join(f"SUM(u.{name})" for name in SUMS.split(", "))
    + " FROM carbon_useday u JOIN carbon_rolledday d ON d.id = u.day_id AND d.what = 'use' "
    "JOIN ingest_consumer c ON c.id = u.consumer_id AND c.lab_id = d.lab_id "
    "WHERE c.run_uuid IS NOT NULL GROUP BY c.lab_id, c.run_uuid"
)


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_v1"),
        ("carbon", "0003_costs"),
        ("ingest", "0001_v1"),
    ]

    operations = [
        migrations.CreateModel(
            name="RunTotal",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "lab_id",
                        "run_uuid",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("run_uuid", models.UUIDField()),
                ("energy_mj", models.BigIntegerField()),
                ("facility_energy_mj", models.BigIntegerField()),
                ("emission_ug", models.BigIntegerField()),
                ("without_factor_mj", models.BigIntegerField()),
                ("entries", models.BigIntegerField()),
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
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
