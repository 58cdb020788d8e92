"""Cells of a list that can be read two ways, or not at all, are refused and never guessed."""

import pytest

from apps.assets.spreadsheets import cells
from apps.core.errors import InvalidInput
from apps.core.spreadsheets.days import day_of
from apps.core.spreadsheets.notation import notation_of


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("1'234.50", "1234.5"), ("1 234 567,89 kr", "1234567.89"), ("CHF 1’234.--", "1234"),
        ("EUR 12,50", "12.5"), ("1234,5 €/Stk", "1234.5"), ("12.345.678,90", "12345678.9"),
        ("1500.00 $ each", "1500"), ("1234,-", "1234"), ("0,00", "0"),
    ],
)  # fmt: skip
def test_amounts(text: str, price: str) -> None:
    assert cells.price_of(text, "price", strict=False) == int(float(price) * 1_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "1.5k", "3 Mio", "1e3", "12 (2 pcs à 6)", "1.234.56", "1,23,456.00", "-5", "12,50-", "n/a",
        "1.500", "10 %",
    ],
)  # fmt: skip
def test_amounts_that_are_not_one_number_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        cells.price_of(text, "price", strict=False)


@pytest.mark.parametrize("text", ["1.000", "2,000"])
def test_a_quantity_of_one_or_a_thousand_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        cells.quantity_of(text)


def test_a_negative_capacity_is_refused() -> None:
    with pytest.raises(InvalidInput):
        cells.capacity_of("-1", "capacity_tb", "TB")


def test_a_day_that_can_begin_with_its_year_is_asked_for() -> None:
    assert notation_of(["23-04-13", "22-12-24"], []).date_example == "23-04-13"
    with pytest.raises(InvalidInput):
        day_of("23-04-13", "bought_on")
    assert day_of("23-04-13", "bought_on", "dmy").isoformat() == "2013-04-23"
    assert day_of("23-04-99", "bought_on").isoformat() == "1999-04-23"
    assert notation_of(["23-04-13", "25-04-99"], []).date_order == "dmy"
