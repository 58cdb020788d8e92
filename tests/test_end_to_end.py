"""One joule from a pushed window to a figure."""

import pytest

from apps.accounts.models import Project
from apps.carbon.figures.energy import entries, figure, figures_by
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.units import emission_ug
from apps.energy.models import LedgerEntry
from apps.energy.services.ledger import rebuild_ledger
from apps.ingest.models import EnergyWindow
from apps.runs.services.runs import RunFacts, put_run
from tests.builders import MINUTE, T0, W, push, small_lab

pytestmark = pytest.mark.django_db

RUN = "7f1d3b52-2222-4333-8444-555566667777"


def test_a_window_becomes_a_figure_and_can_be_followed_back() -> None:
    small = small_lab()
    from uuid import UUID

    put_run(
        lab=small.lab,
        uuid=UUID(RUN),
        facts=RunFacts(name="train.py", started_us=T0, project="demo"),
        by=small.owner,
        bound_node=None,
    )
    gpu = "gpu:GPU-0000-1111"
    answers = push(
        small.node,
        [
            W(gpu, 900_001, shares=((f"run:{RUN}", 600_001), ("idle", 300_000))),
            W(gpu, 50, start_us=T0 + MINUTE, end_us=T0 + 2 * MINUTE, seq=1),
        ],
    )
    assert answers == [["accepted"], ["accepted"]]
    hour = T0 // 3_600_000_000
    query = FigureQuery(metric="emission_ug", from_hour=hour, to_hour=hour + 1)
    whole = figure(small.lab, query)
    assert whole.energy_mj == 900_051
    demo = figure(small.lab, query.replace(subject_kind="project", subject_key="demo"))
    assert demo.energy_mj == 600_001
    assert demo.emission_ug == emission_ug(600_001, 1_000_000, 329_650_000)
    assert {
        key: part.energy_mj for key, part in figures_by(small.lab, query, ["charge"]).items()
    } == {
        ("demo",): 600_001,
        ("~idle",): 300_050,
    }
    listed = list(entries(small.lab, query))
    assert sum(row["emission_ug"] for row in listed) == whole.emission_ug
    assert Project.objects.filter(lab=small.lab, slug="demo").exists()


def test_replay_changes_nothing_and_rebuild_gives_the_same() -> None:
    small = small_lab()
    windows = [
        W("gpu:GPU-0000-1111", 7, start_us=T0 + i * MINUTE, end_us=T0 + (i + 1) * MINUTE, seq=i)
        for i in range(90)
    ]
    assert push(small.node, windows) == [["accepted"]] * 90
    before = sorted(LedgerEntry.objects.values_list("device", "hour", "consumer", "energy_mj"))
    assert push(small.node, windows) == [["duplicate"]] * 90
    rebuild_ledger(lab=small.lab)
    assert (
        sorted(LedgerEntry.objects.values_list("device", "hour", "consumer", "energy_mj")) == before
    )
    assert (
        sum(row[3] for row in before)
        == 7 * 90
        == sum(EnergyWindow.objects.values_list("energy_mj", flat=True))
    )


def test_a_window_over_hours_is_divided_and_marked_imputed() -> None:
    small = small_lab()
    push(small.node, [W("gpu:GPU-0000-1111", 10, end_us=T0 + 3 * 60 * MINUTE, flags=2)])
    rows = sorted(LedgerEntry.objects.values_list("hour", "energy_mj", "placement_quality"))
    assert [row[1:] for row in rows] == [(4, 2), (3, 2), (3, 2)]
