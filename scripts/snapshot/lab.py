"""The lab of a snapshot: what the tests' seeds build. Nothing else of a snapshot imports code of
the project.
"""

import contextlib
import io
import os
from collections.abc import Callable
from pathlib import Path

from scripts.snapshot.fixed_clock import NOW, reseed

NOW_US = int(NOW.timestamp()) * 1_000_000


def start_django(data_dir: Path, database_url: str) -> None:
    """Start Django with an installation of its own."""
    for name in [name for name in os.environ if name.startswith("LABCARBON_")]:
        del os.environ[name]
    os.environ.update(
        LABCARBON_DATA=str(data_dir),
        LABCARBON_DATABASE_URL=database_url,
        LABCARBON_SECRET_KEY="snapshot-" * 8,
        LABCARBON_TOKEN_PEPPERS="1:00112233445566778899aabbccddeeff",
        DJANGO_SETTINGS_MODULE="labcarbon.settings",
        TZ="UTC",
    )
    import django
    from django.conf import settings

    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    static = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": static}
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    settings.MIDDLEWARE = [
        name for name in settings.MIDDLEWARE if not name.startswith("whitenoise.")
    ]
    settings.ALLOWED_HOSTS = ["testserver"]
    django.setup()


def work() -> None:
    """Do all jobs, whenever they are due."""
    from tests.artifacts.support import run_jobs

    run_jobs()


def build(progress: Callable[[str], None]) -> dict[str, str]:
    """Fill the database: what is shipped, then three labs. Return tokens of a person and of a
    node.
    """
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    progress("database migrated")
    from tests.attacks.conftest import fill
    from tests.browser import seed as browser_seed
    from tests.builders import small_lab
    from tests.seeded_artifacts import register_artifacts, register_hardware
    from tests.seeded_lab import seed
    from tests.seeded_more import add_more
    from tests.shipped_data import load_shipped_data

    reseed("shipped")
    load_shipped_data()
    reseed("browser")
    with contextlib.redirect_stdout(io.StringIO()):
        browser_seed.main()
    reseed("seeded")
    seeded = seed(now=NOW_US)
    reseed("hardware")
    register_hardware(seeded, now=NOW_US)
    reseed("artifacts")
    register_artifacts(seeded, now=NOW_US)
    reseed("attacks")
    fill(small_lab(name="Ours"))
    reseed("more")
    tokens = add_more(seeded, now=NOW_US)
    progress("labs built")
    return {"person": tokens.person, "node": tokens.node}
