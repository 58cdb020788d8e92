"""When to write checkpoints: the interval that loses the least time. Pure. All times are in µs.

Interval = √(2 × time to write a checkpoint × mean time between failures). Source: J. W. Young, A
first order approximation to the optimum checkpoint interval, Communications of the ACM 17(9), 1974.
It holds while a checkpoint takes far less time than passes between two failures.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from apps.core.units import PPM
from apps.planner.formulas.ranges import divide, rounded

_FAR_LESS = 10  # times


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Checkpoints of a training. ``loss_us``: mean work lost at a failure, half of the interval.
    ``overhead_ppm``: share of the time for writing and for lost work. ``failures_ppm``: expected
    failures during the training, in millionths; None: its time is unknown.
    """

    interval_us: int
    loss_us: int
    overhead_ppm: int
    failures_ppm: int | None
    is_valid: bool  # a checkpoint takes far less time than passes between two failures

    def share_of(self, energy_mj: int) -> int:
        """Return the energy of writing and lost work, of a training with ``energy_mj``."""
        return divide(energy_mj * self.overhead_ppm, PPM)


def young_interval_us(write_us: int, between_failures_us: int) -> int:
    """Return the interval between two checkpoints, rounded half up."""
    _require_positive(write_us, between_failures_us)
    doubled = isqrt(4 * 2 * write_us * between_failures_us)  # 2 × the root, rounded down
    return (doubled + 1) // 2


def plan_checkpoints(
    write_us: int, between_failures_us: int, training_us: int | None
) -> Checkpoints:
    """Return the interval, and what writing and failures cost with it."""
    interval = young_interval_us(write_us, between_failures_us)
    overhead = Fraction(write_us, interval) + Fraction(interval, 2 * between_failures_us)
    return Checkpoints(
        interval_us=interval,
        loss_us=(interval + 1) // 2,
        overhead_ppm=rounded(overhead * PPM),
        failures_ppm=None
        if training_us is None
        else rounded(Fraction(training_us * PPM, between_failures_us)),
        is_valid=_FAR_LESS * write_us <= between_failures_us,
    )


def mean_between_failures_us(run_us: int, failures: int) -> int | None:
    """Return the mean time between failures of runs with ``run_us`` together, None without a
    failure.
    """
    return rounded(Fraction(run_us, failures)) if failures and run_us > 0 else None


def _require_positive(*values: int) -> None:
    if min(values) <= 0:
        raise ValueError("Times of checkpoints and failures are above 0.")
