"""Delay before the next attempt."""

from __future__ import annotations

import random
from typing import Callable

BASE_DELAY_S, MAX_DELAY_S = 1.0, 300.0


def full_jitter(failures: int, *, random_unit: Callable[[], float] = random.random) -> float:
    """Return the delay in seconds after ``failures`` failures in a row: uniform in [1, min(300,
    2^failures) + 1).
    """
    ceiling_s = min(MAX_DELAY_S, BASE_DELAY_S * 2.0 ** min(failures, 30))
    return BASE_DELAY_S + random_unit() * ceiling_s
