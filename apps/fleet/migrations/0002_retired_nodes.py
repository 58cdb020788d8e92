"""Retirement and display name of nodes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("fleet", "0001_v1")]

    operations = [
        migrations.AddField(
            model_name="node",
            name="display_name",
            field=models.CharField(blank=True, default="", max_length=100),
        ),
        migrations.AddField(
            model_name="node",
            name="retired_us",
            field=models.BigIntegerField(blank=True, null=True),
        ),
    ]
