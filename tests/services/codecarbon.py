"""The unmodified CodeCarbon client in its own virtual environment, which `make test` creates."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.services.process import end_with_parent

PYTHON = Path(sys.prefix) / "codecarbon" / "bin" / "python"

# The tracker as in its documentation. Environment variables configure it, as the set-up snippet
# says.
# At its end the script prints its own totals.
SCRIPT = """
import json, os, sys, time
from codecarbon import EmissionsTracker
tracker = EmissionsTracker(measure_power_secs=1, api_call_interval=2, force_cpu_power=100, force_ram_power=10,
                           log_level="debug", allow_multiple_runs=True, tracking_mode="machine")
tracker.start()
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until and not os.path.exists("stop"):
    sum(range(20_000))
    time.sleep(0.02)
tracker.stop()
told = tracker.final_emissions_data
print(json.dumps({"cpu": told.cpu_energy, "gpu": told.gpu_energy, "ram": told.ram_energy, "kg": told.emissions,
                  "duration": told.duration}))
"""  # noqa: E501


def missing() -> str:
    """Return what is missing and how to install it; '' if nothing is."""
    return "" if PYTHON.exists() else "CodeCarbon's client is not installed (make test installs it)"


def environ(home: Path, **settings: str) -> dict[str, str]:
    """Return the environment of a client: its own home, and network access to loopback only (the
    client would look up its location).
    """
    inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    blocked = {
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
        "no_proxy": "127.0.0.1",
    }
    variables = {f"CODECARBON_{name.upper()}": value for name, value in settings.items()}
    return {**inherited, **blocked, "HOME": str(home), **variables}


@dataclass
class Client:
    """A running script. Its output goes to files, because a full pipe would block it."""

    process: subprocess.Popen[bytes]
    output: Path
    log: Path


def begin(home: Path, *, seconds: float, **settings: str) -> Client:
    """Start a script that computes for ``seconds`` with the tracker on, or until ``home`` contains
    a file ``stop``.
    """
    command = end_with_parent([str(PYTHON), "-c", SCRIPT, str(seconds)])
    output, log = home / "said", home / "log"
    with output.open("wb") as out, log.open("wb") as err:
        return Client(
            subprocess.Popen(
                command, env=environ(home, **settings), cwd=home, stdout=out, stderr=err
            ),
            output,
            log,
        )


def end(client: Client) -> tuple[dict[str, Any], str]:
    """Wait for the end of a script. Returns its own totals, and its log."""
    code, log = client.process.wait(timeout=180), client.log.read_text(encoding="utf-8")
    assert code == 0, log
    totals: dict[str, Any] = json.loads(client.output.read_text(encoding="utf-8").splitlines()[-1])
    return totals, log
