"""The response to ``top``: the state of each device and the consumers that the caller may see.
Reads memory only.
"""

from __future__ import annotations

from typing import Any, Dict

from labcarbon_collect.daemon.run_registry import RunRegistry
from labcarbon_collect.monitor.live import is_own_consumer
from labcarbon_collect.monitor.monitor import NodeMonitor
from labcarbon_collect.pseudonyms import DROP, UserNames, user_name_of

MAX_DEVICES = 256


def top_response(
    monitor: NodeMonitor, runs: RunRegistry, users: UserNames, uid: int, interval_s: int
) -> Dict[str, Any]:
    """Return per device: power in mW, use in ‰, memory in MiB, mJ and start (UTC µs) of the open
    window, consumer rows.

    Unknown values are null. No source is polled: at any request rate the meters are read one time
    per second.
    """
    name = "" if users.mode == DROP else users.public_name(user_name_of(uid))

    def is_own(consumer: str) -> bool:
        return is_own_consumer(
            consumer, uid, name=name, owner_of=runs.owner_of, uids=monitor.consumers.uids_of
        )

    devices = []
    for key, info in sorted(monitor.sources.devices.items())[:MAX_DEVICES]:
        since_us, shares = monitor.open_shares(key)
        reading = monitor.live_power.last_reading(key)
        devices.append(
            {
                "device": key,
                "name": info.name,
                "measurement": info.measurement,
                "read_us": reading.wall_us if reading else None,
                "power_mw": monitor.live_power.power_mw(key),
                "util_pm": reading.util_pm if reading else None,
                "memory_mib": reading.memory_mib if reading else None,
                "since_us": since_us,
                "energy_mj": None if since_us is None else sum(shares.values()),
                "who": monitor.live_power.rows(key, shares, is_own=is_own, show_all=uid == 0),
            }
        )
    return {"ok": True, "interval_s": interval_s, "full": monitor.stop_reason, "devices": devices}
