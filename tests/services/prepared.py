"""A data directory as it is before the first start: made by the real commands once in a run, then copied."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.environment import own_environment

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = (
    ("migrate", "--no-input", "--verbosity", "0"),
    ("load_data",),
    ("collectstatic", "--no-input", "--verbosity", "0"),
)


def prepared(data_dir: Path) -> None:
    """Put a migrated SQLite database with all that is shipped, and the static files, into ``data_dir``."""
    source = _made(Path(os.environ["LABCARBON_TEST_SHARED"]))
    data_dir.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "labcarbon.sqlite3", data_dir)
    shutil.copytree(source / "static", data_dir / "static")


def _made(shared: Path) -> Path:
    """Return the directory to copy; whoever comes first makes it, the others wait."""
    made = shared / "prepared"
    with (shared / "prepared.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            making = shared / "making"
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            for command in COMMANDS:
                _manage(making, *command)
            making.rename(made)
    return made


def _manage(data_dir: Path, *arguments: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LABCARBON_")}
    told = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT, env={**kept, **own_environment(str(data_dir))}, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
