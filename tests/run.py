"""Runs the suite on SQLite (all tests) and on a private PostgreSQL server (tests that use the
database), in parallel.

``python -m tests.run [pytest arguments]``; `make test` calls it. The output of PostgreSQL is
printed after that of SQLite, and the failed tests of both are repeated at the end. The exit code is
0 only if both passes succeed and, with CI=true, no test was skipped.
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest

from tests.services.data_directories import MIGRATED, postgres
from tests.services.postgres import programs

ROOT = Path(__file__).resolve().parent.parent
# Many tests of the SQLite pass wait for a process, a clock or a page, so it gets two more workers
# than cores.
# The PostgreSQL tests do not wait. Further workers only cost their start-up.
CORES = min(os.cpu_count() or 1, 4)
WORKERS = {"SQLite": CORES + 2, "PostgreSQL": CORES}

# The suite starts some hundred programs, so byte code must be cached: compiling takes a sixth of
# the time.
# A make that a test starts must not be a sub-make.
_DROPPED_VARIABLES = frozenset({"PYTHONDONTWRITEBYTECODE", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"})


def debian_packages() -> list[str]:
    """Return the Debian packages that the tests use (tests/debian-packages.txt)."""
    lines = (ROOT / "tests" / "debian-packages.txt").read_text(encoding="utf-8").splitlines()
    return [word for line in lines if (word := line.split("#", 1)[0].strip())]


def run_pass(
    name: str, arguments: list[str], environment: dict[str, str], output: IO[str] | None = None
) -> int:
    """Run pytest, print its duration, and return its exit code. ``output``: file for its output."""
    print(f"== tests on {name}", flush=True)
    started_s = time.monotonic()
    workers = ["-n", str(WORKERS[name]), "--dist", "loadgroup", "--no-loadscope-reorder"]
    command = [sys.executable, "-m", "pytest", *workers, "--durations=25", *arguments]
    environ = {key: value for key, value in os.environ.items() if key not in _DROPPED_VARIABLES}
    code = subprocess.run(
        command, cwd=ROOT, env={**environ, **environment}, stdout=output, stderr=output
    ).returncode
    ended = {0: "green", pytest.ExitCode.NO_TESTS_COLLECTED: "nothing to test"}.get(
        code, f"RED (exit {code})"
    )
    print(f"== {name}: {ended} after {time.monotonic() - started_s:.0f} s", flush=True)
    return code


def compile_tests() -> None:
    """Compile all test modules once instead of once per worker. Errors are reported by the pass."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq"]
    environ = {key: value for key, value in os.environ.items() if key not in _DROPPED_VARIABLES}
    subprocess.run(
        command, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def run_postgres_pass(arguments: list[str], environment: dict[str, str], output: IO[str]) -> int:
    """Run the PostgreSQL pass on a private server."""
    with postgres() as server:
        own = {"LABCARBON_DATABASE_URL": server.url, "LABCARBON_TEST_TEMPLATE": MIGRATED}
        return run_pass("PostgreSQL", arguments, {**environment, **own}, output)


def verdict(codes: list[int], *, is_selection: bool) -> int:
    """Return the exit code of all passes. Selected tests may belong to one pass only; the whole
    suite has tests in each.
    """
    with_tests = [code for code in codes if code != pytest.ExitCode.NO_TESTS_COLLECTED]
    return max(with_tests if is_selection and with_tests else codes)


def main(arguments: list[str]) -> int:
    """Run both passes and return the exit code."""
    with (
        tempfile.TemporaryDirectory(prefix="labcarbon-suite-") as scratch,
        ThreadPoolExecutor() as pool,
    ):
        left_out, postgres_output = Path(scratch) / "left-out", Path(scratch) / "postgres"
        failed = Path(scratch) / "failed"
        shared = {
            "LABCARBON_TEST_BOTH": "1",
            "LABCARBON_TEST_LEFT_OUT": str(left_out),
            "LABCARBON_TEST_FAILED": str(failed),
        }
        second = None
        with postgres_output.open("w+", encoding="utf-8") as output:
            if programs():
                second = pool.submit(run_postgres_pass, arguments, shared, output)
            else:
                left_out.write_text(
                    "left out: the whole pass on PostgreSQL: not installed (apt-get install "
                    "postgresql)\n"
                )
            if not arguments:
                compile_tests()
            codes = [run_pass("SQLite", arguments, shared)]
            if second:
                codes.append(second.result())
                output.seek(0)
                print(f"== what was said on PostgreSQL\n{output.read()}", flush=True)
        report = left_out.read_text(encoding="utf-8") if left_out.exists() else ""
        failures = failed.read_text(encoding="utf-8") if failed.exists() else ""
    if failures:
        print(f"== failed tests of all passes\n{failures}", flush=True)
    print(report or "Nothing was left out.", flush=True)
    if report and os.environ.get("CI", "").lower() in {"1", "true"}:
        print("CI=true: nothing may be left out.", flush=True)
        return 1
    return verdict(codes, is_selection=bool(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
