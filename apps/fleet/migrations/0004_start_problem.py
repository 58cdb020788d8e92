"""Why the collector of a node does not start."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("fleet", "0003_fleet_tokens")]

    operations = [
        migrations.AddField(
            model_name="node",
            name="start_problem",
            field=models.CharField(blank=True, default="", max_length=300),
        ),
        migrations.AddField(
            model_name="node",
            name="start_problem_us",
            field=models.BigIntegerField(blank=True, null=True),
        ),
    ]
