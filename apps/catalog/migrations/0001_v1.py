"""The first migration of catalog: the tables, indexes and constraints of version 1. It replaces the steps before it."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.core.migration_operations import CreateModels


class Migration(migrations.Migration):
    replaces = [
        ("catalog", "0001_initial"),
        ("catalog", "0002_embodied_figures"),
        ("catalog", "0001_squashed_0002"),
    ]

    initial = True

    dependencies = [
        ("accounts", "0001_v1"),
    ]

    operations = [
        CreateModels(
            [
                migrations.CreateModel(
                    name="HardwareModel",
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
                                    ("gpu", "GPU"),
                                    ("cpu", "CPU"),
                                    ("server", "Server"),
                                    ("workstation", "Workstation or desktop"),
                                    ("laptop", "Laptop"),
                                    ("storage", "Storage"),
                                    ("network", "Network"),
                                    ("monitor", "Monitor"),
                                    ("other", "Other"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("name", models.CharField(max_length=200)),
                        ("match_key", models.CharField(db_index=True, max_length=200)),
                        ("vendor", models.CharField(blank=True, default="", max_length=60)),
                        ("architecture", models.CharField(blank=True, default="", max_length=80)),
                        ("release_year", models.IntegerField(blank=True, null=True)),
                        ("tdp_mw", models.BigIntegerField(blank=True, null=True)),
                        ("memory_mib", models.BigIntegerField(blank=True, null=True)),
                        ("cores", models.IntegerField(blank=True, null=True)),
                        ("threads", models.IntegerField(blank=True, null=True)),
                        ("source", models.CharField(max_length=300)),
                        ("licence", models.CharField(max_length=120)),
                        (
                            "added_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("added_us", models.BigIntegerField(blank=True, null=True)),
                        ("category", models.CharField(blank=True, default="", max_length=40)),
                        (
                            "lab",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="hardware_models",
                                to="accounts.lab",
                            ),
                        ),
                        ("pack", models.CharField(blank=True, default="", max_length=60)),
                        ("retired_us", models.BigIntegerField(blank=True, null=True)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("lab__isnull", True)),
                                fields=("kind", "name"),
                                name="shipped_model_once",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(
                                    models.Q(("lab__isnull", True), _negated=True),
                                    ("retired_us__isnull", True),
                                ),
                                fields=("lab", "kind", "name"),
                                name="own_model_once_per_lab",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("name", ""), _negated=True),
                                name="model_has_a_name",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("lab__isnull", True), ("pack", ""), _connector="OR"
                                ),
                                name="own_model_in_no_pack",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("source", ""), _negated=True),
                                    models.Q(("licence", ""), _negated=True),
                                ),
                                name="model_has_source_and_licence",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="EmbodiedFigure",
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
                            "method",
                            models.CharField(
                                choices=[
                                    ("pcf", "Product carbon footprint"),
                                    ("lca", "Life-cycle assessment"),
                                    ("parametric", "Parametric estimate"),
                                    ("category", "Category average"),
                                ],
                                max_length=12,
                            ),
                        ),
                        (
                            "unit",
                            models.CharField(
                                choices=[
                                    ("item", "item"),
                                    ("per_tb", "TB"),
                                    ("per_gb", "GB"),
                                    ("per_kg", "kg"),
                                    ("per_mm2", "mm²"),
                                    ("per_package", "package"),
                                ],
                                default="item",
                                max_length=12,
                            ),
                        ),
                        ("manufacture_ug", models.BigIntegerField(blank=True, null=True)),
                        ("transport_ug", models.BigIntegerField(blank=True, null=True)),
                        ("end_of_life_ug", models.BigIntegerField(blank=True, null=True)),
                        ("total_ug", models.BigIntegerField()),
                        ("low_ug", models.BigIntegerField()),
                        ("high_ug", models.BigIntegerField()),
                        ("includes_end_of_life", models.BooleanField(blank=True, null=True)),
                        (
                            "lifetime_years_typical",
                            models.DecimalField(
                                blank=True, decimal_places=1, max_digits=4, null=True
                            ),
                        ),
                        ("source", models.CharField(max_length=500)),
                        ("source_year", models.IntegerField(blank=True, null=True)),
                        ("licence", models.CharField(max_length=160)),
                        ("pack", models.CharField(blank=True, default="", max_length=60)),
                        (
                            "confidence",
                            models.CharField(
                                choices=[
                                    ("read", "Read from the source's data"),
                                    ("reported", "Quoted at second hand"),
                                    ("estimate", "Estimate"),
                                    ("stated", "Stated by the lab"),
                                ],
                                max_length=12,
                            ),
                        ),
                        ("note", models.CharField(blank=True, default="", max_length=500)),
                        ("uploaded_us", models.BigIntegerField()),
                        ("superseded_us", models.BigIntegerField(blank=True, null=True)),
                        (
                            "lab",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="embodied_figures",
                                to="accounts.lab",
                            ),
                        ),
                        (
                            "model",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="figures",
                                to="catalog.hardwaremodel",
                            ),
                        ),
                        (
                            "superseded_by",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        (
                            "uploaded_by",
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
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("high_ug__gte", models.F("total_ug")),
                                    ("low_ug__gte", 0),
                                    ("low_ug__lte", models.F("total_ug")),
                                ),
                                name="figure_within_its_range",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("manufacture_ug__isnull", True),
                                    ("manufacture_ug__gte", 0),
                                    _connector="OR",
                                ),
                                name="figure_manufacture_ug_not_negative",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("transport_ug__isnull", True),
                                    ("transport_ug__gte", 0),
                                    _connector="OR",
                                ),
                                name="figure_transport_ug_not_negative",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("end_of_life_ug__isnull", True),
                                    ("end_of_life_ug__gte", 0),
                                    _connector="OR",
                                ),
                                name="figure_end_of_life_ug_not_negative",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("manufacture_ug__isnull", True),
                                    ("manufacture_ug__lte", models.F("total_ug")),
                                    _connector="OR",
                                ),
                                name="figure_manufacture_ug_in_the_whole",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("transport_ug__isnull", True),
                                    ("transport_ug__lte", models.F("total_ug")),
                                    _connector="OR",
                                ),
                                name="figure_transport_ug_in_the_whole",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("end_of_life_ug__isnull", True),
                                    ("end_of_life_ug__lte", models.F("total_ug")),
                                    _connector="OR",
                                ),
                                name="figure_end_of_life_ug_in_the_whole",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("end_of_life_ug__isnull", True),
                                    models.Q(
                                        ("includes_end_of_life", True),
                                        ("includes_end_of_life__isnull", False),
                                    ),
                                    _connector="OR",
                                ),
                                name="end_of_life_part_is_inside",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("source", ""), _negated=True),
                                    models.Q(("licence", ""), _negated=True),
                                ),
                                name="figure_has_source_and_licence",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(
                                    ("lab__isnull", True), ("superseded_us__isnull", True)
                                ),
                                fields=("model", "pack", "method", "unit"),
                                name="shipped_figure_once",
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(
                                    models.Q(("lab__isnull", True), _negated=True),
                                    ("superseded_us__isnull", True),
                                ),
                                fields=("lab", "model", "method", "unit"),
                                name="own_figure_once_per_lab",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("lab__isnull", True), ("pack", ""), _connector="OR"
                                ),
                                name="own_figure_in_no_pack",
                            ),
                        ],
                        "indexes": [
                            models.Index(
                                condition=models.Q(("superseded_us__isnull", True)),
                                fields=["model"],
                                name="figure_current_of_model",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Evidence",
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
                        ("size_bytes", models.IntegerField()),
                        ("sha256", models.CharField(max_length=64)),
                        ("content", models.BinaryField()),
                        (
                            "figure",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="evidence",
                                to="catalog.embodiedfigure",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(("size_bytes__gt", 0)), name="evidence_not_empty"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="HardwareAlias",
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
                        ("match_key", models.CharField(db_index=True, max_length=200)),
                        (
                            "model",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="aliases",
                                to="catalog.hardwaremodel",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("model", "match_key"), name="alias_once_per_model"
                            )
                        ],
                    },
                ),
            ]
        ),
    ]
