"""The dry run against the measured peak of live tensors, in 216 trainings."""

from __future__ import annotations

from collections import Counter

from tests.frameworks.comparison import BATCHES, OPTIMISERS, compare_all, quantile_ppm
from tests.frameworks.measured_steps import VARIANTS
from tests.frameworks.models import KINDS


def test_errors_of_all_trainings() -> None:
    rows = list(compare_all())
    assert len(rows) == len(KINDS) * len(BATCHES) * len(OPTIMISERS) * len(VARIANTS) == 216
    assert set(Counter(row.variant for row in rows).values()) == {36}
    errors = [abs(row.dry_run_ppm) for row in rows]
    assert quantile_ppm(errors, 50) <= 30_000
    assert quantile_ppm(errors, 90) <= 100_000
    assert not [row for row in rows if abs(row.dry_run_ppm) > 100_000]
