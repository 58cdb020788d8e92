"""Colours of series: the same in charts and in CSS, and visible on a card of either theme."""

import re
from pathlib import Path

import pytest

from apps.dashboard.charts import COLOUR_MARKS, GREY, SERIES
from tests.browser.test_line_contrast import luminance

TOKENS = (Path(__file__).parents[2] / "static/labcarbon/tokens.css").read_text()
CARDS = re.findall(r"--panel: (#[0-9a-f]{6})", TOKENS)
LEAST = 3.0  # WCAG 1.4.11
FILLS = {name: colour for name, colour in SERIES.items() if colour.startswith("#")}


def contrast(first: str, second: str) -> float:
    low, high = sorted(luminance(rgb(colour)) for colour in (first, second))
    return (high + 0.05) / (low + 0.05)


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))})"


@pytest.mark.parametrize("card", sorted(set(CARDS)))
def test_each_series_contrasts_with_a_card(card: str) -> None:
    colours = FILLS | {"s-unattributed": GREY}
    assert len(colours) == len(SERIES)
    low = {name: contrast(colour, card) for name, colour in colours.items()}
    assert {name: value for name, value in low.items() if value < LEAST} == {}


def test_css_and_charts_have_the_same_colours() -> None:
    declared = dict(re.findall(r"--(s[-a-z0-9]+): (#[0-9a-f]{6});", TOKENS))
    assert declared == FILLS
    assert COLOUR_MARKS["s-idle"]["pattern"]["fgcolor"] == FILLS["s-idle"]
    assert len(set(CARDS)) == 2
