"""Factors of months and of hours, and factors of a lab's own beside the shipped ones."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

EDITION = ["zone", "basis", "resolution", "year", "month", "edition"]


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_lab_is_currency_chosen"),
        ("carbon", "0008_lab_day"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="emissionfactor", name="factor_edition_once"),
        migrations.AddField(
            model_name="emissionfactor",
            name="month",
            field=models.SmallIntegerField(default=0),
        ),
        migrations.AlterField(
            model_name="emissionfactor",
            name="resolution",
            field=models.CharField(
                choices=[
                    ("hourly_actual", "hourly, measured"),
                    ("hourly_estimated", "hourly, estimated"),
                    ("monthly", "monthly"),
                    ("annual_subregion", "annual, part of a country"),
                    ("annual_country", "annual, country"),
                    ("declared", "declared"),
                ],
                max_length=32,
            ),
        ),
        migrations.AlterField(
            model_name="emissionfactor",
            name="ug_per_kwh",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddConstraint(
            model_name="emissionfactor",
            constraint=models.UniqueConstraint(
                condition=Q(("lab__isnull", True)), fields=EDITION, name="factor_edition_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="emissionfactor",
            constraint=models.UniqueConstraint(
                condition=Q(("lab__isnull", False)),
                fields=["lab", *EDITION],
                name="factor_edition_of_lab_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="emissionfactor",
            constraint=models.CheckConstraint(
                condition=Q(
                    Q(("month", 0), ("ug_per_kwh__isnull", False)),
                    Q(
                        ("month__gte", 1),
                        ("month__lte", 12),
                        ("resolution", "monthly"),
                        ("ug_per_kwh__isnull", False),
                    ),
                    Q(
                        ("month", 0),
                        ("resolution__startswith", "hourly_"),
                        ("ug_per_kwh__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="factor_fits_its_resolution",
            ),
        ),
        migrations.CreateModel(
            name="HourlySeries",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("zone", models.CharField(max_length=80)),
                (
                    "basis",
                    models.CharField(
                        choices=[("lifecycle", "Lifecycle"), ("direct", "Direct")], max_length=16
                    ),
                ),
                (
                    "lab",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="hourly_series",
                        to="accounts.lab",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=["lab", "zone", "basis"], name="hourly_series_once"
                    )
                ]
            },
        ),
        migrations.CreateModel(
            name="HourFactor",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("hour", models.BigIntegerField()),
                ("ug_per_kwh", models.BigIntegerField()),
                ("loaded_us", models.BigIntegerField()),
                ("superseded_us", models.BigIntegerField(blank=True, null=True)),
                (
                    "factor",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="hours",
                        to="carbon.emissionfactor",
                    ),
                ),
                (
                    "series",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="hours",
                        to="carbon.hourlyseries",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["series", "hour"], name="hour_factor_editions")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=Q(("superseded_us__isnull", True)),
                        fields=["series", "hour"],
                        name="hour_factor_once",
                    ),
                    models.CheckConstraint(
                        condition=Q(("ug_per_kwh__gt", 0)), name="hour_factor_not_zero"
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="appliedfactor",
            name="hourly",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="carbon.hourlyseries",
            ),
        ),
    ]
