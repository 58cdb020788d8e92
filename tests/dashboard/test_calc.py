"""How numbers read, and how sure they are."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.units import ENERGY
from apps.dashboard.formatting import (
    Part,
    Range,
    duration,
    exact,
    format_value,
    grouped,
    percent,
    shares,
    significant,
    uncertainty,
    unit_for,
)

THIN = "\u202f"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0", "0"),
        ("1.2345", "1.23"),
        ("12.345", "12.3"),
        ("123.45", "123"),
        ("999.6", f"1{THIN}000"),
        ("4212", f"4{THIN}212"),
        ("9.999", "10.0"),
        ("99.99", "100"),
        ("0.01234", "0.0123"),
        ("0.0009", f"<{THIN}0.001"),
        ("-1.5", "−1.50"),
        ("0.001", "0.00100"),
        ("-0.0001", f">{THIN}−0.001"),
    ],
)
def test_three_significant_digits(value: str, text: str) -> None:
    assert significant(Decimal(value)) == text


@given(st.integers(min_value=1, max_value=10**24))
def test_a_number_is_never_off_by_more_than_half_of_its_last_digit(millis: int) -> None:
    value = Decimal(millis) / 1000
    text = significant(value)
    if text.startswith("<"):
        return
    told = Decimal(text.replace(THIN, ""))
    allowed = Decimal("0.5") if value >= 100 else value * Decimal("0.0051")
    assert abs(told - value) <= allowed


@pytest.mark.parametrize(("mj", "column", "unit"), [
    (0, False, "Wh"), (3_599_999, False, "Wh"), (3_600_000, False, "Wh"),
    (3_598_199_999, False, "Wh"), (3_599_999_999, False, "kWh"),
    (3_600_000_000, False, "kWh"), (3_600_000_000_000, False, "MWh"),
    (3_600_000_000, True, "Wh"), (36_000_000_000, True, "kWh"), (3_600_000_000_000, True, "kWh"),
])  # fmt: skip
def test_the_unit_suits_the_largest(mj: int, column: bool, unit: str) -> None:
    assert unit_for("energy_mj", [1, mj], column=column).name == unit


def test_the_unit_of_nothing_is_the_usual_one() -> None:
    assert (unit_for("energy_mj", []).name, unit_for("emission_ug", [], column=True).name) == (
        "kWh",
        "kg CO₂e",
    )


def test_units_and_exact() -> None:
    assert format_value(4_986_000_000_000, ENERGY[1]) == f"1{THIN}385"
    assert exact(318_577_700_000, "emission_ug") == f"318{THIN}577{THIN}700{THIN}000 µg CO₂e"
    assert grouped(-1234) == f"−1{THIN}234"


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 10, "0"),
        (10, 10, "100"),
        (0, 0, "–"),
        (964, 1000, "96.4"),
        (21, 1000, "2.1"),
        (145, 1000, "15"),
        (1, 10**9, f"<{THIN}0.1"),
        (10**9 - 1, 10**9, f">{THIN}99.9"),
        (20, 1000, "2.0"),
        (200, 1000, "20"),
    ],
)
def test_percent(part: int, whole: int, text: str) -> None:
    assert percent(part, whole) == text


def test_duration() -> None:
    assert duration(11_520_000_000) == f"3{THIN}h 12{THIN}min"
    assert duration(2_693_000_000) == f"44{THIN}min"
    assert duration(69_000_000) == f"1{THIN}min 9{THIN}s"
    assert duration(0) == f"0{THIN}s"


def test_shares_of_a_bar() -> None:
    assert shares({"a": 1, "b": 3}) == {"a": Decimal("25.0"), "b": Decimal("75.0")}
    assert shares({"a": 0}) == {"a": Decimal(0)}


def test_errors_of_one_source_add_and_of_two_combine_in_quadrature() -> None:
    # One meter of 5 %, split over two factors: its error is that of the sum.
    assert uncertainty([Part(600, "COUNTER"), Part(400, "COUNTER")]) == Range(950, 1050)
    # Meter 5 % of 1000 = 50, factor 12 % of 1000 = 120: the root of 50² + 120² is 130.
    both = [Part(1000, "COUNTER", factor=1, factor_low_ppm=120_000, factor_high_ppm=120_000)]
    assert uncertainty(both) == Range(870, 1130)
    assert uncertainty([Part(1000, "OVERHEAD")]) == Range(700, 1600)
    assert uncertainty([Part(1000, "DECLARED")]) == Range(600, 1400)
    stated = [Part(1000, "DECLARED", meter_ppm=(10_000, 20_000))]
    assert uncertainty(stated) == Range(990, 1020)
    assert uncertainty([]) == Range(0, 0)
