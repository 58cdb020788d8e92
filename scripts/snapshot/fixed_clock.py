"""A frozen clock and seeded randomness."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import time_machine

NOW = datetime(2026, 11, 20, 10, 30, tzinfo=UTC)
_GENERATOR = random.Random()


@contextmanager
def frozen() -> Iterator[None]:
    """Stop the clock at NOW, and draw uuid4, secrets and salts from a seeded generator."""
    real, real_of_random = os.urandom, random._urandom  # type: ignore[attr-defined]  # noqa: SLF001
    os.urandom = random._urandom = _GENERATOR.randbytes  # type: ignore[attr-defined]  # noqa: SLF001
    try:
        with time_machine.travel(NOW, tick=False):
            yield
    finally:
        os.urandom, random._urandom = real, real_of_random  # type: ignore[attr-defined]  # noqa: SLF001


def reseed(step: str) -> None:
    """Begin a step: what it draws does not depend on what earlier steps drew."""
    _GENERATOR.seed(step)
    random.seed(step)
