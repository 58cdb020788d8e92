"""A pytest plugin (``-p tests.environment``) that runs before Django reads its settings.

The suite has secrets and a data directory of its own, so that it runs from a fresh clone and never touches what a user
keeps in ``var/``. Of the caller's LABCARBON_* variables only the database to test on and the image's cache are kept.
"""

import atexit
import os
import shutil
import tempfile

SECRET_KEY = "a-secret-key-that-only-the-tests-use-0123456789"
TOKEN_PEPPERS = "1:00112233445566778899aabbccddeeff,2:ffeeddccbbaa99887766554433221100"
KEPT = frozenset({
    "LABCARBON_DATABASE_URL", "LABCARBON_TEST_BOTH", "LABCARBON_TEST_LEFT_OUT", "LABCARBON_KILLS", "LABCARBON_SEED",
    "LABCARBON_IMAGE_CACHE",
})  # fmt: skip


def own_environment(data_dir: str) -> dict[str, str]:
    """Return the LABCARBON_* variables of a test installation that keeps its data in ``data_dir``."""
    return {"LABCARBON_DATA": data_dir, "LABCARBON_SECRET_KEY": SECRET_KEY, "LABCARBON_TOKEN_PEPPERS": TOKEN_PEPPERS}


def _take_over() -> None:
    for name in [name for name in os.environ if name.startswith("LABCARBON_") and name not in KEPT]:
        del os.environ[name]
    data_dir = tempfile.mkdtemp(prefix="labcarbon-tests-")
    atexit.register(shutil.rmtree, data_dir, ignore_errors=True)
    os.environ.update(own_environment(data_dir))


_take_over()
