"""Files with a lab's own emission factors."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_lab_is_currency_chosen"),
        ("carbon", "0012_instruments"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="OwnFactorFile",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("file_name", models.CharField(max_length=200)),
                ("content", models.TextField(blank=True)),
                ("sha256", models.CharField(max_length=64)),
                ("summary", models.JSONField(default=dict)),
                ("from_hour", models.BigIntegerField(blank=True, null=True)),
                ("to_hour", models.BigIntegerField(blank=True, null=True)),
                ("created_us", models.BigIntegerField()),
                ("confirmed_us", models.BigIntegerField(blank=True, null=True)),
                ("withdrawn_us", models.BigIntegerField(blank=True, null=True)),
                ("withdrawal_reason", models.CharField(blank=True, default="", max_length=400)),
                (
                    "confirmed_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
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
                        related_name="own_factor_files",
                        to="accounts.lab",
                    ),
                ),
                (
                    "withdrawn_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="emissionfactor",
            name="own_file",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="factors",
                to="carbon.ownfactorfile",
            ),
        ),
        migrations.AddIndex(
            model_name="ownfactorfile",
            index=models.Index(fields=["lab", "created_us"], name="own_factor_files_of_lab"),
        ),
        migrations.AddConstraint(
            model_name="ownfactorfile",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("withdrawn_us__isnull", True),
                    models.Q(
                        ("confirmed_us__isnull", False),
                        models.Q(("withdrawal_reason", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="own_factors_withdrawn_with_reason",
            ),
        ),
    ]
