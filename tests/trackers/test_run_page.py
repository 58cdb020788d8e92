"""What a run's page says of CodeCarbon."""

from django.test import Client

from apps.dashboard.formatting import exact
from apps.dashboard.runs.run_page import tracker_panels
from apps.runs.models import Run
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.dashboard.support import assert_each_figure_explains_itself, queries, text_of
from tests.trackers.support import Tracker, tracker, work


def _page(lab: SmallLab, run: Run) -> str:
    client = Client()
    client.force_login(lab.owner)
    page = text_of(client.get(f"/runs/{run.uuid}/"))
    assert_each_figure_explains_itself(client, page)
    return page


def _run(cc: Tracker) -> Run:
    cc.emit(cc.begin(), at_us=T0 + 2 * MINUTE, duration=120, gpu=0.01)
    work()
    return Run.objects.latest("pk")


def test_reported_amounts_are_shown_beside_the_counted_ones(lab: SmallLab) -> None:
    page = _page(lab, _run(tracker(lab)))
    assert 'data-tracker="codecarbon"' in page
    assert 'data-warning="node-unknown"' in page
    (panel,) = tracker_panels(Run.objects.get())
    amounts = [row.amount.exact for row in panel.rows if row.amount]
    assert amounts == [exact(36_000_000, "energy_mj"), exact(4_000_000, "emission_ug")]
    for amount in amounts:
        assert f'title="{amount} exactly"' in page


def test_energy_that_a_collector_measured_is_excluded(lab: SmallLab) -> None:
    cc = tracker(lab, node=lab.node)
    push(lab.node, [W("gpu:GPU-1", 1_000_000, start_us=T0, end_us=T0 + MINUTE)])
    page = _page(lab, _run(cc))
    (panel,) = tracker_panels(Run.objects.get())
    excluded = panel.rows[-1].amount
    assert excluded is not None
    assert len([row for row in panel.rows if row.amount]) == 3
    assert f'title="{excluded.exact} exactly"' in page
    assert "data-warning" not in page


def test_a_second_rank_is_a_warning(lab: SmallLab) -> None:
    cc = tracker(lab, node=lab.node)
    runs = [cc.begin(), cc.begin()]
    for turn in (1, 2):
        for run in runs:
            cc.emit(run, at_us=T0 + turn * MINUTE, duration=60, gpu=0.01)
    work()
    run_here, other = Run.objects.order_by("-pk")[:2]
    page = _page(lab, run_here)
    assert page.count('data-warning="shared-node"') == 1
    assert f'href="/runs/{other.uuid}/"' in page


def test_a_run_of_a_collector_has_no_panel(lab: SmallLab) -> None:
    run = Run.objects.create(
        lab=lab.lab, uuid="0b6f0c1e-1111-4222-8333-444455556667", name="x", started_us=T0
    )
    assert "data-tracker" not in _page(lab, run)


def test_queries_do_not_grow_with_messages(lab: SmallLab) -> None:
    cc = tracker(lab)
    run = _run(cc)
    client = Client()
    client.force_login(lab.owner)
    few = queries(client, f"/runs/{run.uuid}/")
    for turn in range(2, 8):
        cc.emit(str(run.uuid), at_us=T0 + turn * 2 * MINUTE, duration=120, gpu=0.01)
    work()
    assert queries(client, f"/runs/{run.uuid}/") == few
