"""Current power for ``top``: power between the last two readings, by consumer. Pure; nothing is
stored.

Callers get the names of their own runs and processes. The work of other users is summed by kind
(run, job, pod, container, process), because the daemon may see more of /proc than the caller
(hidepid).
"""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Tuple

from labcarbon_collect.energy.windows import IDLE, UNKNOWN
from labcarbon_collect.sources.base import Reading

MAX_ROWS = 20  # consumers per device; the rest is one row
_GROUP_NAMES = {
    "run": "others' runs",
    "job": "jobs",
    "pod": "pods",
    "container": "containers",
    "proc": "others' processes",
}
MORE_ROW = "more of yours"
# An interval longer than this yields an average instead of the current power.
_SHORTEST_US, _LONGEST_US = 500_000, 15_000_000


class LivePower:
    """The current power and weights of each device."""

    def __init__(self) -> None:
        self._last: Dict[str, Reading] = {}
        self._start: Dict[str, Reading] = {}  # start of the interval of the current power
        self._power_mw: Dict[str, int] = {}
        self._weights: Dict[str, Mapping[str, int]] = {}

    def clear(self) -> None:
        """Clear all values after sampling stopped."""
        self._last.clear()
        self._start.clear()
        self._power_mw.clear()
        self._weights.clear()

    def add_reading(self, reading: Reading) -> None:
        """Add a reading of a device."""
        self._last[reading.device] = reading
        before = self._start.get(reading.device)
        if before is not None and before.epoch == reading.epoch:
            elapsed_us = reading.monotonic_us - before.monotonic_us
            if elapsed_us < _SHORTEST_US:
                return  # an extra poll for a registration: the interval is too short
            energy_mj = reading.counter_mj - before.counter_mj
            is_recent = elapsed_us <= _LONGEST_US and energy_mj >= 0
        else:
            is_recent, energy_mj, elapsed_us = False, 0, 0
        self._start[reading.device] = reading
        self._power_mw.pop(reading.device, None)
        if is_recent:
            self._power_mw[reading.device] = energy_mj * 1_000_000 // elapsed_us

    def set_weights(self, device: str, weights: Mapping[str, int]) -> None:
        """Set the weights of the energy before the last reading."""
        self._weights[device] = weights

    def last_reading(self, device: str) -> Optional[Reading]:
        """Return the last reading."""
        return self._last.get(device)

    def power_mw(self, device: str) -> Optional[int]:
        """Return the average power between the last two readings in mW, None before the second
        one.
        """
        return self._power_mw.get(device)

    def rows(
        self,
        device: str,
        energy_mj: Mapping[str, int],
        *,
        is_own: Callable[[str], bool],
        show_all: bool = False,
    ) -> List[Dict[str, Any]]:
        """Return the consumers of a device: ``who``, ``yours``, ``power_mw``, ``energy_mj``;
        highest power first, at most 21.

        ``energy_mj``: mJ of the open window by consumer. ``is_own``: whether a consumer is the
        caller's. ``show_all``: the caller may see all names.
        """
        power_mw, weights = self.power_mw(device), self._weights.get(device, {})
        total = sum(weights.values())
        sums: Dict[Tuple[str, bool], List[int]] = {}
        for consumer in {*energy_mj, *weights}:
            row = sums.setdefault(_visible_name(consumer, is_own, show_all), [0, 0])
            row[0] += weights.get(consumer, 0)
            row[1] += energy_mj.get(consumer, 0)
        rows: List[Dict[str, Any]] = [
            {
                "who": name,
                "yours": is_owned,
                "energy_mj": energy,
                "power_mw": power_mw * weight // total if power_mw is not None and total else None,
            }
            for (name, is_owned), (weight, energy) in sums.items()
            if weight or energy
        ]
        rows.sort(key=lambda row: (-(row["power_mw"] or 0), -row["energy_mj"], row["who"]))
        return rows if len(rows) <= MAX_ROWS else [*rows[:MAX_ROWS], _sum_rows(rows[MAX_ROWS:])]


def _visible_name(consumer: str, is_own: Callable[[str], bool], show_all: bool) -> Tuple[str, bool]:
    """Return the name of a consumer that the caller may see, and whether the consumer is the
    caller's.
    """
    if consumer in (IDLE, UNKNOWN):
        return consumer, False
    is_owned = is_own(consumer)
    if is_owned or show_all:
        return consumer, is_owned
    return _GROUP_NAMES.get(consumer.partition(":")[0], "others"), False


def _sum_rows(rows: List[Dict[str, Any]]) -> Dict[str, Any]:
    powers = [row["power_mw"] for row in rows if row["power_mw"] is not None]
    return {
        "who": MORE_ROW,
        "yours": all(row["yours"] for row in rows),
        "energy_mj": sum(row["energy_mj"] for row in rows),
        "power_mw": sum(powers) if powers else None,
    }


def is_own_consumer(
    consumer: str,
    uid: int,
    *,
    name: str,
    owner_of: Callable[[str], Optional[int]],
    uids: Callable[[str], FrozenSet[int]],
) -> bool:
    """Whether a consumer is the caller's. ``name``: the caller's public name, "" if names are
    dropped.

    A run belongs to the uid that registered it, a process to the name in its key. Any other
    consumer is the caller's if all its processes are.
    """
    kind, _, rest = consumer.partition(":")
    if kind == "run":
        return owner_of(rest) == uid
    if kind == "proc" and name and rest.startswith(f"{name}/"):
        return True
    return uids(consumer) == {uid}
