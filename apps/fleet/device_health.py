"""Problems of devices in the health report of a collector. Pure."""

from dataclasses import dataclass
from typing import Any

STATES = ("lost", "silent", "power")
MAX_PROBLEMS = 64  # of one node
_MAX_TEXT = 200


@dataclass(frozen=True)
class DeviceProblem:
    """A GPU that does not respond (``lost``; ``silent`` for ten minutes), or whose counter fails so
    that its power is integrated (``power``).
    """

    device: str
    name: str
    state: str
    reason: str
    since_us: int


def device_problems(health: Any) -> list[DeviceProblem]:
    """Return the problems in the health report, without malformed ones."""
    reported = health.get("devices") if isinstance(health, dict) else None
    problems = []
    for item in reported[:MAX_PROBLEMS] if isinstance(reported, list) else ():
        if not isinstance(item, dict) or item.get("state") not in STATES:
            continue
        since_us = item.get("since_us")
        if not isinstance(since_us, int) or isinstance(since_us, bool) or since_us < 0:
            continue
        device, name, reason = (
            str(item.get(key, ""))[:_MAX_TEXT] for key in ("device", "name", "reason")
        )
        problems.append(DeviceProblem(device, name, item["state"], reason, min(since_us, 2**53)))
    return problems
