"""Forecasts of budgets as they were after each day, and their scores."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("budgets", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="BudgetForecast",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("first_day", models.DateField()),
                ("day", models.DateField()),
                ("created_us", models.BigIntegerField()),
                ("basis", models.CharField(blank=True, default="", max_length=16)),
                ("used", models.BigIntegerField()),
                ("total", models.BigIntegerField()),
                ("low", models.BigIntegerField(blank=True, null=True)),
                ("high", models.BigIntegerField(blank=True, null=True)),
                ("actual", models.BigIntegerField(blank=True, null=True)),
                ("is_inside", models.BooleanField(blank=True, null=True)),
                (
                    "budget",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="forecasts",
                        to="budgets.budget",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("budget", "first_day", "day"), name="budget_forecast_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("high__isnull", True), ("low__isnull", True)),
                            models.Q(
                                ("high__isnull", False),
                                ("low__isnull", False),
                                ("low__lte", models.F("high")),
                            ),
                            _connector="OR",
                        ),
                        name="budget_forecast_range_is_whole",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("actual__isnull", True), ("is_inside__isnull", True)),
                            models.Q(("is_inside__isnull", True), ("low__isnull", True)),
                            models.Q(
                                ("actual__isnull", False),
                                ("is_inside__isnull", False),
                                ("low__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="budget_forecast_score_of_range",
                    ),
                ],
            },
        ),
    ]
