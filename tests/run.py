"""Runs the whole suite: once on SQLite with everything, once more on a private PostgreSQL with what touches the database.

``python -m tests.run [pytest arguments]``; `make test` calls it. Ends with 0 only if both passes were green and, with
CI=true, nothing was left out.
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from tests.environment import own_environment
from tests.services.postgres import Postgres, programs

ROOT = Path(__file__).resolve().parent.parent
# One more than there are cores: many tests wait for a process, a clock, a database or a page. A second is no faster.
WORKERS = ["-n", str(min((os.cpu_count() or 1) + 1, 5)), "--dist", "loadgroup", "--no-loadscope-reorder"]

# The suite starts some hundred programs: where nothing keeps what was compiled, that takes a sixth of its time. And a make
# that a test starts is nobody's child.
_NOT_OURS = frozenset({"PYTHONDONTWRITEBYTECODE", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"})


def packages_wanted() -> list[str]:
    """Return the Debian packages that the tests use (tests/debian-packages.txt)."""
    lines = (ROOT / "tests" / "debian-packages.txt").read_text(encoding="utf-8").splitlines()
    return [word for line in lines if (word := line.split("#", 1)[0].strip())]


def one_pass(name: str, arguments: list[str], environment: dict[str, str]) -> int:
    """Run pytest once, tell how long it took, and return its exit code."""
    print(f"== tests on {name}", flush=True)
    begun = time.monotonic()
    command = [sys.executable, "-m", "pytest", *WORKERS, "--durations=25", *arguments]
    kept = {key: value for key, value in os.environ.items() if key not in _NOT_OURS}
    code = subprocess.run(command, cwd=ROOT, env={**kept, **environment}).returncode
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and arguments:  # what was asked for belongs to the other pass
        code = 0
    print(f"== {name}: {'green' if code == 0 else f'RED (exit {code})'} after {time.monotonic() - begun:.0f} s", flush=True)
    return code


def compiled() -> None:
    """Have every test module compiled once, not by each worker for itself. What is wrong with one, the pass tells."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq"]
    kept = {key: value for key, value in os.environ.items() if key not in _NOT_OURS}
    subprocess.run(command, cwd=ROOT, env=kept, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def template(server: Postgres, scratch: str) -> str:
    """Make a migrated database that each worker's is copied from; return its name."""
    name = "migrated"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    own = {**own_environment(scratch), "LABCARBON_DATABASE_URL": server.url_of(name)}
    command = [sys.executable, "manage.py", "migrate", "--no-input", "--verbosity", "0"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **own}, check=True)
    return name


def main(arguments: list[str]) -> int:
    """Run both passes; return the exit code."""
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="labcarbon-suite-"))
        left_out = Path(scratch) / "left-out"
        shared = {"LABCARBON_TEST_BOTH": "1", "LABCARBON_TEST_LEFT_OUT": str(left_out)}
        server = stack.enter_context(Postgres()) if programs() else None
        with ThreadPoolExecutor() as pool:  # what each pass would else begin with, on one core
            made = pool.submit(template, server, scratch) if server else None
            if not arguments:
                pool.submit(compiled)
        codes = [one_pass("SQLite", arguments, shared)]
        if server is None or made is None:
            left_out.open("a").write("left out: the whole pass on PostgreSQL: not installed (apt-get install postgresql)\n")
        else:
            own = {"LABCARBON_DATABASE_URL": server.url, "LABCARBON_TEST_TEMPLATE": made.result()}
            codes.append(one_pass("PostgreSQL", arguments, {**shared, **own}))
        named = left_out.read_text(encoding="utf-8") if left_out.exists() else ""
    print(named or "Nothing was left out.", flush=True)
    if named and os.environ.get("CI", "").lower() in {"1", "true"}:
        print("CI=true: nothing may be left out.", flush=True)
        return 1
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
