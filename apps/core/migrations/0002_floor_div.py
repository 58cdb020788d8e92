"""PostgreSQL's div() truncates towards zero; figures need floor, for energies below zero too."""

from typing import Any

from django.db import migrations

CREATE = """
CREATE OR REPLACE FUNCTION floor_div(a numeric, b numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
AS $$ SELECT div(a - mod(mod(a, b) + b, b), b) $$
"""


def create(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(CREATE)


def drop(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP FUNCTION IF EXISTS floor_div(numeric, numeric)")


class Migration(migrations.Migration):
    dependencies = [("core", "0001_initial")]
    operations = [migrations.RunPython(create, drop)]
