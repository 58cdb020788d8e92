"""A pytest plugin (``-p tests.environment``) that runs before Django reads its settings.

The suite has its own secrets and data directory. It runs from a fresh clone and never touches
``var/``. Of the caller's LABCARBON_* variables only the test database and the image cache are kept.
"""

import atexit
import os
import random
import shutil
import signal
import tempfile

import pytest

SECRET_KEY = "a-secret-key-that-nothing-but-the-tests-of-LabCarbon-uses-0123456789"
TOKEN_PEPPERS = "1:00112233445566778899aabbccddeeff,2:ffeeddccbbaa99887766554433221100"
PASSED_VARIABLES = frozenset({
    "LABCARBON_DATABASE_URL", "LABCARBON_TEST_BOTH", "LABCARBON_TEST_LEFT_OUT", "LABCARBON_KILLS",
    "LABCARBON_SEED", "LABCARBON_IMAGE_CACHE", "LABCARBON_TEST_SHARED", "LABCARBON_TEST_TEMPLATE",
    "LABCARBON_HOSTILE_REQUESTS", "LABCARBON_ALL_PAIRS", "LABCARBON_TEST_FAILED",
})  # fmt: skip


def installation_environment(data_dir: str) -> dict[str, str]:
    """Return the LABCARBON_* variables of a test installation in ``data_dir``."""
    return {
        "LABCARBON_DATA": data_dir,
        "LABCARBON_SECRET_KEY": SECRET_KEY,
        "LABCARBON_TOKEN_PEPPERS": TOKEN_PEPPERS,
    }


def _restore_signal_handlers() -> None:
    """Undo ignored signals of a background shell or nohup, which started processes would
    inherit.
    """
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)


def _replace_environment() -> None:
    for name in [
        name
        for name in os.environ
        if name.startswith("LABCARBON_") and name not in PASSED_VARIABLES
    ]:
        del os.environ[name]
    # the first process of a run; its workers share it
    if "LABCARBON_TEST_SHARED" not in os.environ:
        shared = os.environ["LABCARBON_TEST_SHARED"] = tempfile.mkdtemp(prefix="labcarbon-shared-")
        atexit.register(shutil.rmtree, shared, ignore_errors=True)
    data_dir = tempfile.mkdtemp(prefix="labcarbon-tests-")
    atexit.register(shutil.rmtree, data_dir, ignore_errors=True)
    os.environ.update(installation_environment(data_dir))
    # set before pytest-xdist starts workers, so that all have the same
    os.environ.setdefault("LABCARBON_SEED", str(random.SystemRandom().randrange(1 << 32)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seed of the fault tests, so that they can be repeated."""
    terminalreporter.write_line(f"LABCARBON_SEED={os.environ['LABCARBON_SEED']}")


_restore_signal_handlers()
_replace_environment()
