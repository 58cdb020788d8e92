"""How far a scan is: by the bytes that it passed, of all that it will come to, also within a
large file.
"""

from __future__ import annotations

from typing import Any

import pytest
from labcarbon_collect.progress import Progress
from labcarbon_collect.scan import estimate

from tests.collector.scan.support import NPY, Disk

MB = 1_000_000


@pytest.fixture(autouse=True)
def _without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "DELAY_S", 0.0)


@pytest.fixture
def printable(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, int]]:
    """Each fraction and how many bytes were read, as they would be shown."""
    kept: list[tuple[float, int]] = []

    def update(
        self: Progress,
        count: int,
        fraction: float,
        *,
        is_final: bool = False,
        read_bytes: int | None = None,
    ) -> None:
        assert read_bytes is not None
        kept.append((fraction, read_bytes))

    monkeypatch.setattr(Progress, "update", update)
    return kept


def test_progress_advances_within_a_large_file(
    disk: Disk, here: Any, printable: list[tuple[float, int]]
) -> None:
    with disk.put("a.npy", NPY).open("r+b") as file:
        file.truncate(40 * MB)
    assert here("--limit-mb-s", "40")[0] == 0
    between = sorted({read for _, read in printable if 0 < read < 40 * MB})
    assert len(between) >= 2
    counted = [(fraction, read) for fraction, read in printable[:-1] if fraction > 0]
    assert len(counted) >= 2
    assert all(fraction == pytest.approx(read / (40 * MB)) for fraction, read in counted)
    assert printable[-1] == (1.0, 40 * MB)


def test_progress_is_monotonic_and_ends_complete(
    disk: Disk, here: Any, printable: list[tuple[float, int]]
) -> None:
    for name in ("large.npy", "sub/small.npy", "sub/deeper/large.npy", "other/small.npy"):
        with disk.put(name, NPY).open("r+b") as file:
            file.truncate(10 * MB if "large" in name else 1000)
    assert here("--limit-mb-s", "40")[0] == 0
    assert printable == sorted(printable)
    assert printable[-1] == (1.0, 20 * MB + 2000)
    assert any(0 < fraction < 1 for fraction, _ in printable)


def test_a_large_folder_counts_by_its_bytes_not_as_one_of_several(
    disk: Disk, here: Any, printable: list[tuple[float, int]]
) -> None:
    """A scan of 40 TB said after a minute that one more was left: the first of its folders was
    small.
    """
    for name in ("a/small.npy", "b/small.npy", "c/small.npy", "z/large.npy"):
        with disk.put(name, NPY).open("r+b") as file:
            file.truncate(40 * MB if "large" in name else 1000)
    assert here("--limit-mb-s", "40")[0] == 0
    inside = [
        (fraction, read) for fraction, read in printable if fraction > 0 and 3000 < read < 40 * MB
    ]
    assert inside
    assert all(fraction == pytest.approx(read / (40 * MB), rel=0.01) for fraction, read in inside)


def test_no_estimate_before_the_count_is_complete(
    disk: Disk, here: Any, printable: list[tuple[float, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "DELAY_S", 60.0)
    with disk.put("a.npy", NPY).open("r+b") as file:
        file.truncate(20 * MB)
    assert here("--limit-mb-s", "40")[0] == 0
    assert {fraction for fraction, _ in printable[:-1]} == {0.0}
    assert printable[-1] == (1.0, 20 * MB)


def test_a_folder_that_cannot_be_listed_counts_nothing() -> None:
    class Tree:
        def parts(self, address: bytes) -> list[bytes]:
            return [address]

        def list_folder(self, path: bytes) -> None:
            raise PermissionError(13, "not for you")

    counting = estimate.SizeEstimator([(Tree(), b"/secret")])  # type: ignore[list-item]
    counting.stop()
    assert counting.fraction(10) == 0.0


def test_unchanged_files_count_as_processed(
    disk: Disk, here: Any, printable: list[tuple[float, int]]
) -> None:
    for name in ("a.npy", "b.npy"):
        disk.put(name, NPY + bytes(10 * MB))
    assert here()[0] == 0
    disk.put("c.npy", NPY + bytes(20 * MB - len(NPY)))
    printable.clear()
    assert here("--limit-mb-s", "20")[0] == 0
    inside = [fraction for fraction, read in printable if fraction > 0 and 0 < read < 20 * MB]
    assert inside
    assert min(inside) > 0.5
