"""Responses of the duplicate check, and calls of the commands that use it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests.collector.collector_process import Collector
from tests.fakes import labcarbon_server as fakes

# A script that runs until a file confirms that the digest of its data has arrived.
UNTIL_RECEIVED = "import os, time\nwhile not os.path.exists('told'): time.sleep(0.05)\n"
PREFLIGHT_ID = "22222222-2222-4222-8222-222222222222"
MATCH = {
    "run": "33333333-3333-4333-8333-333333333333",
    "url": "https://lab.example.org/runs/33333333-3333-4333-8333-333333333333/", "who": "Ben",
    "started_at": "2026-11-02T14:03:00Z", "ended_at": "2026-11-02T18:20:00Z", "state": "finished",
    "project": "vision", "host": "gpu1", "energy_mj": 15_156_000_000, "emission_ug": 1_390_000_000,
    "metric": {"name": "val_acc", "value": 0.9134}, "differs": [], "weak": [], "failure": None,
}  # fmt: skip
DUPLICATE = {
    "verdict": "duplicate",
    "certainty": "verified",
    "level": "loud",
    "asked": PREFLIGHT_ID,
    "matches": [MATCH],
    "message": "Ben did exactly this on 2 November.",
    "estimate": {
        "runs": 3,
        "energy_mj": 15_156_000_000,
        "low_mj": 14_400_000_000,
        "high_mj": 16_200_000_000,
        "emission_ug": None,
    },
}
POSSIBLE = {
    **DUPLICATE,
    "certainty": "possible",
    "level": "warn",
    "matches": [{**MATCH, "weak": ["data"]}],
}


def run_script(person: Collector, script: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return person.call(*options, "--", "python3", script.name, "--lr", "0.1", cwd=script.parent)


def outcomes(server: fakes.FakeServer) -> list[Any]:
    return [request.body for request in server.sent("POST", f"preflight/{PREFLIGHT_ID}/outcome/")]
