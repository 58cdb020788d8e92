"""The timeline of a run: power, utilization, memory and a metric over one axis; its devices."""

import json
import re
from itertools import pairwise
from typing import Any

from django.test import Client

from apps.core.jobs import run_until_idle
from apps.runs.models import Metric, MetricPoint, Run
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.dashboard.support import gpu, queries, text_of, use


def _timeline(page: str) -> dict[str, Any]:
    found = re.search(
        r'<script id="run-timeline" type="application/json">(.*?)</script>', page, re.DOTALL
    )
    assert found
    figure: dict[str, Any] = json.loads(found[1])
    return figure


def _push(lab: SmallLab, shares: list[tuple[tuple[str, int], ...]], **reported: int | None) -> None:
    windows = [
        W(
            gpu(1), sum(mj for _, mj in part), start_us=T0 + (20 + i) * MINUTE,
            end_us=T0 + (21 + i) * MINUTE, seq=20 + i, shares=part, **reported,  # type: ignore[arg-type]
        )
        for i, part in enumerate(shares)
    ]  # fmt: skip
    push(lab.node, windows)
    run_until_idle(worker="test")


def test_what_is_unknown_has_no_panel(lab: SmallLab, owner: Client) -> None:
    uuid = use(lab)[0]
    page = text_of(owner.get(f"/runs/{uuid}/"))
    assert {trace["yaxis"] for trace in _timeline(page)["data"]} == {"y"}
    assert page.count("unknown") >= 4


def test_panels_share_one_time_axis(lab: SmallLab, owner: Client) -> None:
    uuid = use(lab)[0]
    key = (f"run:{uuid}", 6_000)
    reported = {"util_mean_pm": 800, "util_max_pm": 900, "mem_mean_mib": 1024, "mem_max_mib": 2048}
    _push(lab, [(key,), (key,), (key,)], **reported)
    run = Run.objects.get(uuid=uuid)
    metric = Metric.objects.create(
        run=run, name="val_loss", count=4, last_step=3, last_value=0.5, min_value=0.1, max_value=0.5
    )
    for step in range(4):
        at_us = T0 + (20 + step) * MINUTE + 1
        MetricPoint.objects.create(metric=metric, step=step, at_us=at_us, value=1 / (step + 1))
    page = text_of(owner.get(f"/runs/{uuid}/"))
    figure = _timeline(page)
    by_axis = {trace["yaxis"]: trace for trace in figure["data"]}
    assert set(by_axis) == {"y", "y2", "y3", "y4"}
    assert set(by_axis["y2"]["y"]) == {80.0}
    assert set(by_axis["y3"]["y"]) == {2.0}
    # The last value is after the last window.
    assert by_axis["y4"]["y"] == [1.0, 0.5, 1 / 3]
    domains = [figure["layout"][f"yaxis{i}"]["domain"] for i in ("", 2, 3, 4)]
    assert all(above[0] > below[1] for above, below in pairwise(domains))
    assert figure["layout"]["xaxis"]["anchor"] == "y4"
    assert page.count('class="title"') == 4
    assert 'class="chart panels-4"' in page


def test_a_metric_without_times_is_no_panel(lab: SmallLab, owner: Client) -> None:
    uuid = use(lab)[0]
    run = Run.objects.get(uuid=uuid)
    metric = Metric.objects.create(
        run=run, name="loss", count=2, last_step=1, last_value=0.5, min_value=0.1, max_value=0.5
    )
    for step in range(2):
        MetricPoint.objects.create(metric=metric, step=step, at_us=0, value=0.5)
    page = text_of(owner.get(f"/runs/{uuid}/"))
    assert {trace["yaxis"] for trace in _timeline(page)["data"]} == {"y"}
    assert 'id="run-metric"' in page


def test_a_shared_and_an_unused_device_are_named(lab: SmallLab, owner: Client) -> None:
    one, two = use(lab, runs=2)
    _push(
        lab,
        [((f"run:{one}", 3_000), (f"run:{two}", 3_000))],
        util_mean_pm=0, util_max_pm=0, mem_mean_mib=1024, mem_max_mib=1536,
    )  # fmt: skip
    page = text_of(owner.get(f"/runs/{one}/"))
    assert 'data-shared="1"' in page
    assert re.search(r"data-unused>\s*100 %", page)
    assert "1.0 / 1.5 GiB" in page


def test_the_page_needs_as_many_queries_for_any_number_of_windows(
    lab: SmallLab, owner: Client
) -> None:
    uuid = use(lab)[0]
    key = (f"run:{uuid}", 6_000)
    _push(lab, [(key,)], util_mean_pm=800, util_max_pm=900, mem_mean_mib=1, mem_max_mib=2)
    few = queries(owner, f"/runs/{uuid}/")
    windows = [
        W(
            gpu(i), 60_000, start_us=T0 + (30 + 60 * i) * MINUTE,
            end_us=T0 + (31 + 60 * i) * MINUTE, seq=100 + i, shares=((f"run:{uuid}", 60_000),),
            util_mean_pm=500,
        )
        for i in range(2, 6)
    ]  # fmt: skip
    push(lab.node, windows)
    run_until_idle(worker="test")
    assert queries(owner, f"/runs/{uuid}/") == few


def test_citation_and_link_are_those_of_the_run(lab: SmallLab, owner: Client) -> None:
    uuid = use(lab)[0]
    page = text_of(owner.get(f"/runs/{uuid}/"))
    citation = re.search(r'id="citation">(.*?)</p>', page, re.DOTALL)
    assert citation
    assert str(uuid) in citation[1]
    assert "location-based" in citation[1]
    assert f'id="address">http://testserver/runs/{uuid}/</span>' in page
