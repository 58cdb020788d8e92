"""Plotly's classes accept the charts that are written as JSON."""

import plotly.graph_objects as go
import pytest

from apps.dashboard.charts import Series, stacked


@pytest.mark.parametrize("unknown", [[None, 0.0], [0.25, None]])
@pytest.mark.parametrize("running", [None, 1])
def test_plotly_accepts_stacked_bars(unknown: list[float | None], running: int | None) -> None:
    chart = stacked(
        name="energy",
        summary="",
        labels=["1 Nov", "2 Nov"],
        full_labels=["1 November", "2 <November>"],
        edges=["2026-11-01T00:00Z", "2026-11-02T00:00Z", "2026-11-03T00:00Z"],
        unit="kWh",
        series=[
            Series("vision", "s1", "COUNTER", "/projects/vision/", [1.0, 2.0]),
            Series("Idle", "s-idle", "SAMPLED", "/nodes/", [0.5, 0.0]),
            Series("Unattributed", "s-unattributed", "MODELLED", "/unattributed/", [0.0, 0.1]),
        ],
        unknown=unknown,
        running=running,
    )
    figure = go.Figure(chart.json)
    assert [bar.type for bar in figure.data] == ["bar"] * (5 if unknown[0] else 3)
    assert figure.data[0].customdata[1] == "2 &lt;November&gt;"
    assert len(figure.layout.shapes) == (running is not None)
    assert ("yaxis2" in figure.layout) == bool(unknown[0])
    with pytest.raises(ValueError, match="colour"):
        go.Figure({"data": [{"type": "bar", "colour": "red"}]})
