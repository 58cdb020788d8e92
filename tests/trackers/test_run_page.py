"""What a run's page says of CodeCarbon."""

from django.test import Client

from apps.dashboard.formatting import exact
from apps.dashboard.runs.detail import codecarbon_details
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


def test_what_was_told_stands_beside_what_counts(lab: SmallLab) -> None:
    page = _page(lab, _run(tracker(lab)))
    for words in ("Told by CodeCarbon", "its PUE divided out", "by its factors; ours stands above", "names no machine"):
        assert words in page
    told = codecarbon_details(Run.objects.get())
    assert told is not None
    assert (told.energy.exact, told.superseded, told.bound) == (exact(36_000_000, "energy_mj"), None, False)
    assert told.carbon is not None
    assert told.carbon.exact == exact(4_000_000, "emission_ug")


def test_what_a_collector_measured_gives_way(lab: SmallLab) -> None:
    cc = tracker(lab, node=lab.node)
    push(lab.node, [W("gpu:GPU-1", 1_000_000, start_us=T0, end_us=T0 + MINUTE)])
    page = _page(lab, _run(cc))
    assert "a collector measured in the same minutes" in page
    assert "names no machine" not in page


def test_a_second_rank_is_named(lab: SmallLab) -> None:
    cc = tracker(lab, node=lab.node)
    runs = [cc.begin(), cc.begin()]
    for turn in (1, 2):
        for run in runs:
            cc.emit(run, at_us=T0 + turn * MINUTE, duration=60, gpu=0.01)
    work()
    assert "Most likely measured the same machine as" in _page(lab, Run.objects.latest("pk"))


def test_a_run_of_a_collector_says_nothing_of_it(lab: SmallLab) -> None:
    run = Run.objects.create(lab=lab.lab, uuid="0b6f0c1e-1111-4222-8333-444455556667", name="x", started_us=T0)
    assert "CodeCarbon" not in _page(lab, run)


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
