"""Fingerprints and runs for tests."""

import hashlib
import uuid
from typing import Any

from labcarbon_collect.lc1 import param_hash

from apps.accounts.models import Lab
from apps.runs.fingerprint_parsing import FingerprintIn, parse_fingerprint
from apps.runs.models import Run
from tests.shipped_data import T0


def hex64(text: str) -> str:
    """Return a hash that stands for what ``text`` names."""
    return hashlib.sha256(text.encode()).hexdigest()


def told(**changes: Any) -> dict[str, Any]:
    """Return a fingerprint of which everything is known, as it comes over the wire."""
    values = {"lr": 0.1, "epochs": 10, "arch": "resnet18"}
    return {
        "version": "lc2",
        "entry": hex64("train.py"),
        "entry_name": "train.py",
        "code": {
            "state": "verified",
            "hash": hex64("code"),
            "normal": hex64("normal"),
            "commit": "a" * 40,
            "dirty": False,
        },
        "params": {name: param_hash(name, value) for name, value in values.items()},
        "told": {"lr": 0.1},
        "dropped": {"output_dir": param_hash("output_dir", "runs/a")},
        "labels": {},
        "not_compared": [],
        "data": {
            "weak": hex64("stat"),
            "verified": hex64("content"),
            "items": [
                {
                    "role": "data",
                    "name": "cats",
                    "files": 812,
                    "bytes": 91234567,
                    "state": "verified",
                }
            ],
        },
        "start": {"weak": hex64("scratch"), "verified": hex64("scratch"), "name": "scratch"},
        "seeds": {"seed": param_hash("seed", 1)},
        "environment": {"python": "3.11.7"},
        "hardware": {"gpus": "2 × NVIDIA A100"},
        "intent": "train",
        "sweep": "",
        **changes,
    }


def parsed(**changes: Any) -> FingerprintIn:
    """Return what :func:`told` is after the check."""
    return parse_fingerprint(told(**changes))


def a_run(lab: Lab, **facts: Any) -> Run:
    """Store a run."""
    return Run.objects.create(
        lab=lab, uuid=uuid.uuid4(), **{"name": "train.py", "started_us": T0, **facts}
    )
