"""W&B's unmodified client in its own virtual environment, which `make test` creates, and the
collector beside it.
"""

import os
import subprocess
import sys
from pathlib import Path

PYTHON = Path(sys.prefix) / "wandb" / "bin" / "python"
ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT_S = 120

# Settings of the client that write no samples of this machine beside those of a test.
HEAD = """
import os, sys, time
import wandb

def start(**words):
    return wandb.init(mode="offline", settings=wandb.Settings(x_stats_sampling_interval=3600), **words)

def record_power(run, at_us, **watts):
    # What the client writes for a GPU, at a chosen time.
    interface = run._interface
    stats = interface._make_stats({name.replace("__", "."): value for name, value in watts.items()})
    stats.timestamp.FromMicroseconds(at_us)
    interface._publish(interface._make_record(stats=stats))
"""  # noqa: E501


def missing() -> str:
    """Return what is missing and how to install it; '' if nothing is."""
    return "" if PYTHON.exists() else "W&B's client is not installed (make test installs it)"


def environ(home: Path) -> dict[str, str]:
    """Return the environment of a client: its own home, and network access to loopback only."""
    inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    blocked = {
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
        "no_proxy": "127.0.0.1,localhost",
    }
    return {**inherited, **blocked, "HOME": str(home), "WANDB_ERROR_REPORTING": "false"}


def execute(folder: Path, body: str, *, name: str = "train.py", code: int = 0) -> Path:
    """Run a script that logs to W&B offline in ``folder``. Return its newest run folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(HEAD + body, encoding="utf-8")
    done = subprocess.run(
        [str(PYTHON), name],
        cwd=folder,
        env=environ(folder.parent),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    assert done.returncode == code, done.stderr
    return max((folder / "wandb").glob("offline-run-*"), key=lambda path: path.stat().st_mtime_ns)


def collect(home: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run labcarbon-collect in the environment of the client."""
    return subprocess.run(
        [str(PYTHON), "-m", "labcarbon_collect", *words],
        cwd=home,
        env={**environ(home), "PYTHONPATH": str(ROOT / "collector"), **settings},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
