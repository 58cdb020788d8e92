"""The index of failed runs answers without their rows."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0005_failed_runs"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="run", name="run_that_failed"),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("state", "failed")),
                fields=["lab", "uuid"],
                name="run_that_failed",
            ),
        ),
    ]
