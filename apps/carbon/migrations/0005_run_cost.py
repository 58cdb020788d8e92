import django.db.models.deletion
from django.db import migrations, models

CURRENCIES = (
    "UPDATE carbon_useday SET currency = (SELECT p.currency FROM fleet_siteprice p "
    "WHERE p.id = carbon_useday.price_id) WHERE EXISTS (SELECT 1 FROM fleet_siteprice p "
    "WHERE p.id = carbon_useday.price_id)"
)
FILL = (
    "INSERT INTO carbon_runcost (lab_id, currency, run_uuid, energy_mj, cost_ucurrency) "
    "SELECT c.lab_id, u.currency, c.run_uuid, SUM(u.energy_mj), SUM(u.cost_ucurrency) "
    "FROM carbon_useday u JOIN carbon_rolledday d ON d.id = u.day_id AND d.what = 'use' "
    "JOIN ingest_consumer c ON c.id = u.consumer_id AND c.lab_id = d.lab_id "
    "WHERE c.run_uuid IS NOT NULL AND u.currency <> '' "
    "GROUP BY c.lab_id, u.currency, c.run_uuid"
)


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_v1"),
        ("carbon", "0004_run_total"),
        ("fleet", "0001_v1"),
        ("ingest", "0001_v1"),
    ]

    operations = [
        migrations.AddField(
            model_name="useday",
            name="currency",
            field=models.CharField(blank=True, default="", max_length=3),
        ),
        migrations.CreateModel(
            name="RunCost",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "lab_id",
                        "currency",
                        "run_uuid",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("currency", models.CharField(max_length=3)),
                ("run_uuid", models.UUIDField()),
                ("energy_mj", models.BigIntegerField()),
                ("cost_ucurrency", models.BigIntegerField()),
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
        migrations.RunSQL(CURRENCIES, migrations.RunSQL.noop),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
