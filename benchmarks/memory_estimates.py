"""Estimates of training memory beside the measured peak of live tensors, in real training steps of
six small models on the CPU: the dry run, and the lesson's formula. Needs PyTorch
(`make test-frameworks` installs it): .venv-frameworks/bin/python benchmarks/memory_estimates.py
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "collector"))

from tests.frameworks.comparison import Comparison, compare_all, quantile_ppm

FORMAT = "{:10} {:>5} {:9} {:13} {:>11} {:>11} {:>9} {:>11} {:>9}"


def percent(ppm: int) -> str:
    return f"{ppm / 10_000:+.2f} %"


def print_row(row: Comparison) -> None:
    print(
        FORMAT.format(
            *(row.model, row.batch, row.optimiser, row.variant, row.measured),
            *(row.dry_run, percent(row.dry_run_ppm), row.lesson, percent(row.lesson_ppm)),
        ),
        flush=True,
    )


def print_errors(
    title: str, rows: Sequence[Comparison], error: Callable[[Comparison], int]
) -> None:
    errors = [error(row) for row in rows]
    sizes = [abs(one) for one in errors]
    median, ninth = percent(quantile_ppm(sizes, 50)), percent(quantile_ppm(sizes, 90))
    spread = " / ".join(percent(quantile_ppm(errors, part)) for part in (10, 50, 90))
    print(
        f"{title:14} {len(rows):>4} trainings, |error| median {median}, P90 {ninth}, "
        f"largest {percent(max(sizes))}; error P10 / P50 / P90 {spread}"
    )


def main() -> None:
    head = ("model", "batch", "optimiser", "variant", "measured B")
    print(FORMAT.format(*head, "dry run B", "error", "lesson B", "error"))
    rows = []
    for row in compare_all():
        print_row(row)
        rows.append(row)
    by_variant = defaultdict(list)
    for row in rows:
        by_variant[row.variant].append(row)
    for title, error in [
        ("dry run", lambda row: row.dry_run_ppm),
        ("lesson's formula", lambda row: row.lesson_ppm),
    ]:
        print(f"\n{title}")
        print_errors("all", rows, error)
        for variant, members in by_variant.items():
            print_errors(variant, members, error)


if __name__ == "__main__":
    main()
