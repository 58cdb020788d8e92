"""System processes are a kind of use of their own, also where an earlier version stored them."""

from django.db import migrations, models

# A collector of a newer version marked them. Before, they were consumers like any other.
MARKED = "kind = 'proc' AND key LIKE 'proc:%% [system account]'"
CONSUMERS = f"UPDATE ingest_consumer SET kind = 'system' WHERE {MARKED}"
DAYS = (
    "UPDATE carbon_useday SET kind = 'system' WHERE kind = 'used' AND project_id IS NULL "
    "AND consumer_id IN (SELECT id FROM ingest_consumer WHERE kind = 'system')"
)


class Migration(migrations.Migration):
    dependencies = [
        ("carbon", "0005_run_cost"),
        ("ingest", "0005_sealed_hours"),
    ]

    operations = [
        migrations.AlterField(
            model_name="useday",
            name="kind",
            field=models.CharField(
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
        migrations.RunSQL([(CONSUMERS, []), (DAYS, [])], migrations.RunSQL.noop),
    ]
