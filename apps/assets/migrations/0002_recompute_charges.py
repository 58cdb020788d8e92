"""Enqueue the recomputation of all charges: their rules changed (see CHANGELOG, Methodology)."""

from typing import Any

from django.db import migrations


def _enqueue(apps: Any, schema_editor: Any) -> None:
    labs = apps.get_model("assets", "Asset").objects.values_list("lab_id", flat=True).distinct()
    apps.get_model("core", "Job").objects.bulk_create(
        [apps.get_model("core", "Job")(kind="assets.recompute", key=str(lab_id)) for lab_id in labs]
    )


class Migration(migrations.Migration):
    dependencies = [("assets", "0001_v1"), ("core", "0001_v1")]

    operations = [migrations.RunPython(_enqueue, migrations.RunPython.noop)]
