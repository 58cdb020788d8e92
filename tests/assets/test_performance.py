"""The shipped peak figures: each row has source and licence, names a card of the catalogue, and
nothing share-alike.
"""

import csv

from apps.catalog.selectors import DATA as CATALOGUE
from apps.replacement.performance import (
    DATA,
    FORM_FACTORS,
    MEASURES,
    form_factor_of,
    performance_of,
)


def _rows() -> list[dict[str, str]]:
    with DATA.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_each_figure_has_a_source_and_a_licence_that_binds_nobody() -> None:
    for row in _rows():
        assert row["source"], row
        assert row["licence"] == "MIT", row
        assert any(row[column] for column in ("fp32_gflops", "tensor_gflops", "bandwidth_mbs")), row


def test_names_are_those_of_the_catalogue_each_once() -> None:
    names = [row["name"] for row in _rows()]
    with (CATALOGUE / "gpu.csv").open(newline="", encoding="utf-8") as file:
        known = {row["name"] for row in csv.DictReader(file)}
    assert set(names) <= known
    assert len(names) == len(set(names))


def test_peaks_are_where_they_should_be() -> None:
    """A100: 312 TFLOP/s by the maker's data sheet; 432 cores × 256 × 2 × 1.41 GHz."""
    a100 = performance_of("nvidia a100 sxm4 80gb")
    assert a100 is not None
    assert a100.tensor is not None
    assert abs(a100.tensor - 312_000) < 1_000
    assert (a100.fp32, a100.bandwidth) == (19_490, 2_040_000)
    old = performance_of("GeForce GTX 1080 Ti")
    assert old is not None
    assert old.tensor is None
    assert performance_of("GeForce GTX 1080 Ti no. 2") is None
    assert set(MEASURES) == {"tensor", "fp32", "bandwidth"}
    for row in _rows():
        numbers = [
            int(row[name])
            for name in ("fp32_gflops", "tensor_gflops", "bandwidth_mbs")
            if row[name]
        ]
        assert all(1_000 <= number <= 20_000_000 for number in numbers), row


def test_form_factors_are_of_catalogue_names_each_once_with_a_source() -> None:
    with FORM_FACTORS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with (CATALOGUE / "gpu.csv").open(newline="", encoding="utf-8") as file:
        known = {row["name"] for row in csv.DictReader(file)}
    names = [row["name"] for row in rows]
    assert set(names) <= known
    assert len(names) == len(set(names))
    assert all(row["form_factor"] and row["source"] and row["licence"] for row in rows)
    assert form_factor_of("nvidia a100 sxm4 80gb") == "SXM4 module"
    assert form_factor_of("NVIDIA A100 80GB PCIe") == "PCIe card"
    assert form_factor_of("a card of the lab's own") == ""
