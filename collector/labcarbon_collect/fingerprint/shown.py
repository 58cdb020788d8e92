"""A fingerprint in one line of words: how well each part is known, and no hash. Pure."""

from __future__ import annotations

from typing import Any, Mapping


def shown(wire: Mapping[str, Any]) -> str:
    """As a tag of MLflow shows it: ``lc1 code=verified params=command data=weak start=verified seeds=known``."""
    told = {
        "code": str(wire.get("code", {}).get("state", "unknown")), "params": "command" if "params" in wire else "unknown",
        "data": _state(wire.get("data")), "start": _state(wire.get("start")),
        "seeds": "unknown" if "seeds" not in wire else "known" if wire["seeds"] else "unset",
    }  # fmt: skip
    return " ".join([str(wire.get("version", "lc1")), *(f"{part}={state}" for part, state in told.items())])


def _state(part: object) -> str:
    if not isinstance(part, Mapping):
        return "unknown"
    return next((state for state in ("verified", "weak") if part.get(state)), "unknown")
