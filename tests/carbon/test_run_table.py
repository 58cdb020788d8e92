"""The table of runs: order, sums and groups are those of the ledger, whatever is rolled up."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.db.models import F, Value
from django.db.models.functions import Coalesce
from django.test.utils import CaptureQueriesContext

from apps.carbon.figures.energy import Figure, figures_of_runs
from apps.carbon.figures.run_table import RunTable, hours_of_runs, run_table
from apps.carbon.figures.run_table_query import TableQuery
from apps.carbon.models import RunTotal
from apps.carbon.rollups import writer
from apps.core.units import US_PER_HOUR
from apps.runs.models import Run
from apps.runs.services.runs import RunFacts, put_run
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab

DAY = 24 * US_PER_HOUR
DURATION = F("ended_us") - F("started_us")
ENERGIES_MJ = (5_000, None, 9_000, 7_000, None, 9_000)  # None: not measured


@pytest.fixture
def small(db: None) -> SmallLab:
    return small_lab()


def make_runs(small: SmallLab) -> list[UUID]:
    """Create runs of ENERGIES_MJ that begin an hour after each other, on two days."""
    uuids = [uuid4() for _ in ENERGIES_MJ]
    windows = []
    for i, (uuid, energy_mj) in enumerate(zip(uuids, ENERGIES_MJ, strict=True)):
        start_us = T0 + i * 7 * US_PER_HOUR
        facts = RunFacts(
            name=f"run {i}", started_us=start_us, project="demo", node_uuid=small.node.uuid
        )
        put_run(lab=small.lab, uuid=uuid, facts=facts, by=small.owner, bound_node=None)
        Run.objects.filter(uuid=uuid).update(
            state="finished", ended_us=start_us + (i + 1) * MINUTE, sweep=("", "lr")[i % 2]
        )
        if energy_mj:
            share = ((f"run:{uuid}", energy_mj),)
            windows.append(W("gpu:GPU-1", energy_mj, start_us, start_us + MINUTE, i, shares=share))
    push(small.node, windows)
    return uuids


def table(small: SmallLab, **options: Any) -> RunTable:
    query = TableQuery(**{"sort": "energy", "duration": DURATION, **options})
    return run_table(small.lab, small.lab.runs.all(), query)


def names(found: RunTable) -> list[str]:
    by_pk = Run.objects.in_bulk([row.run_id for row in found.rows])
    return [by_pk[row.run_id].name.removeprefix("run ") for row in found.rows]


@pytest.mark.parametrize("is_rolled", [False, True])
def test_unknown_energy_is_last_in_both_directions(small: SmallLab, is_rolled: bool) -> None:
    make_runs(small)
    if is_rolled:
        assert writer.roll_up(lab=small.lab, now=T0 + 5 * DAY)
        assert RunTotal.objects.count() == 4
    assert names(table(small)) == ["5", "2", "3", "0", "4", "1"]
    assert names(table(small, descending=False)) == ["0", "3", "5", "2", "4", "1"]
    assert names(table(small, sort="emission")) == ["5", "2", "3", "0", "4", "1"]
    assert names(table(small, sort=F("started_us"), descending=False)) == list("012345")
    assert [row.figure is None for row in table(small).rows] == [False] * 4 + [True] * 2


@pytest.mark.parametrize("is_rolled", [False, True])
def test_figures_and_sums_are_those_of_the_ledger(small: SmallLab, is_rolled: bool) -> None:
    uuids = make_runs(small)
    if is_rolled:
        assert writer.roll_up(lab=small.lab, now=T0 + DAY)  # the second day is read live
    figures = figures_of_runs(small.lab, uuids)
    found = table(small, limit=2, offset=1)
    assert names(found) == ["2", "3"]
    pks = dict(Run.objects.values_list("pk", "uuid"))
    assert [row.figure for row in found.rows] == [figures[pks[row.run_id]] for row in found.rows]
    assert found.total.figure == sum(figures.values(), Figure())
    assert found.total.figure.energy_mj == 30_000
    assert (found.total.runs, found.total.measured, found.total.unmeasured) == (6, 4, 2)
    assert found.total.duration_us == 21 * MINUTE


def test_groups_sum_to_the_total_and_open_ones_have_rows(small: SmallLab) -> None:
    make_runs(small)
    group = Coalesce(F("sweep"), Value(""))
    found = table(small, group=group, open_groups=["lr"], group_rows=2)
    assert {key: sums.figure.energy_mj for key, sums in found.groups.items()} == {
        "lr": 16_000,
        "": 14_000,
    }
    assert list(found.groups) == ["lr", ""]
    assert list(table(small, group=group, descending=False).groups) == ["lr", ""]
    assert names(found) == ["5", "3"]
    assert sum((sums.figure for sums in found.groups.values()), Figure()) == found.total.figure
    assert table(small, group=group, limit=1, offset=1).groups.keys() == {""}


def test_a_period_limits_the_energy_of_runs(small: SmallLab) -> None:
    make_runs(small)
    first = T0 // US_PER_HOUR
    found = table(small, hours=(first, first + 8))
    assert found.total.figure.energy_mj == 5_000
    assert found.total.measured == 1


def test_a_late_window_changes_the_sum_of_a_rolled_run_at_once(small: SmallLab) -> None:
    uuid = make_runs(small)[0]
    assert writer.roll_up(lab=small.lab, now=T0 + 5 * DAY)
    share = ((f"run:{uuid}", 100_000),)
    push(small.node, [W("gpu:GPU-1", 100_000, T0 + MINUTE, T0 + 2 * MINUTE, 90, shares=share)])
    late = table(small)
    assert names(late)[0] == "0"
    assert late.total.figure.energy_mj == 130_000
    assert writer.roll_up(lab=small.lab, now=T0 + 5 * DAY)
    assert table(small) == late
    assert RunTotal.objects.get(run_uuid=uuid).energy_mj == 105_000


def test_emissions_without_a_factor_are_unknown_and_last(db: None) -> None:
    small = small_lab(zone="")
    make_runs(small)
    found = table(small, sort="emission")
    assert names(found) == list("543210")
    assert found.total.without_factor == 4


def test_a_filter_without_a_match_is_empty(small: SmallLab) -> None:
    query = TableQuery(sort="energy", duration=DURATION)
    assert run_table(small.lab, small.lab.runs.none(), query).total.runs == 0
    assert table(small).total.runs == 0


def test_one_query_for_any_number_of_runs(small: SmallLab) -> None:
    uuids = make_runs(small)
    with CaptureQueriesContext(connection) as captured:
        table(small, group=Coalesce(F("sweep"), Value("")), open_groups=["lr", ""])
        hours = hours_of_runs(small.lab, uuids)
    assert len(captured) == 2
    assert hours[uuids[0]] == (T0 // US_PER_HOUR, T0 // US_PER_HOUR + 1)
    assert uuids[1] not in hours


@pytest.mark.parametrize("is_rolled", [False, True])
@pytest.mark.parametrize("hours", [None, (T0 // US_PER_HOUR, T0 // US_PER_HOUR + 30)])
def test_parts_of_a_table_are_those_of_the_whole(
    small: SmallLab, is_rolled: bool, hours: tuple[int, int] | None
) -> None:
    """Without costs, without sums, without rows, and of very few runs: the same figures."""
    make_runs(small)
    if is_rolled:
        assert writer.roll_up(lab=small.lab, now=T0 + DAY)  # the second day is read live
    whole = table(small, hours=hours)
    rows = table(small, hours=hours, with_sums=False)
    assert (rows.total, rows.rows) == (None, whole.rows)
    sums = table(small, hours=hours, with_rows=False)
    assert (sums.total, sums.rows) == (whole.total, [])
    assert table(small, hours=hours, number=6) == whole
    cheap = table(small, hours=hours, with_costs=False)
    for row, expected in zip(cheap.rows, whole.rows, strict=True):
        if expected.figure is None:
            assert row == expected
            continue
        assert row.figure is not None
        assert row.figure.energy_mj == expected.figure.energy_mj
        assert row.figure.emission_ug == expected.figure.emission_ug
        assert row.figure.without_price_mj == row.figure.energy_mj  # unknown, not free
