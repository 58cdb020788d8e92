"""Lines of charts in dark colours: the server's picture, and the chart that replaces it."""

from collections.abc import Callable

import pytest

from apps.dashboard.charts import SERIES
from tests.browser.conftest import Served
from tests.browser.visit import Visit

LINES = tuple(SERIES[f"s{number}"] for number in range(1, 7))
# The colour of a line of each series, drawn by the server ('line') or by plotly.js ('js-line').
_STROKES = """([colours, by]) => {
  const rgb = hex => `rgb(${[1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16)).join(', ')})`;
  const frame = document.createElement('div');
  frame.className = by === 'line' ? 'drawing' : 'js-plotly-plot';
  frame.innerHTML = '<svg>' + colours.map(hex => by === 'line'
    ? `<path class="line" stroke="${hex}"/>`
    : `<path class="js-line" style="fill: none; stroke: ${rgb(hex)}; stroke-opacity: 1;"/>`).join('') + '</svg>';
  document.querySelector('.card').append(frame);
  const ground = getComputedStyle(document.querySelector('.card')).backgroundColor;
  return [ground, [...frame.querySelectorAll('path')].map(e => getComputedStyle(e).stroke)];
}"""  # noqa: E501


def luminance(colour: str) -> float:
    channels = [int(part) / 255 for part in colour[4:-1].split(",")]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("by", ["line", "js-line"])
@pytest.mark.parametrize("theme", ["preferred", "chosen"])
def test_lines_contrast_with_a_dark_ground(
    visit: Callable[..., Visit], served: Served, theme: str, by: str
) -> None:
    page = visit(color_scheme="dark" if theme == "preferred" else "light").go(
        f"/runs/{served.run}/"
    )
    if theme == "chosen":
        page.evaluate("document.documentElement.dataset.theme = 'dark'")
    ground, strokes = page.evaluate(_STROKES, [LINES, by])
    assert len(set(strokes)) == len(LINES)
    dark = luminance(ground)
    assert dark < 0.05
    contrasts = {stroke: (luminance(stroke) + 0.05) / (dark + 0.05) for stroke in strokes}
    assert {stroke: value for stroke, value in contrasts.items() if value < 3.5} == {}
