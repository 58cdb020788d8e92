"""Readings and windows for tests, and a check of the invariants of windows."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from labcarbon_collect.energy.windows import Window
from labcarbon_collect.sources.base import ProcessUse, Reading
from labcarbon_collect.sources.replay import TraceWriter

T0 = 1_793_606_400_000_000  # 2026-11-02 08:00 UTC
SECOND = 1_000_000
MINUTE = 60 * SECOND
GPU = "gpu:GPU-5d1c6ad1-0000-4000-8000-000000000001"


def reading(at_s: float, counter_mj: int, **changes: Any) -> Reading:
    """Return a reading ``at_s`` seconds after T0. The monotonic clock is 1 000 s at T0."""
    at_us = round(at_s * SECOND)
    fields: dict[str, Any] = {
        "device": GPU,
        "monotonic_us": 1000 * SECOND + at_us,
        "wall_us": T0 + at_us,
        "counter_mj": counter_mj,
        "epoch": "e1",
        "measurement": "nvml_counter",
    }
    return Reading(**{**fields, **changes})


def window(
    seq: int = 0, *, start_s: float = 0, end_s: float = 60, energy_mj: int = 600, **changes: Any
) -> Window:
    """Return a window of the GPU. Its counter starts at the end of a neighbour of the same
    energy.
    """
    fields: dict[str, Any] = {
        "device": GPU,
        "epoch": "e1",
        "seq": seq,
        "start_us": T0 + round(start_s * SECOND),
        "end_us": T0 + round(end_s * SECOND),
        "mono_start_us": 1000 * SECOND + round(start_s * SECOND),
        "mono_end_us": 1000 * SECOND + round(end_s * SECOND),
        "counter_start_mj": 10_000 + seq * energy_mj,
        "counter_end_mj": 10_000 + (seq + 1) * energy_mj,
        "energy_mj": energy_mj,
        "measurement": "nvml_counter",
        "flags": 0,
        "util_mean_pm": 500,
        "util_max_pm": 900,
        "mem_mean_mib": 1000,
        "mem_max_mib": 2000,
        "processes": 1,
        "shares": (("idle", energy_mj),) if energy_mj else (),
    }
    return Window(**{**fields, **changes})


def minute(seq: int, energy_mj: int = 600, **changes: Any) -> Window:
    """Return window number ``seq`` on the minute grid."""
    return window(seq, start_s=60 * seq, end_s=60 * (seq + 1), energy_mj=energy_mj, **changes)


def check(windows: Sequence[Window]) -> None:
    """Check each window: exact shares, exact counters, a length, no overlap, its own identity."""
    for window in windows:
        assert sum(mj for _, mj in window.shares) == window.energy_mj
        assert window.counter_end_mj - window.counter_start_mj == window.energy_mj >= 0
        assert window.end_us > window.start_us
        assert window.mono_end_us >= window.mono_start_us
        assert len({consumer for consumer, _ in window.shares}) == len(window.shares)
    identities = [(window.device, window.epoch, window.seq) for window in windows]
    assert len(set(identities)) == len(identities)


def total_mj(windows: Iterable[Window]) -> int:
    """Return Σ energy."""
    return sum(window.energy_mj for window in windows)


def write_trace(path: Path, *, seconds: int, seed: int) -> list[int]:
    """Write a GPU whose counter grows unevenly ten times a second. Returns the counter by tenth of
    a second.
    """
    dice, counter, counters = random.Random(seed), 1_000_000, []
    with path.open("w") as out:
        writer = TraceWriter(out)
        for tenth in range(seconds * 10):
            writer.write(reading(tenth / 10, counter, processes=(ProcessUse(4_000_000),)))
            counters.append(counter)
            counter += dice.randrange(0, 70_000)
    return counters
