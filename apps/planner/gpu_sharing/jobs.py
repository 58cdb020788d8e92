"""What is known of jobs and cards that could be shared. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from apps.catalog.mig_profiles import MigCard
from apps.core.units import PPM

MEMORY_PERCENT = 110  # needed memory, as a share of the measured peak
MAX_JOBS = 8  # considered for one card; no card has more slices


class LeftOutReason(StrEnum):
    """Why a job does not share the card."""

    DISTRIBUTED = "distributed"
    UNKNOWN_MEMORY = "unknown_memory"
    UNKNOWN_USE = "unknown_use"
    MEMORY = "memory"
    OTHER_USER = "other_user"
    NO_GAIN = "no_gain"  # others save more without it
    NO_PARTNER = "no_partner"  # no other job fits beside it


@dataclass(frozen=True, slots=True)
class Range:
    """A result with its range, integers of one unit: low ≤ likely ≤ high."""

    low: int
    likely: int
    high: int

    def __post_init__(self) -> None:
        if not self.low <= self.likely <= self.high:
            raise ValueError(f"{self.low} ≤ {self.likely} ≤ {self.high} does not hold")


@dataclass(frozen=True, slots=True)
class Use:
    """Use of a part of the whole card while the job ran alone: mean and 95th percentile."""

    mean_ppm: int
    p95_ppm: int

    def __post_init__(self) -> None:
        if not 0 <= self.mean_ppm <= self.p95_ppm <= PPM:
            raise ValueError(f"0 ≤ {self.mean_ppm} ≤ {self.p95_ppm} ≤ {PPM} does not hold")


@dataclass(frozen=True, slots=True)
class SharedJob:
    """A job, measured alone on the whole card. None is unknown.

    ``busy`` is the share of time in which a kernel ran (the driver's utilization), ``sm`` the share
    of SM time, ``bandwidth`` the share of time in which memory was read or written.
    """

    key: str
    user: str
    memory_bytes: int | None  # peak
    duration_us: int
    gpu_mj: int | None
    busy: Use | None
    sm: Use | None = None
    bandwidth: Use | None = None
    is_distributed: bool = False

    def __post_init__(self) -> None:
        if self.duration_us <= 0 or (self.gpu_mj or 0) < 0:
            raise ValueError("a job has a duration, and its energy is not negative")

    @property
    def likely_sm_ppm(self) -> int:
        """Return the mean use of SMs; without it that of the card, which is an upper bound."""
        use = self.sm or self.busy
        return use.mean_ppm if use else PPM

    @property
    def high_sm_ppm(self) -> int:
        use = self.sm or self.busy
        return use.p95_ppm if use else PPM

    @property
    def likely_bandwidth_ppm(self) -> int:
        """Return the mean use of memory bandwidth; unknown counts as none."""
        return self.bandwidth.mean_ppm if self.bandwidth else 0

    @property
    def high_bandwidth_ppm(self) -> int:
        """Return the high use of memory bandwidth; unknown counts as the time of kernels."""
        use = self.bandwidth or self.busy
        return use.p95_ppm if use else PPM


@dataclass(frozen=True, slots=True)
class SharedCard:
    """The card. ``idle_mw`` is its power without a job, None unknown. ``mig`` None: a card without
    slices.
    """

    memory_bytes: int
    idle_mw: Range | None
    mig: MigCard | None = None


def is_memory_enough(available_bytes: int, *memory_bytes: int) -> bool:
    """Return whether the peaks of jobs, with a tenth more, fit."""
    return sum(memory_bytes) * MEMORY_PERCENT <= available_bytes * 100


def job_obstacle(job: SharedJob) -> LeftOutReason | None:
    """Return why a job cannot share any card."""
    if job.is_distributed:
        return LeftOutReason.DISTRIBUTED
    if job.memory_bytes is None:
        return LeftOutReason.UNKNOWN_MEMORY
    if job.busy is None:
        return LeftOutReason.UNKNOWN_USE
    return None
