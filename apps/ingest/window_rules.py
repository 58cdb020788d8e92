"""Limits and content of an uploaded window. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from uuid import NAMESPACE_URL, UUID, uuid5

from labcarbon_collect.lc1.consumers import SYSTEM_MARK, is_system

from apps.core.text import is_unstorable
from apps.core.units import INT64_MAX, US_PER_S
from apps.ingest.choices import (
    COUNTER_MEASUREMENTS,
    FLAG_BRIDGED,
    FLAG_MERGED,
    FLAG_RECOVERED,
    Measurement,
)

# 2255-06-05. Pages cannot show later times, and JSON numbers are exact up to it.
LATEST_US = 2**53
# 10 GWh in one window: more than the largest declared job. 256 of them fit into 64 bits.
MAX_ENERGY_MJ = 36 * 10**15
MAX_DURATION_US = 400 * 24 * 3600 * US_PER_S
MEASUREMENTS = {choice.label: int(choice) for choice in Measurement}
PUSHED_MEASUREMENTS = frozenset(MEASUREMENTS) - {"declared", "host_static"}
SHIPPED_FLAGS = FLAG_BRIDGED | FLAG_RECOVERED | FLAG_MERGED


@dataclass(slots=True)
class WindowIn:
    """An uploaded window.

    ``mono_start_us``, ``mono_end_us``: its time on the collector's monotonic clock, equal for a
    window that no collector measured. ``shares``: (consumer key, mJ). ``imputed``: its time differs
    from the time of its source. ``split``: the energy of a complete node, of which its one consumer
    may have used only a part.
    """

    device: str
    epoch: str
    sequence: int
    start_us: int
    end_us: int
    mono_start_us: int
    mono_end_us: int
    counter_start: int | None
    counter_end: int | None
    energy_mj: int
    measurement: str
    flags: int
    util_mean_pm: int | None = None
    util_max_pm: int | None = None
    mem_mean_mib: int | None = None
    mem_max_mib: int | None = None
    processes: int | None = None
    shares: list[tuple[str, int]] = field(default_factory=list)
    split: bool = False
    imputed: bool = False

    @property
    def measured_us(self) -> int:
        """Its length by the monotonic clock, else by its own time."""
        return self.mono_end_us - self.mono_start_us or self.end_us - self.start_us


def _bad_text(text: str) -> bool:
    return not text or is_unstorable(text)


@lru_cache(maxsize=4096)  # a batch repeats few epochs many times
def _is_usable_epoch(epoch: str) -> bool:
    return not _bad_text(epoch) and len(epoch) <= 200


def problem(window: WindowIn) -> str:
    """Return the reason why a window cannot be stored, '' for none."""
    if window.energy_mj < 0:
        return "energy_mj below zero"
    if window.energy_mj > MAX_ENERGY_MJ:
        return "energy_mj out of range"
    time_problem = _time_problem(window)
    if time_problem:
        return time_problem
    if window.sequence < 0:
        return "seq below zero"
    if window.measurement not in MEASUREMENTS:
        return "unknown measurement"
    if window.flags & ~SHIPPED_FLAGS:
        return "unknown flags"
    if not _is_usable_epoch(window.epoch):
        return "epoch is not a usable text"
    for value in (window.util_mean_pm, window.util_max_pm):
        if value is not None and not 0 <= value <= 1000:
            return "utilisation is not 0 to 1000 per mille"
    for value in (window.mem_mean_mib, window.mem_max_mib, window.processes):
        if value is not None and not 0 <= value < 2**31:
            return "memory or process count out of range"
    return _share_problem(window) or _counter_problem(window)


def _time_problem(window: WindowIn) -> str:
    if window.end_us <= window.start_us:
        return "end is not after start"
    if (
        window.start_us < 0
        or window.end_us > LATEST_US
        or window.end_us - window.start_us > MAX_DURATION_US
    ):
        return "times out of range"
    if not 0 <= window.mono_end_us - window.mono_start_us <= MAX_DURATION_US:
        return "mono_end is before mono_start, or too far after it"
    return ""


def _share_problem(window: WindowIn) -> str:
    total_mj = 0
    for key, energy_mj in window.shares:
        if energy_mj < 0:
            return "a share is below zero"
        if consumer_kind(key) is None:
            return "unknown kind of consumer"
        total_mj += energy_mj
    if len(dict(window.shares)) != len(window.shares):
        return "a consumer stands twice in the shares"
    if total_mj != window.energy_mj:
        return "the shares do not sum to energy_mj"
    return ""


def _counter_problem(window: WindowIn) -> str:
    if MEASUREMENTS[window.measurement] not in COUNTER_MEASUREMENTS or window.flags & FLAG_BRIDGED:
        return ""
    if window.counter_start is None or window.counter_end is None:
        return "a counter's window without its readings"
    if window.counter_end - window.counter_start != window.energy_mj:
        return "energy_mj is not the difference of the counter readings"
    return ""


_KINDS = frozenset(("run", "job", "pod", "container", "proc"))


@lru_cache(maxsize=65_536)  # a batch repeats few consumers and epochs many times
def consumer_kind(key: str) -> str | None:
    """Return the kind of a consumer key, None for one that a collector has no right to upload.

    A program of a system account is ``system``.
    """
    if key in ("idle", "unknown"):
        return key
    kind, _, rest = key.partition(":")
    if kind not in _KINDS or _bad_text(rest) or len(key) > 256:
        return None
    if kind == "run" and run_of(key) is None:
        return None
    return "system" if is_system(key) else kind


def without_system_mark(key: str) -> str:
    """Return a consumer key without the mark of a system process."""
    return key.removesuffix(SYSTEM_MARK) if is_system(key) else key


def run_of(key: str) -> UUID | None:
    """Return the run of a consumer key: the named one, or that of a scheduler's job, else None."""
    if key.startswith("job:"):
        return job_run(key[4:])
    if not key.startswith("run:"):
        return None
    try:
        return UUID(key[4:])
    except ValueError:
        return None


