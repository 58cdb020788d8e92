"""How bytes and the chance of reuse are said."""

from fractions import Fraction

import pytest

from apps.dashboard.artifacts.storage_cost import break_even_cell, break_even_sentence
from apps.dashboard.formatting import size


@pytest.mark.parametrize(
    ("number", "words"),
    [
    (0, "0 B"), (91, "91 B"), (999, "999 B"), (1000, "1.00 kB"), (91_234_567, "91.2 MB"),
    (999_999_999, "1 000 MB"), (2_400_000_000_000, "2.40 TB"), (2**63 - 1, "9.22 EB"),
],
)  # fmt: skip
def test_bytes(number: int, words: str) -> None:
    assert size(number).replace("\u202f", " ") == words


@pytest.mark.parametrize(
    ("chance", "words"),
    [
    (Fraction(1, 20), "above 5 % a year"), (Fraction(1), "above 100 % a year"),
    (Fraction(1, 5000), "only 0.1 % a year"), (Fraction(5, 2), "2.5 times the energy"),
    (Fraction(0), "no energy"),
],
)  # fmt: skip
def test_when_keeping_pays(chance: Fraction, words: str) -> None:
    assert words in break_even_sentence(chance)


@pytest.mark.parametrize(
    ("chance", "words"),
    [
    (Fraction(1, 20), "5 % a year"), (Fraction(1), "100 % a year"),
    (Fraction(1, 1000), "0.1 % a year"), (Fraction(1, 1001), "below 0.1 % a year"),
    (Fraction(5, 2), "never: 2.5 × retraining"), (Fraction(0), "always"),
],
)  # fmt: skip
def test_when_keeping_pays_in_a_table(chance: Fraction, words: str) -> None:
    assert break_even_cell(chance) == words
