"""Asset sources and the rows of their last poll."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_v1"),
        ("assets", "0006_attachments"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AssetSource",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "system",
                    models.CharField(
                        choices=[("netbox", "NetBox"), ("snipe_it", "Snipe-IT"), ("glpi", "GLPI")],
                        max_length=10,
                    ),
                ),
                ("name", models.CharField(max_length=100)),
                ("address", models.CharField(max_length=300)),
                ("token", models.TextField(blank=True, default="")),
                ("app_token", models.TextField(blank=True, default="")),
                (
                    "policy",
                    models.CharField(
                        choices=[
                            ("propose", "Propose: a person reviews new and changed rows"),
                            (
                                "apply",
                                "Apply: register new rows and update details",
                            ),
                        ],
                        default="propose",
                        max_length=8,
                    ),
                ),
                ("currency", models.CharField(blank=True, default="", max_length=3)),
                ("bought_on", models.CharField(blank=True, default="", max_length=10)),
                ("enabled", models.BooleanField(default=True)),
                ("created_us", models.BigIntegerField()),
                ("removed_us", models.BigIntegerField(blank=True, null=True)),
                ("polled_us", models.BigIntegerField(blank=True, null=True)),
                ("succeeded_us", models.BigIntegerField(blank=True, null=True)),
                ("problem", models.CharField(blank=True, default="", max_length=400)),
                ("failures", models.IntegerField(default=0)),
                ("due_us", models.BigIntegerField(default=0)),
                ("halted_us", models.BigIntegerField(blank=True, null=True)),
                ("lost_rows", models.IntegerField(default=0)),
                ("loss_accepted", models.IntegerField(default=0)),
                ("pending_digest", models.CharField(blank=True, default="", max_length=64)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "lab",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.lab",
                    ),
                ),
                (
                    "pending_import",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="assets.registerimport",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PolledRow",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.BigIntegerField()),
                ("cells", models.JSONField(default=dict)),
                ("accepted", models.JSONField(default=dict)),
                ("problem", models.CharField(blank=True, default="", max_length=400)),
                ("ignored", models.BooleanField(default=False)),
                ("vanished_us", models.BigIntegerField(blank=True, null=True)),
                (
                    "asset",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="assets.asset",
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rows",
                        to="pollers.assetsource",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="assetsource",
            constraint=models.UniqueConstraint(
                condition=models.Q(("removed_us__isnull", True)),
                fields=("lab", "system", "address"),
                name="asset_source_once_per_lab",
            ),
        ),
        migrations.AddConstraint(
            model_name="assetsource",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("token", ""), _negated=True),
                    ("removed_us__isnull", False),
                    _connector="OR",
                ),
                name="asset_source_has_a_token",
            ),
        ),
        migrations.AddConstraint(
            model_name="polledrow",
            constraint=models.UniqueConstraint(fields=("source", "number"), name="polled_row_once"),
        ),
    ]
