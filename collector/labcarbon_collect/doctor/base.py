"""The checks of ``doctor``: their registry and their result, :class:`Check`.

A check never raises for the condition it detects, never changes anything and never opens a network
connection by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, List

STATES = ("ok", "warn", "bad", "absent")


@dataclass(frozen=True)
class Check:
    """One line of ``doctor``: a finding and its fix."""

    name: str  # nvml, rapl, persistence …: short and stable, used in --json
    state: str  # ok; warn: limited; bad: broken and fixable; absent: not on this node
    summary: str  # the finding, in a sentence
    fix: str = ""  # the command or step that fixes it, or ""

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise ValueError(
                f"check {self.name}: state {self.state!r} is not one of {', '.join(STATES)}"
            )

    def to_json(self) -> Dict[str, str]:
        """Return the check as ``doctor --json`` prints it."""
        return {"name": self.name, "state": self.state, "what": self.summary, "mend": self.fix}


CheckFunction = Callable[[], Check]
CHECKS: Dict[str, CheckFunction] = {}


def register_check(name: str) -> Callable[[CheckFunction], CheckFunction]:
    """Register a check under ``name``. Checks run in order of registration."""

    def register(function: CheckFunction) -> CheckFunction:
        CHECKS[name] = function
        return function

    return register


def run_checks() -> List[Check]:
    """Run all registered checks. A check that fails itself has the state bad."""
    results = []
    for name, function in CHECKS.items():
        try:
            results.append(function())
        except Exception as error:  # noqa: BLE001 - one failing check must not end doctor
            results.append(
                Check(name, "bad", f"the check itself failed: {type(error).__name__}: {error}")
            )
    return results
