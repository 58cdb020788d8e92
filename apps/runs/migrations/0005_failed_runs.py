"""The failed runs of a lab, which are few, have an index."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_lab_is_currency_chosen"),
        ("fleet", "0004_start_problem"),
        ("runs", "0004_saved_views_and_comments"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("state", "failed")), fields=["lab"], name="run_that_failed"
            ),
        ),
    ]