def job_run(job: str) -> UUID:
    """Return the UUID of the run of a Slurm job ``<cluster>/<id>``. All sources derive the same
    UUID.
    """
    return uuid5(NAMESPACE_URL, f"labcarbon:slurm:{job}")


def content_digest(window: WindowIn) -> int:
    """Return a 64-bit digest of the content of a window."""
    content = (
        window.start_us,
        window.end_us,
        window.energy_mj,
        window.counter_start,
        window.counter_end,
        window.measurement,
        window.flags,
        sorted(window.shares),
    )
    return int.from_bytes(
        blake2b(repr(content).encode(), digest_size=8).digest(), "big", signed=True
    )


def skew_us(received_us: int, sent_us: int) -> int:
    """Return how much a collector's clock is behind the server's, limited to the range of the
    database.
    """
    return max(-INT64_MAX, min(received_us - sent_us, INT64_MAX))


# 1.5 × the largest board of each kind on the market in 2026, rounded up, for devices outside the
# catalogue.
DEFAULT_LIMIT_MW: dict[str, int | None] = {
    "gpu": 3_000_000,
    "mig": 3_000_000,
    "cpu": 1_500_000,
    "dram": 1_000_000,
    "meter": 300_000_000,  # of a node: a rack of 72 GPUs draws 130 kW
    "storage": 300_000_000,
}


def power_limit_mw(kind: str, tdp_mw: int | None) -> int | None:
    """Return the power above which a window is impossible, None if unknown."""
    return tdp_mw * 3 // 2 if tdp_mw else DEFAULT_LIMIT_MW.get(kind)


def impossible(energy_mj: int, duration_us: int, limit_mw: int | None) -> bool:
    """Return whether a window has more energy than ``limit_mw`` allows, with one second of
    tolerance.
    """
    return limit_mw is not None and energy_mj * US_PER_S > limit_mw * (duration_us + US_PER_S)


def overlaps(intervals: Sequence[tuple[int, int]], at: int, start_us: int, end_us: int) -> bool:
    """Return whether ``[start_us, end_us)`` overlaps a neighbour of position ``at`` in sorted,
    disjoint ``intervals``.
    """
    return (at > 0 and intervals[at - 1][1] > start_us) or (
        at < len(intervals) and intervals[at][0] < end_us
    )
