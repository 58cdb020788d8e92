"""Peak performance and form factors of cards: the shipped tables, by catalogue name."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from apps.catalog.matching import match_key
from apps.replacement.payback import Known, work_ratio

DATA = Path(__file__).parent / "data" / "performance.csv"
FORM_FACTORS = DATA.with_name("form_factors.csv")
MEASURES = {
    "tensor": "dense FP16 tensor peak",
    "fp32": "FP32 peak",
    "bandwidth": "memory bandwidth",
}


@dataclass(frozen=True)
class Performance:
    """Peak figures of a card; None: not known. ``fp32`` and ``tensor`` in GFLOP/s, ``bandwidth``
    in MB/s.
    """

    name: str
    tensor: int | None
    fp32: int | None
    bandwidth: int | None
    source: str
    licence: str


@cache
def _table() -> dict[str, Performance]:
    with DATA.open(newline="", encoding="utf-8") as file:
        return {match_key(row["name"]): _row(row) for row in csv.DictReader(file)}


def _row(row: dict[str, str]) -> Performance:
    def number(name: str) -> int | None:
        return int(row[name]) if row[name] else None

    return Performance(
        row["name"],
        number("tensor_gflops"),
        number("fp32_gflops"),
        number("bandwidth_mbs"),
        row["source"],
        row["licence"],
    )


def performance_of(name: str) -> Performance | None:
    """Return the peak figures of a model, or None. Only exact names count."""
    return _table().get(match_key(name))


@cache
def _form_factors() -> dict[str, str]:
    with FORM_FACTORS.open(newline="", encoding="utf-8") as file:
        return {match_key(row["name"]): row["form_factor"] for row in csv.DictReader(file)}


def form_factor_of(name: str) -> str:
    """Return the form factor of a model, or '' if it is unknown. Only exact names count."""
    return _form_factors().get(match_key(name), "")


def measures_of(old: Performance | None, new: Performance | None) -> list[str]:
    """Return the measures known for both."""
    if old is None or new is None:
        return []
    return [name for name in MEASURES if getattr(old, name) and getattr(new, name)]


def ratio_of(old: Performance, new: Performance, by: str) -> Known | None:
    """Return the work ratio by one measure, or ('') by the mean of all known ones.

    The others bound it.
    """
    names = measures_of(old, new)
    if by and by not in names:
        return None
    pairs = [(getattr(old, name), getattr(new, name)) for name in names]
    return work_ratio(pairs, names.index(by) if by else None)
