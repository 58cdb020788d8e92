"""Ends of life, leases, events caused by the disposal of a machine; recompute all charges, whose
rules changed (see CHANGELOG, Methodology).
"""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def _enqueue(apps: Any, schema_editor: Any) -> None:
    job = apps.get_model("core", "Job")
    labs = apps.get_model("assets", "Asset").objects.values_list("lab_id", flat=True).distinct()
    job.objects.bulk_create([job(kind="assets.recompute", key=str(lab_id)) for lab_id in labs])


class Migration(migrations.Migration):
    dependencies = [("assets", "0001_v1"), ("core", "0001_v1")]

    operations = [
        migrations.AddField(
            model_name="lifecycleevent",
            name="cause",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="consequences",
                to="assets.lifecycleevent",
            ),
        ),
        migrations.AddField(
            model_name="lifecycleevent",
            name="end_of_life",
            field=models.CharField(
                blank=True,
                choices=[
                    ("resold", "Resold"),
                    ("donated", "Donated"),
                    ("recycled", "Recycled"),
                    ("lost", "Lost"),
                    ("stolen", "Stolen"),
                    ("lease_returned", "Lease returned"),
                ],
                default="",
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="lifecycleevent",
            name="mass_g",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name="lifecycleevent",
            name="kind",
            field=models.CharField(
                choices=[
                    ("purchase", "Purchased"),
                    ("second_hand", "Purchased second-hand"),
                    ("lease", "Leased"),
                    ("deploy", "Put into use"),
                    ("move", "Moved"),
                    ("transfer", "Changed owner"),
                    ("repurpose", "Repurposed"),
                    ("repair", "Repaired or refurbished"),
                    ("upgrade", "Upgraded"),
                    ("life_change", "Planned life changed"),
                    ("lend", "Lent"),
                    ("return", "Returned"),
                    ("retire", "Taken out of use"),
                    ("dispose", "Disposed of"),
                    ("reversal", "Event reversed"),
                ],
                max_length=12,
            ),
        ),
        migrations.AddConstraint(
            model_name="lifecycleevent",
            constraint=models.CheckConstraint(
                condition=models.Q(("mass_g__isnull", True), ("mass_g__gt", 0), _connector="OR"),
                name="event_mass_not_empty",
            ),
        ),
        migrations.RunPython(_enqueue, migrations.RunPython.noop),
    ]
