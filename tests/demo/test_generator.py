"""The demo lab is the same for the same seed and hour, and its pages, API and ledger agree."""

from itertools import pairwise
from typing import Any

import pytest
from django.db.models import Sum

from apps.accounts.models import Lab
from apps.artifacts.models import Artifact, CleanupPlan
from apps.assets.models import Asset, EmbodiedCharge
from apps.carbon.figures.combined import group_figures
from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.energy.models import LedgerEntry
from apps.fleet.models import Device
from apps.fleet.selectors import nodes_in_use, silent_nodes
from apps.ingest.models import EnergyWindow, QuarantinedWindow
from apps.runs.choices import RunState
from apps.runs.models import Metric, Run
from labcarbon.demo.generator import generate, upload_recent
from labcarbon.demo.measurements import MINUTE_US, windows_of
from labcarbon.demo.plan import Calendar, machines, runs_of
from tests.properties.histories import undone
from tests.shipped_data import T0

NOW = T0 + 5 * US_PER_HOUR + 1_234_567
DAYS = 8


def _facts(lab: Lab) -> dict[str, Any]:
    return {
        "ledger": sorted(
            LedgerEntry.objects.filter(lab=lab).values_list(
                "device__key", "hour", "consumer__key", "energy_mj"
            ),
            key=str,
        ),
        "runs": list(
            Run.objects.filter(lab=lab)
            .order_by("uuid")
            .values_list("uuid", "name", "state", "started_us", "ended_us", "sweep")
        ),
        "metrics": list(
            Metric.objects.filter(run__lab=lab)
            .order_by("run__uuid", "name")
            .values_list("run__uuid", "count", "last_value")
        ),
        "charges": sorted(
            EmbodiedCharge.objects.filter(asset__lab=lab).values_list(
                "asset__name", "from_hour", "to_hour", "amount_ug"
            )
        ),
        "artifacts": list(
            Artifact.objects.filter(lab=lab).order_by("digest").values_list("digest", "bytes")
        ),
    }


@pytest.mark.django_db
def test_the_same_seed_gives_the_same_lab_and_its_sums_are_those_of_the_ledger() -> None:
    with undone():
        first = _facts(generate(now=NOW, days=DAYS, report=lambda text: None))
    lab = generate(now=NOW, days=DAYS, report=lambda text: None)
    assert _facts(lab) == first
    assert all(first.values())

    windows = EnergyWindow.objects.filter(device__lab=lab)
    assert not QuarantinedWindow.objects.exists()
    metered = LedgerEntry.objects.filter(lab=lab).exclude(device__key__startswith="host:")
    assert _sum(windows) == _sum(metered)

    begin, end = Calendar(NOW // US_PER_HOUR, DAYS).begin, NOW // US_PER_HOUR + 1
    query = FigureQuery(metric="energy_mj", from_hour=begin, to_hour=end)
    total = figure(lab, query).value("energy_mj")
    assert total == _sum(LedgerEntry.objects.filter(lab=lab))
    for group in ("project", "node", "device"):
        assert sum(group_figures(lab, query, group, NOW).values()) == total, group

    states = set(Run.objects.filter(lab=lab).values_list("state", flat=True))
    assert "finished" in states
    assert CleanupPlan.objects.filter(lab=lab).count() == 1
    assert Asset.objects.filter(lab=lab).count() == 4 + 8 + 2
    _assert_uploads_go_on(lab)


def _sum(rows: Any) -> int:
    return int(rows.aggregate(total=Sum("energy_mj"))["total"])


def _assert_uploads_go_on(lab: Lab) -> None:
    """What a running demo uploads later joins on to what there is, and one node remains silent."""
    calendar = Calendar(NOW // US_PER_HOUR, DAYS)
    minute = NOW // MINUTE_US * MINUTE_US
    assert upload_recent(calendar=calendar, now=NOW, seed=1, multiplier=1) == 0
    assert upload_recent(calendar=calendar, now=minute + MINUTE_US, seed=1, multiplier=1) == 10
    run_until_idle(worker="test")
    later = minute + 7 * US_PER_HOUR
    assert upload_recent(calendar=calendar, now=later, seed=1, multiplier=1) > 0
    assert upload_recent(calendar=calendar, now=later, seed=1, multiplier=1) == 0
    run_until_idle(worker="test")

    assert not QuarantinedWindow.objects.exists()
    assert [node.hostname for node in silent_nodes(lab, later + MINUTE_US)] == ["ws-02"]
    for device in Device.objects.filter(node__in=nodes_in_use(lab).exclude(hostname="ws-02")):
        spans = EnergyWindow.objects.filter(device=device, end_us__gt=NOW - US_PER_HOUR)
        rows = list(spans.order_by("start_us").values_list("start_us", "end_us"))
        assert all(one[1] == next_[0] for one, next_ in pairwise(rows)), device
        assert not rows or rows[-1][1] == later
    windows = EnergyWindow.objects.filter(device__lab=lab)
    metered = LedgerEntry.objects.filter(lab=lab).exclude(device__key__startswith="host:")
    assert _sum(windows) == _sum(metered)
    running = Run.objects.filter(lab=lab, state=RunState.RUNNING)
    ended = Run.objects.filter(lab=lab, ended_us__gt=NOW)
    assert running.exists()
    assert ended.exists()
    assert all(run.ended_us <= later for run in ended)


def test_a_later_hour_of_the_day_only_adds_windows() -> None:
    early, late = NOW // US_PER_HOUR, NOW // US_PER_HOUR + 3
    kept = []
    for now_hour in (early, late):
        found = []
        for machine in machines(1, Calendar(now_hour), 1):
            work = runs_of(machine, 1, now_hour)
            found += [
                window
                for window in windows_of(machine, work, 1, now_hour * US_PER_HOUR)
                if window.end_us <= early * US_PER_HOUR
            ]
        kept.append(found)
    assert kept[0] == kept[1]
    assert len({window.card.key for window in kept[0]}) == 12


def test_another_seed_gives_another_lab_and_the_multiplier_more_machines() -> None:
    calendar = Calendar(NOW // US_PER_HOUR)
    one, other = machines(1, calendar, 1), machines(2, calendar, 1)
    assert {machine.uuid for machine in one}.isdisjoint(machine.uuid for machine in other)
    many = machines(1, calendar, 3)
    assert many[:4] == one
    assert len({machine.uuid for machine in many}) == len({each.name for each in many}) == 12


def test_runs_end_in_every_way_and_shares_are_the_energy_of_their_window() -> None:
    now_hour = NOW // US_PER_HOUR
    outcomes = set()
    for machine in machines(1, Calendar(now_hour), 1):
        work = runs_of(machine, 1, now_hour)
        outcomes |= {run.outcome for run in work}
        for window in windows_of(machine, work, 1, NOW):
            assert sum(mj for _, mj in window.shares) == window.energy_mj
            assert all(mj >= 0 for _, mj in window.shares)
    assert outcomes == {"finished", "failed", "killed"}
