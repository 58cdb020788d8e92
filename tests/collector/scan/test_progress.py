"""How far a scan is: by folders, by the bytes of a folder's files, and within a large file."""

from __future__ import annotations

from typing import Any

import pytest
from labcarbon_collect.progress import Progress
from labcarbon_collect.scan.walk import Passed

from tests.collector.scan.support import NPY, Disk

MB = 1_000_000


def test_a_folder_counts_by_the_bytes_of_its_files() -> None:
    here = Passed(0.5, 0.2, size=100, passed=60)
    assert here.fraction(0) == pytest.approx(0.62)
    assert here.fraction(50) == pytest.approx(0.52)  # of what was passed is 50 still to be read
    assert here.fraction(90) == 0.5
    assert Passed(0.5, 0.2).fraction(0) == 0.5


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, int]]:
    """Each fraction and how many bytes were read, as they would be shown."""
    kept: list[tuple[float, int]] = []

    def show(self: Progress, rows: int, fraction: float, *, last: bool = False, read_bytes: int | None = None) -> None:
        assert read_bytes is not None
        kept.append((fraction, read_bytes))

    monkeypatch.setattr(Progress, "show", show)
    return kept


def test_within_a_large_file_it_goes_on(disk: Disk, here: Any, shown: list[tuple[float, int]]) -> None:
    with disk.put("a.npy", NPY).open("r+b") as file:
        file.truncate(40 * MB)
    assert here("--limit-mb-s", "40")[0] == 0
    between = sorted({read for _, read in shown if 0 < read < 40 * MB})
    assert len(between) >= 2
    assert all(fraction == pytest.approx(read / (40 * MB)) for fraction, read in shown[:-1] if 0 < read < 40 * MB)
    assert shown[-1] == (1.0, 40 * MB)


def test_it_never_goes_back_and_ends_with_all(disk: Disk, here: Any, shown: list[tuple[float, int]]) -> None:
    for name in ("large.npy", "sub/small.npy", "sub/deeper/large.npy", "other/small.npy"):
        with disk.put(name, NPY).open("r+b") as file:
            file.truncate(10 * MB if "large" in name else 1000)
    assert here("--limit-mb-s", "40")[0] == 0
    assert shown == sorted(shown)
    assert shown[-1] == (1.0, 20 * MB + 2000)
    assert any(0 < fraction < 1 for fraction, _ in shown)


def test_what_is_known_is_passed_at_once(disk: Disk, here: Any, shown: list[tuple[float, int]]) -> None:
    for name in ("a.npy", "b.npy"):
        disk.put(name, NPY + bytes(10 * MB))
    assert here()[0] == 0
    disk.put("c.npy", NPY + bytes(20 * MB - len(NPY)))
    shown.clear()
    assert here("--limit-mb-s", "20")[0] == 0
    inside = [fraction for fraction, read in shown if 0 < read < 20 * MB]
    assert inside
    assert min(inside) > 0.5
