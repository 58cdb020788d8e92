"""The collector's side of the wire contract, schema 1.0: windows to JSON, response to results.
Pure.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from labcarbon_collect.energy.windows import Window
from labcarbon_collect.sources.base import Gap

SCHEMA = "1.0"
_RESULTS = ("accepted", "duplicate", "quarantined", "rejected", "retry")


class InvalidResponse(Exception):
    """The server's response violates the contract."""


def encode_batch(
    *,
    batch: str,
    sent_at_us: int,
    node: str,
    boot: str,
    monotonic_us: int,
    windows: Sequence[Window],
    gaps: Sequence[Gap],
    health: Mapping[str, Any],
    device_facts: Mapping[str, Mapping[str, str]],
    boot_clocks: Mapping[str, Tuple[int, int]] = MappingProxyType({}),
    acknowledged_us: Optional[int] = None,
) -> Dict[str, Any]:
    """Return the body of ``POST ingest/``: columns, with device and consumer keys by index.

    ``monotonic_us`` is the current time on the clock of ``boot``. The epoch of a window starts with
    the boot of its measurement. ``device_facts``: name and facts by device key; displayed, never
    summed. ``boot_clocks``: the last (monotonic, wall) reading of earlier boots.
    ``acknowledged_us``: when the server received the last batch that it acknowledged, by its clock.
    """
    devices = sorted({window.device for window in windows} | {gap.device for gap in gaps})
    consumers = sorted({consumer for window in windows for consumer, _ in window.shares})
    device_at = {key: index for index, key in enumerate(devices)}
    consumer_at = {key: index for index, key in enumerate(consumers)}
    shares = [
        (row, consumer_at[key], mj)
        for row, window in enumerate(windows)
        for key, mj in window.shares
    ]
    body = {
        "schema": SCHEMA,
        "batch": batch,
        "sent_at": sent_at_us,
        "node": node,
        "boot": boot,
        "monotonic": monotonic_us,
        "devices": devices,
        "consumers": consumers,
        "windows": _columns(windows, device_at),
        "shares": {
            "window": [row for row, _, _ in shares],
            "consumer": [consumer for _, consumer, _ in shares],
            "energy_mj": [mj for _, _, mj in shares],
        },
        "gaps": [
            {
                "device": device_at[gap.device],
                "epoch": gap.epoch,
                "from": gap.from_us,
                "to": gap.to_us,
                "reason": gap.reason,
            }
            for gap in gaps
        ],
        "health": dict(health),
        "device_facts": {key: dict(device_facts[key]) for key in devices if key in device_facts},
    }
    if acknowledged_us is not None:
        body["acknowledged"] = acknowledged_us
    if boot_clocks:
        body["boot_clocks"] = {boot: list(clock) for boot, clock in boot_clocks.items()}
    return body


def _columns(windows: Sequence[Window], device_at: Mapping[str, int]) -> Dict[str, List[Any]]:
    return {
        "device": [device_at[w.device] for w in windows],
        "epoch": [w.epoch for w in windows],
        "seq": [w.seq for w in windows],
        "start": [w.start_us for w in windows],
        "end": [w.end_us for w in windows],
        "mono_start": [w.mono_start_us for w in windows],
        "mono_end": [w.mono_end_us for w in windows],
        "counter_start": [w.counter_start_mj for w in windows],
        "counter_end": [w.counter_end_mj for w in windows],
        "energy_mj": [w.energy_mj for w in windows],
        "measurement": [w.measurement for w in windows],
        "flags": [w.flags for w in windows],
        "util_mean_pm": [w.util_mean_pm for w in windows],
        "util_max_pm": [w.util_max_pm for w in windows],
        "mem_mean_mib": [w.mem_mean_mib for w in windows],
        "mem_max_mib": [w.mem_max_mib for w in windows],
        "processes": [w.processes for w in windows],
    }


def decode_results(response: Any, *, expected: int) -> List[Tuple[str, str]]:
    """Return ``(result, reason)`` per window. An unknown result counts as retry, so that the window
    is kept.

    Raises InvalidResponse if the list is missing or does not contain every window.
    """
    results = response.get("results") if isinstance(response, dict) else None
    if not isinstance(results, list) or len(results) != expected:
        raise InvalidResponse(f"the response has no result for each of the {expected} windows sent")
    outcomes = []
    for item in results:
        parts = item if isinstance(item, list) else []
        result = parts[0] if parts and parts[0] in _RESULTS else "retry"
        outcomes.append((result, str(parts[1])[:500] if len(parts) > 1 else ""))
    return outcomes


def server_time(response: Any) -> Optional[int]:
    """Return the server's time in UTC µs if the response contains it."""
    value = response.get("server_time") if isinstance(response, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def received_times(response: Any) -> Optional[Tuple[int, Optional[int]]]:
    """Return when the server received the last batch, and when the last acknowledged one that it
    still knows (None: none), in µs; None from a server that does not report it.
    """
    if not isinstance(response, dict) or "previous" not in response:
        return None
    at_us, previous_us = response.get("received"), response["previous"]
    if type(at_us) is not int or not (previous_us is None or type(previous_us) is int):
        return None
    return at_us, previous_us
