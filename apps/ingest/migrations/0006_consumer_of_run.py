"""An index of the consumers of runs that answers without their rows."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_lab_is_currency_chosen"),
        ("ingest", "0005_sealed_hours"),
    ]

    operations = [
        migrations.AlterField(
            model_name="consumer",
            name="run_uuid",
            field=models.UUIDField(blank=True, null=True),
        ),
        migrations.AddIndex(
            model_name="consumer",
            index=models.Index(fields=["run_uuid", "lab"], name="consumer_of_run"),
        ),
    ]
