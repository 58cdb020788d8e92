"""Text of amounts against exact fractions: what it says is true, in order, and never 0 for more."""

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from labcarbon_collect import figure_text as collector

from apps.core import units as server

WH, G = 3_600_000, 1_000_000
ENERGY = {"J": 1000, "Wh": WH, "kWh": 1000 * WH, "MWh": 10**6 * WH}
MASS = {"g": G, "kg": 1000 * G, "t": 10**6 * G}
AMOUNTS = st.integers(0, 10**6) | st.integers(0, 10**12) | st.integers(0, 10**18)
EDGES = (0, 1, 99_999, 100_000, 359_999, 360_000, 3_598_199, 3_598_200, 3_598_201, 3_599_999,
         3_600_000, 3_598_200_000, 3_599_999_999, 3_600_000_000, 3_600_000_000_000)  # fmt: skip


def server_energy(value: int) -> str:
    return server.plain_amount(value, server.ENERGY)


def server_mass(value: int) -> str:
    return server.plain_amount(value, server.MASS)


def bounds(text: str, units: dict[str, int]) -> tuple[Fraction, Fraction]:
    """Return the lowest and highest amount that a text allows."""
    number, _, name = text.rpartition(" ")
    if number.startswith("< "):
        return Fraction(0), Fraction(number[2:]) * units[name]
    plain = number.replace(" ", "")
    half = Fraction(1, 2 * 10 ** len(plain.partition(".")[2])) if plain != "0" else Fraction(0)
    return (Fraction(plain) - half) * units[name], (Fraction(plain) + half) * units[name]


@pytest.mark.parametrize(
    ("text_of", "units"),
    [
        (server_energy, ENERGY),
        (server_mass, MASS),
        (server.window_energy_text, ENERGY),
        (collector.energy_text, ENERGY),
        (collector.window_energy_text, ENERGY),
        (lambda value: collector.emission_text(value).removesuffix(" CO2e"), MASS),
    ],
)
@given(value=AMOUNTS | st.sampled_from(EDGES))
def test_a_text_is_true_and_has_three_digits(text_of, units, value: int) -> None:  # type: ignore[no-untyped-def]
    text = text_of(value).replace(server.THIN, " ")
    low, high = bounds(text, units)
    assert low <= value <= high
    number, _, name = text.rpartition(" ")
    assert name in units
    assert (number == "0") == (value == 0)
    if number.startswith("<"):
        assert (number, name) in {("< 0.1", "Wh"), ("< 0.1", "g"), ("< 0.1", "J")}
    elif value and "." in number:
        assert len(number.replace(".", "").lstrip("0")) == 3
        assert (
            Fraction(1, 10 ** len(number.partition(".")[2])) * units[name] >= 1
        )  # no finer: mJ, µg
    elif value:
        assert len(number.replace(" ", "")) == 3 or name in ("MWh", "t")


@given(st.lists(AMOUNTS | st.sampled_from(EDGES), min_size=2, max_size=2))
def test_a_larger_amount_has_no_smaller_text(pair: list[int]) -> None:
    small, large = sorted(pair)
    assert bounds(server_energy(small), ENERGY)[0] <= bounds(server_energy(large), ENERGY)[1]
    assert sum(bounds(server_energy(small), ENERGY)) <= sum(bounds(server_energy(large), ENERGY))


@given(AMOUNTS | st.sampled_from(EDGES))
@example(999_500)
def test_collector_and_server_write_the_same(value: int) -> None:
    assert collector.energy_text(value) == server_energy(value)
    assert collector.emission_text(value) == f"{server_mass(value)} CO2e"
    assert collector.window_energy_text(value) == server.window_energy_text(value).replace(
        server.THIN, " "
    )


@given(st.integers(-(10**15), 10**15), st.sampled_from([*server.ENERGY, *server.MASS]))
def test_no_unit_shows_an_amount_as_zero(value: int, unit: server.Unit) -> None:
    """A column has one unit for all rows, also for the small and the negative."""
    text = server.format_value(value, unit)
    assert (text == "0") == (value == 0)
    if value < 0:
        assert server.format_value(-value, unit) == text.replace("−", "").replace(">", "<")


def test_joules_are_for_windows_below_a_tenth_of_a_watt_hour() -> None:
    texts = [server.window_energy_text(value) for value in (0, 99, 100, 16_500, 359_999, 360_000)]
    assert [text.replace(server.THIN, " ") for text in texts] == [
        "0 Wh", "< 0.1 J", "0.100 J", "16.5 J", "360 J", "0.100 Wh",
    ]  # fmt: skip


@given(st.integers(0, 10**12) | st.sampled_from([9_999, 10_000, 99_994_999, 99_995_000, 10**8]))
def test_money_is_true_to_the_hundredth_and_whole_from_100_on(ucurrency: int) -> None:
    unit = server.money_unit("EUR")
    text = server.format_value(ucurrency, unit).replace(server.THIN, " ")
    assert (text == "0") == (ucurrency == 0)
    if text.startswith("<"):
        assert (text, 0 < ucurrency < 10_000) == ("< 0.01", True)
        return
    low, high = bounds(f"{text} EUR", {"EUR": 1_000_000})
    assert low <= ucurrency <= high
    places = len(text.partition(".")[2])
    assert places == (0 if ucurrency == 0 or ucurrency >= 99_995_000 else 2)
