"""The time of a collector's window (docs/data-flow.md). Pure.

A collector measures with a monotonic clock, which counts on during suspend and restarts at boot.
Its wall clock can be wrong or set at any moment. The server knows the offset between its own time
and the monotonic clock of the running boot, because each batch contains a reading of that clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from apps.core.units import US_PER_S
from apps.ingest.choices import FLAG_CLOCK, PlacementQuality
from apps.ingest.window_rules import WindowIn

AGREEMENT_US = 30 * US_PER_S  # a wall clock within this of the server's is correct
FUTURE_US = 300 * US_PER_S
DECLARED_FUTURE_US = 24 * 3600 * US_PER_S
# 2020-01-01. An earlier wall time is that of a clock that was never set.
EARLIEST_US = 1_577_836_800 * US_PER_S


class BootOffset(NamedTuple):
    """Server time minus the monotonic clock of a boot, as of the latest placed window.

    Windows placed with one offset are as adjacent as they were measured.
    """

    monotonic_us: int
    offset_us: int


@dataclass(frozen=True, slots=True)
class BatchClocks:
    """Clock readings when a batch arrives.

    ``reported``: (monotonic, wall) pairs that the collector stored, by earlier boot.
    """

    received_us: int
    sent_us: int
    sent_monotonic_us: int
    boot: str
    reported: dict[str, tuple[int, int]]

    @property
    def offset_us(self) -> int:
        """Server time minus the monotonic clock of the running boot."""
        return self.received_us - self.sent_monotonic_us

    @property
    def is_wall_correct(self) -> bool:
        return abs(self.received_us - self.sent_us) < AGREEMENT_US


class Placed(NamedTuple):
    """Time of a window with its quality."""

    start_us: int
    end_us: int
    quality: int = PlacementQuality.EXACT
    flags: int = 0


def imputed(start_us: int, end_us: int) -> Placed:
    """Return a time that is not the wall time of the window."""
    return Placed(start_us, end_us, PlacementQuality.IMPUTED, FLAG_CLOCK)


class Candidates(NamedTuple):
    """Possible times of a window, best first. ``reason``: why there is none."""

    times: tuple[Placed, ...] = ()
    reason: str = ""


@lru_cache(maxsize=4096)  # a batch repeats few epochs many times
def boot_of(epoch: str) -> str:
    """Return the boot of an epoch on the wire, ``<boot>/<epoch of the source>#<spool>``."""
    return epoch.partition("/")[0]


def is_running_boot(window: WindowIn, clocks: BatchClocks) -> bool:
    """Return whether the window was measured in the boot that sends it."""
    return boot_of(window.epoch) == clocks.boot and window.mono_end_us <= clocks.sent_monotonic_us


def candidates(window: WindowIn, clocks: BatchClocks, known: BootOffset | None) -> Candidates:
    """Return the possible times of a window.

    ``known``: the offset of the window's boot from earlier windows. A window of the running boot
    ended (monotonic now − its monotonic end) ago: its wall time applies if it agrees with that
    within 30 s, else its age. A window of an earlier boot is placed likewise by the offset of that
    boot, which is known from its batches or reported by the collector. Without an offset its wall
    time applies only if the wall clock is correct now and did not step within the window.
    """
    if is_running_boot(window, clocks):
        offset_us = clocks.offset_us
        if known is not None and abs(known.offset_us - offset_us) < AGREEMENT_US:
            steady_us = known.offset_us
        else:
            steady_us = offset_us
        found = _by_offset(window, offset_us, steady_us)
    else:
        offset = _earlier_offset_us(window, clocks, known)
        if offset is not None:
            found = _by_offset(window, offset, offset)
        elif clocks.is_wall_correct and window.start_us >= EARLIEST_US and _is_steady(window):
            found = (Placed(window.start_us, window.end_us),)
        else:
            return Candidates(reason="clock")
    times = _in_time(found, clocks.received_us)
    if times:
        return Candidates(times)
    is_future = any(EARLIEST_US <= placed.start_us < placed.end_us for placed in found)
    return Candidates(reason="future" if is_future else "clock")


def _is_steady(window: WindowIn) -> bool:
    """Return whether wall clock and monotonic clock measured the same length, within 30 s."""
    return abs(window.end_us - window.start_us - window.measured_us) < AGREEMENT_US


def _in_time(times: Iterable[Placed], received_us: int) -> tuple[Placed, ...]:
    """Return the times that do not end in the future."""
    latest_us = received_us + FUTURE_US
    return tuple(
        [placed for placed in times if EARLIEST_US <= placed.start_us < placed.end_us <= latest_us]
    )


def _by_offset(window: WindowIn, offset_us: int, steady_us: int) -> tuple[Placed, ...]:
    """Return the wall time if it agrees with ``offset_us``, then the time by ``steady_us``."""
    by_age = imputed(window.mono_start_us + steady_us, window.mono_end_us + steady_us)
    agrees = (
        abs(window.start_us - window.mono_start_us - offset_us) < AGREEMENT_US
        and abs(window.end_us - window.mono_end_us - offset_us) < AGREEMENT_US
    )
    return (Placed(window.start_us, window.end_us), by_age) if agrees else (by_age,)


def _earlier_offset_us(
    window: WindowIn, clocks: BatchClocks, known: BootOffset | None
) -> int | None:
    if known is not None:
        return known.offset_us
    reported = clocks.reported.get(boot_of(window.epoch))
    if reported is None or not clocks.is_wall_correct:
        return None
    monotonic_us, wall_us = reported
    if not EARLIEST_US <= wall_us <= clocks.received_us + AGREEMENT_US:
        return None
    return wall_us - monotonic_us


def place_by_offset(window: WindowIn, known: BootOffset, received_us: int) -> tuple[Placed, ...]:
    """Return the possible times of a window of an earlier boot whose offset became known."""
    return _in_time(_by_offset(window, known.offset_us, known.offset_us), received_us)


def place_declared(window: WindowIn, now_us: int) -> Candidates:
    """Return the time of a window that a person or an import declares: its own."""
    if window.end_us > now_us + DECLARED_FUTURE_US:
        return Candidates(reason="future")
    return Candidates((Placed(window.start_us, window.end_us),))
