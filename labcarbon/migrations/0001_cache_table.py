"""The table of the cache that several web processes share (settings.CACHES, docs/sign-in.md)."""

from django.core.management import call_command
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

TABLE = "labcarbon_cache"


def make(apps: object, schema_editor: BaseDatabaseSchemaEditor) -> None:
    call_command("createcachetable", TABLE, database=schema_editor.connection.alias, verbosity=0)


class Migration(migrations.Migration):
    initial = True
    operations = [migrations.RunPython(make, migrations.RunPython.noop)]
