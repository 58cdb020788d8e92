"""Instruments of market-based emissions, their certificates and their evidence."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.core.migration_operations import CreateModels


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_lab_is_currency_chosen"),
        ("carbon", "0011_grid_forecasts"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="Instrument",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("go", "Guarantee of origin (GO)"),
                                    ("rego", "REGO"),
                                    ("rec", "REC"),
                                    ("i_rec", "I-REC"),
                                    ("ppa", "Power purchase agreement"),
                                    ("own_solar", "Own solar system"),
                                    ("tariff", "Supplier tariff"),
                                    ("residual_mix", "Residual mix"),
                                    ("fossil_factor", "Fossil-based factor"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("name", models.CharField(max_length=200)),
                        ("registry", models.CharField(blank=True, default="", max_length=100)),
                        ("market", models.JSONField()),
                        ("plant_zone", models.CharField(blank=True, default="", max_length=40)),
                        ("first_day", models.DateField()),
                        ("last_day", models.DateField()),
                        (
                            "granularity",
                            models.CharField(
                                choices=[("hour", "Hour"), ("month", "Month"), ("year", "Year")],
                                max_length=8,
                            ),
                        ),
                        ("volume_wh", models.BigIntegerField(blank=True, null=True)),
                        (
                            "volumes_by",
                            models.CharField(
                                choices=[("hour", "Hour"), ("month", "Month"), ("year", "Year")],
                                default="year",
                                max_length=8,
                            ),
                        ),
                        ("volumes_from_hour", models.BigIntegerField(blank=True, null=True)),
                        ("volumes_wh", models.JSONField(blank=True, null=True)),
                        ("ug_per_kwh", models.BigIntegerField()),
                        ("retired_on", models.DateField(blank=True, null=True)),
                        ("beneficiary", models.CharField(blank=True, default="", max_length=200)),
                        ("notes", models.CharField(blank=True, default="", max_length=1000)),
                        ("created_us", models.BigIntegerField()),
                        ("withdrawn_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "withdrawal_reason",
                            models.CharField(blank=True, default="", max_length=400),
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
                                related_name="instruments",
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
                    options={
                        "indexes": [
                            models.Index(fields=["lab", "first_day"], name="instruments_of_lab")
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("last_day__gte", models.F("first_day"))),
                                name="instrument_vintage_not_empty",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("volume_wh__isnull", True),
                                    ("volume_wh__gt", 0),
                                    _connector="OR",
                                ),
                                name="instrument_volume_above_zero",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("ug_per_kwh__gte", 0)),
                                name="instrument_rate_not_negative",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("withdrawn_us__isnull", True),
                                    models.Q(("withdrawal_reason", ""), _negated=True),
                                    _connector="OR",
                                ),
                                name="instrument_withdrawn_with_reason",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CertificateRange",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("prefix", models.CharField(blank=True, default="", max_length=100)),
                        ("first", models.BigIntegerField()),
                        ("last", models.BigIntegerField()),
                        ("text", models.CharField(max_length=250)),
                        (
                            "lab",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "instrument",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="certificates",
                                to="carbon.instrument",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["lab", "prefix", "first"], name="certificates_of_lab"
                            )
                        ],
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("last__gte", models.F("first"))),
                                name="certificate_range_not_empty",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="InstrumentEvidence",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("file_name", models.CharField(max_length=200)),
                        ("content_type", models.CharField(max_length=40)),
                        ("size_bytes", models.IntegerField()),
                        ("sha256", models.CharField(max_length=64)),
                        ("content", models.BinaryField()),
                        (
                            "instrument",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="evidence",
                                to="carbon.instrument",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("size_bytes__gt", 0)),
                                name="instrument_evidence_not_empty",
                            )
                        ]
                    },
                ),
            ]
        )
    ]
