"""Responses of providers: tests/fixtures/providers, and made-up ones."""

import json
from pathlib import Path
from typing import Any

from apps.core.units import UG_PER_G, US_PER_HOUR

FOLDER = Path(__file__).parents[2] / "fixtures" / "providers"
NOV_20 = 1_795_132_800_000_000 // US_PER_HOUR  # 2026-11-20 00:00 UTC


def response(name: str) -> bytes:
    """Return a fixture."""
    return (FOLDER / name).read_bytes()


def changed(name: str, change: Any) -> bytes:
    """Return a fixture after ``change`` was called with its value."""
    value = json.loads(response(name))
    change(value)
    return json.dumps(value).encode()


def grams(value: float) -> int:
    """Return g per kWh as µg per kWh."""
    return round(value * UG_PER_G)
