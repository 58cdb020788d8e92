"""Contact and order number of assets, and their attachments."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("assets", "0005_register_changes"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="asset",
            name="contact",
            field=models.CharField(blank=True, default="", max_length=200),
        ),
        migrations.AddField(
            model_name="asset",
            name="order_number",
            field=models.CharField(blank=True, default="", max_length=100),
        ),
        migrations.CreateModel(
            name="Attachment",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("uuid", models.UUIDField(unique=True)),
                ("file", models.CharField(max_length=100)),
                ("name", models.CharField(blank=True, default="", max_length=200)),
                (
                    "media_type",
                    models.CharField(
                        choices=[
                            ("application/pdf", "PDF"),
                            ("image/png", "PNG"),
                            ("image/jpeg", "JPEG"),
                        ],
                        max_length=20,
                    ),
                ),
                ("bytes", models.BigIntegerField()),
                ("sha256", models.CharField(blank=True, default="", max_length=64)),
                ("added_us", models.BigIntegerField()),
                ("deleted_us", models.BigIntegerField(blank=True, null=True)),
                ("erased_us", models.BigIntegerField(blank=True, null=True)),
                (
                    "added_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "asset",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attachments",
                        to="assets.asset",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["asset", "added_us"], name="attachments_of_asset")
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("bytes__gt", 0)), name="attachment_not_empty"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("deleted_us__isnull", False),
                            models.Q(
                                models.Q(("name", ""), _negated=True),
                                models.Q(("sha256", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="attachment_has_a_name",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("erased_us__isnull", True),
                            ("deleted_us__isnull", False),
                            _connector="OR",
                        ),
                        name="attachment_deleted_if_erased",
                    ),
                ],
            },
        ),
    ]
