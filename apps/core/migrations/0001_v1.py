"""The first migration of core: the tables, indexes and constraints of version 1. It replaces the steps before it."""

from django.db import migrations, models

from apps.core.migration_operations import PostgresSQL

# PostgreSQL's div() truncates towards zero. Figures need the floor, also of energies below zero.
CREATE_FLOOR_DIV = """
CREATE OR REPLACE FUNCTION floor_div(a numeric, b numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
AS $$ SELECT div(a - mod(mod(a, b) + b, b), b) $$
"""
DROP_FLOOR_DIV = "DROP FUNCTION IF EXISTS floor_div(numeric, numeric)"


class Migration(migrations.Migration):
    replaces = [
        ("core", "0001_initial"),
        ("core", "0002_floor_div"),
    ]

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Job",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=64)),
                ("key", models.CharField(max_length=200)),
                ("requested", models.BigIntegerField(default=1)),
                ("done", models.BigIntegerField(default=0)),
                ("due_us", models.BigIntegerField(default=0)),
                ("leased_until_us", models.BigIntegerField(default=0)),
                ("leased_by", models.CharField(blank=True, default="", max_length=64)),
                ("attempts", models.IntegerField(default=0)),
                ("last_error", models.TextField(blank=True, default="")),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("done__lt", models.F("requested"))),
                        fields=["due_us"],
                        name="job_due",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("kind", "key"), name="job_kind_key_once"),
                    models.CheckConstraint(
                        condition=models.Q(("done__lte", models.F("requested"))),
                        name="job_done_at_most_requested",
                    ),
                ],
            },
        ),
        PostgresSQL(CREATE_FLOOR_DIV, DROP_FLOOR_DIV),
    ]
