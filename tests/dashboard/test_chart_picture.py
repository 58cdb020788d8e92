"""The picture of a chart without JavaScript shows the values of its figure."""

import itertools
import re
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.units import US_PER_HOUR
from apps.dashboard.artifacts.storage_charts import BarSeries, stacked_bytes_chart
from apps.dashboard.chart_picture import FULL, Bar, Drawing
from apps.dashboard.charts import Chart, Series, metric_curve, stacked
from apps.dashboard.periods import Period
from apps.dashboard.runs.timeline import timeline
from tests.builders import MINUTE, T0


def bars_of(values: list[list[float]], unknown: list[float | None]) -> Chart:
    labels = [f"{at} Nov" for at in range(len(unknown))]
    return stacked(
        name="use",
        summary="",
        labels=labels,
        full_labels=labels,
        edges=[*labels, "end"],
        unit="kWh",
        series=[
            Series(f"p{at}", f"s{at + 1}", "COUNTER", "", row) for at, row in enumerate(values)
        ],
        unknown=unknown,
    )


def drawn(chart: Chart) -> Drawing:
    assert chart.drawing is not None
    return chart.drawing


rows = st.integers(1, 8).flatmap(
    lambda width: st.lists(
        st.lists(
            st.floats(0, 1e6).filter(lambda value: value == 0 or value > 1e-3),
            min_size=width,
            max_size=width,
        ),
        min_size=1,
        max_size=4,
    )
)


@given(rows)
def test_heights_are_proportional_and_stacked_without_overlap(values: list[list[float]]) -> None:
    chart = bars_of(values, [None] * len(values[0]))
    total = sum(map(sum, values))
    bars = drawn(chart).panels[0].bars
    if not total:
        assert bars == []
        return
    highest = max(map(sum, zip(*values, strict=True)))
    for at, column in enumerate(zip(*values, strict=True)):
        own = [bar for bar in bars if int(bar.x / FULL * len(values[0])) == at]
        assert len(own) == sum(1 for value in column if value)
        height = sum(bar.height for bar in own)
        assert height == pytest.approx(sum(column) / highest * FULL, abs=0.05 * len(column))
        for lower, upper in itertools.pairwise(own):
            assert upper.y + upper.height == pytest.approx(lower.y, abs=0.03)
        if own:
            assert own[0].y + own[0].height == pytest.approx(FULL, abs=0.03)


def test_unknown_time_is_hatched_in_a_strip_below() -> None:
    energy, time = drawn(bars_of([[1.0, 2.0]], [0.25, None])).panels
    assert (energy.top, time.top) == (0, 93)
    assert [bar.is_hatched for bar in time.bars] == [False, True]
    assert time.ticks == []
    assert [bar.height for bar in time.bars] == [750, 250]


def test_a_gap_in_readings_is_a_gap_of_the_line() -> None:
    windows = [
        {
            "start_us": T0 + minute * MINUTE, "end_us": T0 + (minute + 1) * MINUTE,
            "energy_mj": watts * 60_000, "util_mean_pm": None, "mem_max_mib": None,
        }
        for minute, watts in ((0, 100), (5, 300), (6, 200))
    ]  # fmt: skip
    period = Period(T0 // US_PER_HOUR, T0 // US_PER_HOUR + 1, ZoneInfo("UTC"))
    chart = timeline(run_name="r", by_device={"gpu": windows}, metric="", points=[], period=period)
    assert chart is not None
    (panel,) = drawn(chart).panels
    assert panel.title == "Power of this run"
    (line,) = [line for line in panel.lines if not line.is_marks]
    assert line.path == ("M0 666.67H142.86V666.67 M714.29 0H857.14V0H857.14V333.33H1000V333.33")
    assert timeline(run_name="r", by_device={}, metric="", points=[], period=period) is None


def test_no_value_is_no_picture() -> None:
    assert metric_curve(name="m", summary="", steps=[1, 2], values=[None, None]).drawing is None


def test_horizontal_bars_have_their_names_at_the_side() -> None:
    chart = stacked_bytes_chart(
        name="bytes",
        summary="",
        kinds=["models", "datasets"],
        projects=[BarSeries("demo", "s1", "", [3.0, 1.0])],
        unit="GB",
    )
    drawing = drawn(chart)
    assert drawing.is_horizontal
    assert [(tick.percent, tick.text) for tick in drawing.ticks] == [
        (75.0, "models"),
        (25.0, "datasets"),
    ]
    models, datasets = drawing.panels[0].bars
    assert models.y < datasets.y
    assert (models.width, round(datasets.width)) == (FULL, 333)


@given(
    st.floats(0, 900),
    st.floats(0, 900),
    st.floats(0.1, 100),
    st.floats(0.1, 100),
)
def test_hatching_stays_within_its_bar(x: float, y: float, width: float, height: float) -> None:
    bar = Bar(x, y, width, height, "#e69f00", is_hatched=True)
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", bar.hatching)]
    tolerance = 0.25  # one decimal in x is 0.05 × 2.7 in y
    assert all(x - tolerance <= number <= x + width + tolerance for number in numbers[::2])
    assert all(y - tolerance <= number <= y + height + tolerance for number in numbers[1::2])
    assert numbers or height + 2.7 * width < 24


def test_idle_is_hatched_and_unattributed_an_outline() -> None:
    chart = stacked(
        name="c",
        summary="",
        labels=["a"],
        full_labels=["a"],
        edges=["2026-11-01T00:00Z", "2026-11-02T00:00Z"],
        unit="kWh",
        series=[
            Series("Idle", "s-idle", "MODELLED", "", [1]),
            Series("Unattributed", "s-unattributed", "COUNTER", "", [1]),
            Series("Vision", "s1", "COUNTER", "", [1]),
        ],
        unknown=[None],
    )
    assert chart.drawing
    idle, unattributed, vision = chart.drawing.panels[0].bars
    assert idle.is_hatched
    assert unattributed.outline
    assert not vision.is_hatched
    assert not vision.outline
