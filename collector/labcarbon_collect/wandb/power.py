"""Energy of GPUs from the power samples of W&B's system metrics. Pure.

Between two samples the power is linear (trapezoid), for each GPU by itself. A distance between
samples of more than three times the usual one, or five minutes, is a gap: its energy is unknown
and not filled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import median_low
from typing import Any, Dict, List, Mapping, Sequence, Tuple

_POWER = re.compile(r"gpu\.(\d+)\.powerWatts")
_GAP_FACTOR, _MAX_STEP_US = 3, 300_000_000
_MAX_WATTS = 3_000  # one card cannot draw more
_MINUTE_US = 60_000_000
_US_PER_S = 1_000_000
Sample = Tuple[int, Mapping[int, Fraction]]  # µs UTC, GPU → watts


@dataclass
class GpuEnergy:
    """``intervals``: (start µs, end µs, mJ) of all GPUs. ``by_gpu``: mJ of each. ``gap_us``: time
    between samples that is not covered.
    """

    intervals: List[Tuple[int, int, int]] = field(default_factory=list)
    by_gpu: Dict[int, int] = field(default_factory=dict)
    gap_us: int = 0


def gpu_powers(item: Mapping[str, Any]) -> Dict[int, Fraction]:
    """Return the power of each GPU in one record of system metrics. The power of the run's
    processes (``gpu.process.…``) repeats that of their GPU, so it is not counted.
    """
    powers: Dict[int, Fraction] = {}
    for name, value in item.items():
        match = _POWER.fullmatch(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if match and is_number and 0 <= value <= _MAX_WATTS:
            powers[int(match[1])] = Fraction(value)
    return powers


def integrate(samples: Sequence[Sample]) -> GpuEnergy:
    """Return the energy between the samples, cut at each UTC minute that a sample enters.

    The rounded intervals of a section without gaps add up to its rounded energy. A step in which
    the set of GPUs changes is a gap: the energy of all GPUs is unknown in it.
    """
    ordered = sorted(dict(samples).items())
    pairs = list(zip(ordered, ordered[1:]))  # noqa: RUF007 - Python 3.9
    energy = GpuEnergy()
    if not pairs:
        return energy
    usual_us = median_low([after[0] - before[0] for before, after in pairs])
    limit_us = min(_GAP_FACTOR * usual_us, _MAX_STEP_US)
    totals: Dict[int, Fraction] = {}
    section = Fraction(0)
    sent_mj, open_us, end_us = 0, -1, -1
    for (start, before), (end, after) in pairs:
        if end - start > limit_us or before.keys() != after.keys():
            energy.gap_us += end - start
            sent_mj = _close(energy, open_us, end_us, section, sent_mj)
            section, sent_mj, open_us = Fraction(0), 0, -1
            continue
        if open_us >= 0 and start // _MINUTE_US != open_us // _MINUTE_US:
            sent_mj = _close(energy, open_us, end_us, section, sent_mj)
            open_us = -1
        open_us, end_us = (start if open_us < 0 else open_us), end
        for gpu, power in before.items():
            step = (power + after[gpu]) / 2 * (end - start) * 1000 / _US_PER_S
            totals[gpu] = totals.get(gpu, Fraction(0)) + step
            section += step
    _close(energy, open_us, end_us, section, sent_mj)
    energy.by_gpu = {gpu: round(total) for gpu, total in sorted(totals.items())}
    return energy


def _close(energy: GpuEnergy, start_us: int, end_us: int, section: Fraction, sent_mj: int) -> int:
    """Add an interval with the energy of its section that is not sent yet. Return the sum sent."""
    if start_us < 0:
        return sent_mj
    total = round(section)
    energy.intervals.append((start_us, end_us, total - sent_mj))
    return total
