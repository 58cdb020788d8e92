"""The last minutes of a node: its windows in one query, and their means per minute."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from uuid import UUID

from apps.accounts.models import Lab
from apps.core.sql import fetch_tuples, int_pairs_sql, uuid_param

MINUTE_US = 60_000_000
MINUTES = 15
# A window that began longer ago is not looked for: a collector uploads one a minute.
_LONGEST_US = 60 * MINUTE_US
_KINDS = ("gpu", "mig", "cpu")
_REPORTING_US = 2 * MINUTE_US  # between two uploads of a node that reports
_OF_DEVICE = 7  # columns of a row before those of its window


@dataclass(frozen=True)
class LiveWindow:
    """A window: energy (mJ), means of utilization (‰) and memory (MiB), None if not reported."""

    start_us: int
    end_us: int
    energy_mj: int
    util_pm: int | None
    memory_mib: int | None


@dataclass
class LiveDevice:
    """A device with its windows, oldest first, and the energy of its consumers in them."""

    key: str
    name: str
    kind: str
    windows: dict[int, LiveWindow] = field(default_factory=dict)
    consumers: dict[tuple[str, str], int] = field(default_factory=dict)  # (key, run name): mJ


@dataclass(frozen=True)
class LiveNode:
    """A node with its GPUs and CPU packages. ``version``: changes with any of its values."""

    node: dict[str, Any]
    devices: list[LiveDevice]
    from_us: int
    to_us: int
    version: str


def live_node(lab: Lab, uuid: UUID, now: int) -> LiveNode | None:
    """Return the last minutes of a node of the lab, None for another node. One query.

    The windows are those that the uploads stored, not yet settled. The period ends with the minute
    of the last upload, so that nothing changes until the next one; with the minute of ``now`` if
    the node does not report.
    """
    latest_us = _minute_end(now)
    earliest_us = latest_us - MINUTES * MINUTE_US - _REPORTING_US - MINUTE_US
    shares = int_pairs_sql("w.shares", "s")
    kinds = ", ".join(f"'{kind}'" for kind in _KINDS)
    rows = fetch_tuples(
        "SELECT n.hostname, n.display_name, n.last_push_us, n.retired_us, d.key, d.name, d.kind, "
        "w.start_us, w.end_us, w.energy_mj, w.util_mean_pm, w.mem_mean_mib, c.key, r.name, "
        f"{shares.value} AS part_mj FROM fleet_node n "
        f"LEFT JOIN fleet_device d ON d.node_id = n.id AND d.kind IN ({kinds}) "
        "LEFT JOIN ingest_energywindow w ON w.device_id = d.id AND w.node_id = n.id "
        "AND w.start_us >= %s AND w.start_us < %s AND w.end_us > %s "
        f"{shares.left_join} LEFT JOIN ingest_consumer c ON c.id = {shares.key} "
        "LEFT JOIN runs_run r ON r.uuid = c.run_uuid AND r.lab_id = n.lab_id "
        "WHERE n.lab_id = %s AND n.uuid = %s ORDER BY d.kind DESC, d.key, w.start_us, c.key",
        [earliest_us - _LONGEST_US, latest_us, earliest_us, lab.pk, uuid_param(uuid)],
    )
    rows = list(rows)
    if not rows:
        return None
    hostname, display_name, last_push_us, retired_us = rows[0][:4]
    is_reporting = last_push_us is not None and 0 <= now - last_push_us < _REPORTING_US
    to_us = _minute_end(last_push_us) if is_reporting else latest_us
    from_us = to_us - MINUTES * MINUTE_US
    rows = [_in_period(row, from_us, to_us) for row in rows]
    node = {
        "uuid": uuid,
        "name": display_name or hostname,
        "last_push_us": last_push_us,
        "retired_us": retired_us,
    }
    distinct = list(dict.fromkeys(rows))
    version = sha256(repr((to_us, distinct)).encode()).hexdigest()[:32]
    return LiveNode(node, _devices(row[4:] for row in distinct), from_us, to_us, version)


def _minute_end(time_us: int) -> int:
    return (time_us // MINUTE_US + 1) * MINUTE_US


def _in_period(row: tuple[Any, ...], from_us: int, to_us: int) -> tuple[Any, ...]:
    """Return a row without its window if that is outside of the period."""
    start_us, end_us = row[_OF_DEVICE : _OF_DEVICE + 2]
    if start_us is not None and start_us < to_us and end_us > from_us:
        return row
    return (*row[:_OF_DEVICE], *[None] * (len(row) - _OF_DEVICE))


def _devices(rows: Iterable[tuple[Any, ...]]) -> list[LiveDevice]:
    devices: dict[str, LiveDevice] = {}
    for key, name, kind, start_us, end_us, energy_mj, util, memory, consumer, run, part in rows:
        if key is None:
            continue
        device = devices.setdefault(key, LiveDevice(key, name or key, kind))
        if start_us is None:
            continue
        device.windows[start_us] = LiveWindow(start_us, end_us, energy_mj, util, memory)
        if consumer is not None:
            label = (consumer, run or "")
            device.consumers[label] = device.consumers.get(label, 0) + int(part)
    return list(devices.values())


@dataclass(frozen=True)
class Minute:
    """Means over the covered part of a minute: power (W), utilization (%), memory (MiB). None:
    unknown.
    """

    start_us: int
    watts: float | None
    utilization: float | None
    memory_mib: float | None


def minutes_of(windows: Sequence[LiveWindow], from_us: int, to_us: int) -> list[Minute]:
    """Return each minute of a period. A minute without a window is unknown, not zero.

    The period consists of whole minutes.
    """
    parts_of: dict[int, list[tuple[int, LiveWindow]]] = defaultdict(list)
    for window in windows:
        first_us = max(from_us, window.start_us - window.start_us % MINUTE_US)
        for start_us in range(first_us, min(to_us, window.end_us), MINUTE_US):
            covered_us = min(window.end_us, start_us + MINUTE_US) - max(window.start_us, start_us)
            parts_of[start_us].append((covered_us, window))
    minutes = []
    for start_us in range(from_us, to_us, MINUTE_US):
        parts = parts_of[start_us]
        minutes.append(
            Minute(
                start_us,
                _mean(
                    (us, window.energy_mj * 1000 / (window.end_us - window.start_us))
                    for us, window in parts
                ),
                _mean(
                    (us, window.util_pm / 10) for us, window in parts if window.util_pm is not None
                ),
                _mean(
                    (us, float(window.memory_mib))
                    for us, window in parts
                    if window.memory_mib is not None
                ),
            )
        )
    return minutes


def _mean(weighted: Iterable[tuple[int, float]]) -> float | None:
    parts = list(weighted)
    weight = sum(us for us, _ in parts)
    return sum(us * value for us, value in parts) / weight if weight else None
