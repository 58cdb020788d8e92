"""Runs the whole suite: once on SQLite with everything, beside it on a private PostgreSQL what touches the database.

``python -m tests.run [pytest arguments]``; `make test` calls it. Ends with 0 only if both passes were green and, with
CI=true, nothing was left out.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TextIO

import pytest

from tests.services.postgres import Postgres, programs

ROOT = Path(__file__).resolve().parent.parent
CORES = os.cpu_count() or 1
# One more than there are cores: many tests wait for a process, a clock or a page. What they leave goes to the other pass.
WORKERS = {"SQLite": min(CORES + 1, 5), "PostgreSQL": max(1, CORES // 2)}


def packages_wanted() -> list[str]:
    """Return the Debian packages that the tests use (tests/debian-packages.txt)."""
    lines = (ROOT / "tests" / "debian-packages.txt").read_text(encoding="utf-8").splitlines()
    return [word for line in lines if (word := line.split("#", 1)[0].strip())]


def one_pass(name: str, arguments: list[str], environment: dict[str, str], output: TextIO | None = None) -> int:
    """Run pytest once, tell how long it took, and return its exit code."""
    print(f"== tests on {name}", file=output, flush=True)
    begun = time.monotonic()
    spread = ["-n", str(WORKERS[name]), "--dist", "loadgroup", "--no-loadscope-reorder"]
    command = [sys.executable, "-m", "pytest", *spread, "--durations=10", *arguments]
    code = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, stdout=output, stderr=output).returncode
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and arguments:  # what was asked for belongs to the other pass
        code = 0
    told = f"== {name}: {'green' if code == 0 else f'RED (exit {code})'} after {time.monotonic() - begun:.0f} s"
    print(told, file=output, flush=True)
    return code


def both_passes(arguments: list[str], shared: dict[str, str], scratch: Path) -> list[int]:
    """Run both passes side by side; what the one on PostgreSQL says is told when the other has ended."""
    with (
        Postgres() as server,
        (scratch / "postgres.log").open("w+", encoding="utf-8") as said,
        ThreadPoolExecutor(1) as pool,
    ):
        other = pool.submit(one_pass, "PostgreSQL", arguments, {**shared, "LABCARBON_DATABASE_URL": server.url}, output=said)
        codes = [one_pass("SQLite", arguments, shared), other.result()]
        said.seek(0)
        shutil.copyfileobj(said, sys.stdout)
        return codes


def main(arguments: list[str]) -> int:
    """Run both passes; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="labcarbon-suite-") as scratch:
        left_out = Path(scratch) / "left-out"
        shared = {"LABCARBON_TEST_BOTH": "1", "LABCARBON_TEST_LEFT_OUT": str(left_out)}
        if programs() is None:
            codes = [one_pass("SQLite", arguments, shared)]
            left_out.open("a").write("left out: the whole pass on PostgreSQL: not installed (apt-get install postgresql)\n")
        else:
            codes = both_passes(arguments, shared, Path(scratch))
        named = left_out.read_text(encoding="utf-8") if left_out.exists() else ""
    print(named or "Nothing was left out.", flush=True)
    if named and os.environ.get("CI", "").lower() in {"1", "true"}:
        print("CI=true: nothing may be left out.", flush=True)
        return 1
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
