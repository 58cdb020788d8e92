"""How bytes and the chance of reuse are said."""

from fractions import Fraction

import pytest

from apps.dashboard.artifacts.storage_cost import break_even_cell, break_even_sentence
from apps.dashboard.formatting import size


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 B"), (91, "91 B"), (999, "999 B"), (1000, "1.00 kB"), (91_234_567, "91.2 MB"), (999_999_999, "1 000 MB"),
        (2_400_000_000_000, "2.40 TB"), (2**63 - 1, "9.22 EB"),
    ],
)  # fmt: skip
def test_bytes(number: int, words: str) -> None:
    assert size(number).replace("\u202f", " ") == words


@pytest.mark.parametrize(
    ("chance", "words"),
    [
        (Fraction(1, 20), "at least once in 20 years: a chance of 5 % a year"), (Fraction(1), "at least once a year:"),
        (Fraction(1, 5000), "even once in 1 000 years"), (Fraction(5, 2), "2.5 times the energy"), (Fraction(0), "nothing"),
    ],
)  # fmt: skip
def test_when_keeping_pays(chance: Fraction, words: str) -> None:
    assert words in break_even_sentence(chance)


@pytest.mark.parametrize(
    ("chance", "words"),
    [
        (Fraction(1, 20), "from 5 % a year"), (Fraction(1), "from 100 % a year"), (Fraction(1, 1000), "from 0.1 % a year"),
        (Fraction(1, 1001), "from below 0.1 % a year"), (Fraction(5, 2), "never: 2.5 × making it"),
        (Fraction(0), "always"),
    ],
)  # fmt: skip
def test_when_keeping_pays_in_a_table(chance: Fraction, words: str) -> None:
    assert break_even_cell(chance) == words
