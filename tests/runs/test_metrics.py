"""Points and their summary: exact in whatever order they come, however often they are told."""

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from apps.runs.metric_parsing import Point, as_points
from apps.runs.models import Metric, MetricPoint
from apps.runs.services.metrics import add_points, curve
from tests.builders import small_lab
from tests.examples import examples
from tests.runs.fingerprints import a_run
from tests.shipped_data import T0

values = st.one_of(st.floats(width=32), st.integers(-3, 3).map(float))
requests = st.lists(
    st.lists(st.tuples(st.integers(0, 8), st.integers(T0, T0 + 5), values), min_size=1, max_size=6),
    min_size=1,
    max_size=5,
)


def deduped(told: list[Point]) -> list[Point]:
    """As the parser does: of one step told twice the last stays."""
    return list({point.step: point for point in told}.values())


class SummaryTests(TestCase):
    @given(requests)
    @settings(max_examples=examples(60))
    def test_the_summary_is_that_of_the_last_words(
        self, told: list[list[tuple[int, int, float]]]
    ) -> None:
        small = small_lab(name=f"Lab {uuid.uuid4().hex[:6]}")
        run = a_run(small.lab)
        last: dict[int, Point] = {}
        new = 0
        for request in told:
            points = deduped(as_points(request))
            last.update({point.step: point for point in points})
            new += add_points(
                lab=small.lab, uuid=run.uuid, points={"loss": points}, bound_node=None, now=None
            )
        metric = Metric.objects.get(run=run)
        finite = [point.value for point in last.values() if point.value is not None]
        assert curve(metric) == [last[step] for step in sorted(last)]
        assert (metric.count, new) == (len(last), len(last))
        assert (metric.last_step, metric.last_value) == (max(last), last[max(last)].value)
        assert (metric.min_value, metric.max_value) == (
            min(finite, default=None),
            max(finite, default=None),
        )


@pytest.mark.django_db
def test_told_again_changes_nothing() -> None:
    small = small_lab()
    run = a_run(small.lab)
    points = {
        "loss": as_points([(0, T0, 1.0), (1, T0, float("nan"))]),
        "acc": as_points([(0, T0, 0.5)]),
    }
    assert add_points(lab=small.lab, uuid=run.uuid, points=points, bound_node=None, now=None) == 3
    before = list(Metric.objects.values()), list(MetricPoint.objects.order_by("pk").values())
    assert add_points(lab=small.lab, uuid=run.uuid, points=points, bound_node=None, now=None) == 0
    assert (
        list(Metric.objects.values()),
        list(MetricPoint.objects.order_by("pk").values()),
    ) == before
