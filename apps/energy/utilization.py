"""Utilization and memory of a device per UTC hour and consumer, from windows. Pure.

All sums are additive: over hours, devices and consumers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from apps.core.units import US_PER_HOUR

BINS = 21
UTILIZATION_BIN_PM = 50  # 5 %; the last bin is 100 %
MEMORY_BIN_MIB = 4096  # the last bin is 80 GiB and more
IDLE_PM = 10  # a window whose maximum is 1 % or less


@dataclass(frozen=True)
class UseOfWindow:
    """A window: utilization in ‰, memory in MiB, None if not reported. ``consumers``: ids of
    those with a share; ``active``: their number without the idle consumer.
    """

    start_us: int
    end_us: int
    node_id: int
    util_mean_pm: int | None
    util_max_pm: int | None
    mem_mean_mib: int | None
    mem_max_mib: int | None
    consumers: Sequence[int]
    active: int


@dataclass
class Utilization:
    """Time-weighted sums. ``util_bins``, ``mem_bins``: µs per bin of the mean of a window, BINS
    values whose sum is ``util_us`` or ``mem_us``. ``idle_us``: maximum of IDLE_PM or less.
    ``shared_us``: with several active consumers. ``most_consumers``: active in one window.
    """

    util_us: int = 0
    util_pm_us: int = 0
    idle_us: int = 0
    util_bins: list[int] = field(default_factory=lambda: [0] * BINS)
    mem_us: int = 0
    mem_mib_us: int = 0
    mem_max_mib: int = 0
    mem_bins: list[int] = field(default_factory=lambda: [0] * BINS)
    shared_us: int = 0
    most_consumers: int = 0

    def add_window(self, window: UseOfWindow, length_us: int) -> None:
        """Add ``length_us`` of a window."""
        if window.util_mean_pm is not None:
            self.util_us += length_us
            self.util_pm_us += window.util_mean_pm * length_us
            self.util_bins[min(BINS - 1, window.util_mean_pm // UTILIZATION_BIN_PM)] += length_us
            most_pm = window.util_mean_pm if window.util_max_pm is None else window.util_max_pm
            if most_pm <= IDLE_PM:
                self.idle_us += length_us
        if window.mem_mean_mib is not None:
            self.mem_us += length_us
            self.mem_mib_us += window.mem_mean_mib * length_us
            self.mem_bins[min(BINS - 1, window.mem_mean_mib // MEMORY_BIN_MIB)] += length_us
        for mib in (window.mem_mean_mib, window.mem_max_mib):
            self.mem_max_mib = max(self.mem_max_mib, mib or 0)
        if window.active > 1:
            self.shared_us += length_us
        self.most_consumers = max(self.most_consumers, window.active)

    def add(self, other: Utilization) -> None:
        """Add the sums of another hour, device or consumer."""
        self.util_us += other.util_us
        self.util_pm_us += other.util_pm_us
        self.idle_us += other.idle_us
        self.util_bins = [a + b for a, b in zip(self.util_bins, other.util_bins, strict=True)]
        self.mem_us += other.mem_us
        self.mem_mib_us += other.mem_mib_us
        self.mem_max_mib = max(self.mem_max_mib, other.mem_max_mib)
        self.mem_bins = [a + b for a, b in zip(self.mem_bins, other.mem_bins, strict=True)]
        self.shared_us += other.shared_us
        self.most_consumers = max(self.most_consumers, other.most_consumers)

    @property
    def util_mean_pm(self) -> int | None:
        """Return the mean utilization in ‰, None if it is unknown."""
        return self.util_pm_us // self.util_us if self.util_us else None

    @property
    def mem_mean_mib(self) -> int | None:
        """Return the mean memory in MiB, None if it is unknown."""
        return self.mem_mib_us // self.mem_us if self.mem_us else None

    @property
    def idle_pm(self) -> int | None:
        """Return the share of time in ‰ in which the maximum was IDLE_PM or less."""
        return 1000 * self.idle_us // self.util_us if self.util_us else None

    @property
    def util_p95_pm(self) -> int | None:
        """Return the upper edge in ‰ of the bin with the 95th percentile of the time."""
        if not self.util_us:
            return None
        reached = enumerate(accumulate(self.util_bins))
        place = next(place for place, us in reached if 100 * us >= 95 * self.util_us)
        return min(1000, (place + 1) * UTILIZATION_BIN_PM)


def utilization_by_hour(
    windows: Iterable[UseOfWindow], from_hour: int, to_hour: int
) -> dict[tuple[int, int, int], Utilization]:
    """Return {(hour, node id, consumer id): sums} of the parts of windows in ``[from_hour,
    to_hour)``. Windows that report neither utilization nor memory are left out.
    """
    sums: dict[tuple[int, int, int], Utilization] = defaultdict(Utilization)
    for window in windows:
        if window.util_mean_pm is None and window.mem_mean_mib is None:
            continue
        first = max(from_hour, window.start_us // US_PER_HOUR)
        last = min(to_hour - 1, (window.end_us - 1) // US_PER_HOUR)
        for hour in range(first, last + 1):
            start_us = max(window.start_us, hour * US_PER_HOUR)
            length_us = min(window.end_us, (hour + 1) * US_PER_HOUR) - start_us
            for consumer in window.consumers:
                sums[hour, window.node_id, consumer].add_window(window, length_us)
    return dict(sums)


def bins_as_text(bins: Sequence[int]) -> str:
    """Return bins as a JSON object without those that are 0."""
    return json.dumps({place: us for place, us in enumerate(bins) if us}, separators=(",", ":"))


def bins_from_text(text: str) -> list[int]:
    """Return the BINS values that ``bins_as_text`` wrote."""
    bins = [0] * BINS
    for place, us in json.loads(text).items():
        bins[int(place)] = us
    return bins
