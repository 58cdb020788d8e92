"""A private installation for a benchmark: settings, a temporary folder, and SQLite or a private
PostgreSQL.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.environment import installation_environment
from tests.services.postgres import Postgres


@contextmanager
def private_installation(*, postgres: bool) -> Iterator[None]:
    """Set Django up in a folder that is removed afterwards."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="labcarbon-bench-"))
        os.environ.update(
            installation_environment(folder), DJANGO_SETTINGS_MODULE="labcarbon.settings"
        )
        if postgres:
            server = stack.enter_context(Postgres(durable=True))
            os.environ["LABCARBON_DATABASE_URL"] = server.url
        import django

        django.setup()
        yield
