"""What ``doctor`` asks, and where the answers register: one function per question, one :class:`Check` per answer.

A check never raises for what it was written to find, never changes anything and never opens the network by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, List

STATES = ("ok", "warn", "bad", "absent")


@dataclass(frozen=True)
class Check:
    """One line of ``doctor``: what was found, and the one line that mends it."""

    name: str  # nvml, rapl, persistence …: short, stable, used in --json
    state: str  # ok; warn: works with less; bad: broken and mendable; absent: this machine has no such thing
    summary: str  # what was found, in a sentence
    fix: str = ""  # the command or step that mends it; "" where nothing is to be done

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise ValueError(f"check {self.name}: state {self.state!r} is none of {', '.join(STATES)}")

    def to_json(self) -> Dict[str, str]:
        """Return the check as ``doctor --json`` prints it."""
        return {"name": self.name, "state": self.state, "what": self.summary, "mend": self.fix}


CheckFunction = Callable[[], Check]
CHECKS: Dict[str, CheckFunction] = {}


def register_check(name: str) -> Callable[[CheckFunction], CheckFunction]:
    """Make a check known to ``doctor`` under ``name``; checks run in order of registration."""

    def register(function: CheckFunction) -> CheckFunction:
        CHECKS[name] = function
        return function

    return register


def run_checks() -> List[Check]:
    """Ask every registered question. A check that itself fails is an answer (bad), not the end of ``doctor``."""
    results = []
    for name, function in CHECKS.items():
        try:
            results.append(function())
        except Exception as error:  # noqa: BLE001 - a doctor that dies of one question answers none
            results.append(Check(name, "bad", f"the check itself failed: {type(error).__name__}: {error}"))
    return results
