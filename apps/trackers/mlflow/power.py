"""GPU power of MLflow's system metrics as energy windows. Pure.

A logged value is the mean of the samples since the previous value (``mlflow/system_metrics``:
sampled every 10 s, then logged). So its energy is W × time since the previous value. A gap longer
than ``GAP_US`` is unknown, not zero. So is the time before the first value.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from apps.core.units import US_PER_S

US_PER_MINUTE = 60 * US_PER_S
GAP_US = 300 * US_PER_S
MAX_MW = 3_000_000  # per card; one card cannot draw more
NJ_PER_MJ = 1_000_000
_NAME = re.compile(r"system/(?:(?P<node>[^/]{1,128})/)?gpu_(?P<number>\d{1,3})_power_usage_watts")


@dataclass(frozen=True, order=True)
class Sample:
    """Mean power until a time: mW, µs UTC."""

    at_us: int
    power_mw: int


@dataclass(frozen=True)
class Progress:
    """Position of the assignment of energy.

    ``until_us``: end of the assigned energy. ``last_sample_us``: newest sample not after it.
    Both None: no sample yet. ``carry_nj``: remainder below a millijoule.
    """

    until_us: int | None = None
    last_sample_us: int | None = None
    carry_nj: int = 0


@dataclass(frozen=True)
class EnergyPiece:
    """Energy of ``[start_us, end_us)``, mJ."""

    start_us: int
    end_us: int
    energy_mj: int


def gpu_of(name: str) -> str | None:
    """Return the GPU of a power metric: its number, with the node as prefix if MLflow has one.

    None for other metrics.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return f"{match['node']}/{match['number']}" if match["node"] else match["number"]


def sample_of(at_us: int, watts: float) -> Sample | None:
    """Return a value as a sample, or None if no GPU can draw it (not a number, negative, above
    ``MAX_MW``).
    """
    if not 0 <= watts * 1000 <= MAX_MW:  # False for NaN
        return None
    return Sample(at_us, int(Fraction(watts) * 1000 + Fraction(1, 2)))


def split_into_minutes(
    progress: Progress, samples: Iterable[Sample], *, is_over: bool
) -> tuple[list[EnergyPiece], Progress]:
    """Return the final windows, one per UTC minute, and the new position.

    A minute is final once there is a later sample. ``is_over``: no more samples follow, so the
    rest is final too. The windows are independent of the division of samples into parts, and no
    nanojoule is lost. Of two samples with one time the greater counts. Samples before
    ``last_sample_us`` are already used.
    """
    fresh = _fresh(progress, samples)
    if not fresh:
        return [], progress
    newest = fresh[-1].at_us
    last_sample_us, until_us = progress.last_sample_us, progress.until_us
    pieces: list[EnergyPiece] = []
    carry = progress.carry_nj
    for start_us, end_us, energy_nj in _minutes(last_sample_us, until_us, fresh):
        if not is_over and newest < start_us // US_PER_MINUTE * US_PER_MINUTE + US_PER_MINUTE:
            break
        energy_mj, carry = divmod(energy_nj + carry, NJ_PER_MJ)
        pieces.append(EnergyPiece(start_us, end_us, energy_mj))
    if not pieces:
        return [], progress
    until_us = pieces[-1].end_us
    last_sample_us = max(
        (sample.at_us for sample in fresh if sample.at_us <= until_us), default=last_sample_us
    )
    return pieces, replace(
        progress, until_us=until_us, last_sample_us=last_sample_us, carry_nj=carry
    )


def _fresh(progress: Progress, samples: Iterable[Sample]) -> list[Sample]:
    at: dict[int, Sample] = {}
    for sample in samples:
        if progress.last_sample_us is None or sample.at_us > progress.last_sample_us:
            at[sample.at_us] = max(sample, at.get(sample.at_us, sample))
    return [at[moment] for moment in sorted(at)]


def _minutes(
    last_sample_us: int | None, until_us: int | None, fresh: Sequence[Sample]
) -> list[tuple[int, int, int]]:
    """Return (start, end, nJ) of intervals without a gap, cut at whole UTC minutes, in order of
    time.
    """
    minutes: list[tuple[int, int, int]] = []
    before = last_sample_us
    for sample in fresh:
        start = (
            sample.at_us
            if before is None or sample.at_us - before > GAP_US
            else max(before, until_us or before)
        )
        before = sample.at_us
        while start < sample.at_us:
            end = min(sample.at_us, (start // US_PER_MINUTE + 1) * US_PER_MINUTE)
            energy_nj = sample.power_mw * (end - start)
            last = minutes[-1] if minutes else None
            if last and last[1] == start and start % US_PER_MINUTE:
                minutes[-1] = (last[0], end, last[2] + energy_nj)
            else:
                minutes.append((start, end, energy_nj))
            start = end
    return minutes
