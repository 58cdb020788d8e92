"""Embodied carbon of cloud GPUs in a period: parts of adjacent periods sum to the whole."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.activity.embodied_shares import EmbodiedShare, embodied_share, part_of
from apps.activity.services import record_activity, withdraw_activity
from apps.core.clock import now_us
from apps.core.units import US_PER_HOUR
from tests.activity.support import DAY_US, draft
from tests.builders import T0, small_lab

GPUS = {
    "provider": "aws", "hours": 24, "utilization": 50, "gpus": 8, "gpu": "NVIDIA A100-SXM4-40GB",
}  # fmt: skip


@given(
    total=st.integers(0, 10**15),
    start=st.integers(0, 10**6),
    length=st.integers(1, 10**6),
    cuts=st.lists(st.integers(0, 3 * 10**6), max_size=8),
)
def test_parts_sum_to_the_whole(total: int, start: int, length: int, cuts: list[int]) -> None:
    span = start, start + length
    edges = sorted({0, 3 * 10**6, *cuts})
    parts = [part_of(total, span, (a, b)) for a, b in pairwise(edges)]
    assert sum(parts) == total
    for part, (a, b) in zip(parts, pairwise(edges), strict=True):
        overlap = max(0, min(b, span[1]) - max(a, span[0]))
        assert abs(part - Fraction(total * overlap, length)) <= 1


@pytest.mark.django_db
def test_shares_of_days_sum_to_the_activity() -> None:
    lab = small_lab()
    first, last = T0 // US_PER_HOUR, T0 // US_PER_HOUR + 24
    assert embodied_share(lab.lab, first, last) == EmbodiedShare(0, 0, 0, 0, 0)
    values = {"kind": "cloud_compute", "inputs": GPUS}
    activity, _ = record_activity(lab=lab.lab, draft=draft(**values), by=lab.owner, now=now_us())
    assert activity.embodied_ug
    assert activity.embodied_low_ug is not None
    assert activity.embodied_high_ug is not None
    whole = embodied_share(lab.lab, first, last)
    assert whole == EmbodiedShare(
        activity.embodied_ug, activity.embodied_low_ug, activity.embodied_high_ug, 1, 0
    )
    parts = [embodied_share(lab.lab, first + hour, first + hour + 7) for hour in range(0, 28, 7)]
    assert sum(part.value_ug for part in parts) == activity.embodied_ug
    later, _ = record_activity(
        lab=lab.lab,
        draft=draft(**values, start_us=T0 + DAY_US, end_us=T0 + 2 * DAY_US),
        by=lab.owner,
        now=now_us(),
    )
    assert embodied_share(lab.lab, first, last + 24).value_ug == 2 * activity.embodied_ug
    withdraw_activity(activity=later, reason="wrong", by=lab.owner, now=now_us())
    assert embodied_share(lab.lab, first, last + 24).value_ug == activity.embodied_ug
    other = small_lab()
    assert embodied_share(other.lab, first, last).activities == 0
