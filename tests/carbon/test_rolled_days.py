"""Rolled days: which are read, which are stale, and when they are summed again."""

from __future__ import annotations

import importlib
from collections import defaultdict
from threading import Event, Thread
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.db import connection, transaction
from django.db.models import F

from apps.accounts.models import Lab
from apps.accounts.services.labs import create_project
from apps.attribution.precedence import ConsumerSpan
from apps.attribution.services.rules import claim
from apps.carbon.choices import RollupKind
from apps.carbon.coverage import covered_by_day, covered_by_hour
from apps.carbon.figures.embodied import Embodied, embodied_by, embodied_in
from apps.carbon.figures.energy import (
    Figure,
    figure,
    figures_by,
    figures_of_lab,
)
from apps.carbon.figures.figure_query import FigureQuery
from apps.carbon.models import (
    ChargeDay,
    EmbodiedDay,
    LabDay,
    MeterDay,
    RolledDay,
    StaleSpan,
    UseDay,
)
from apps.carbon.rollups import reader, writer
from apps.carbon.services import apply_factors, declare_factor
from apps.core.clock import now_us
from apps.core.intervals import day_edges
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.core.units import US_PER_HOUR, hour_of
from apps.dashboard.figures import total
from apps.energy.services.idle import set_idle_policy
from apps.energy.services.ledger import rebuild_ledger
from apps.fleet.models import Device
from apps.ingest.models import Consumer, EnergyWindow
from apps.runs.services.runs import RunFacts, put_run
from tests.assets.support import bought
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.carbon.test_rolled_days_history import GROUPED, H0, HOURS, NOW, RUN

pytestmark = pytest.mark.django_db(transaction=True)


def rolled(small: SmallLab, *windows: tuple[int, int]) -> SmallLab:
    """Push (offset of an hour, mJ) of one user's program, and sum the days."""
    listed = [
        W("gpu:GPU-1", mj, at, at + MINUTE, i, (("proc:ann/python3", mj),), None, "nvml_power")
        for i, (at, mj) in enumerate(((H0 + offset) * US_PER_HOUR, mj) for offset, mj in windows)
    ]
    push(small.node, listed, received_us=NOW, sent_at=NOW)
    assert writer.roll_up(lab=small.lab, now=NOW)
    return small


def counted(lab: Lab, what: RollupKind = RollupKind.USE) -> set[int]:
    """Return the first hours of the rolled days that count."""
    spans = set(StaleSpan.objects.filter(lab=lab, what=what).values_list("from_hour", "to_hour"))
    rows = RolledDay.objects.filter(lab=lab, what=what, basis=lab.basis, time_zone=lab.time_zone)
    return {
        row.from_hour
        for row in rows
        if row.to_hour - row.from_hour > 1
        and not any(start < row.to_hour and end > row.from_hour for start, end in spans)
    }


def counted_hours(lab: Lab) -> set[int]:
    """Return the rolled hours of the current day that count."""
    stale = StaleSpan.objects.filter(lab=lab, what=RollupKind.USE)
    rows = RolledDay.objects.filter(lab=lab, what=RollupKind.USE, to_hour=F("from_hour") + 1)
    return {
        row.from_hour
        for row in rows
        if not stale.filter(from_hour__lt=row.to_hour, to_hour__gt=row.from_hour).exists()
    }


@pytest.fixture
def small() -> SmallLab:
    return small_lab()


def test_pages_read_days_and_not_the_ledger_below_them(small: SmallLab) -> None:
    """What was summed is what is shown: a row of a day that is changed by hand shows."""
    rolled(small, (3, 1_000), (30, 2_000))
    assert counted(small.lab) == {H0, H0 + 24, H0 + 48, H0 + 72}
    query = FigureQuery(metric="energy_mj", from_hour=H0, to_hour=H0 + HOURS)
    assert figure(small.lab, query).energy_mj == 3_000
    ChargeDay.objects.filter(energy_mj=1_000).update(energy_mj=1_001)
    assert figure(small.lab, query).energy_mj == 3_001
    UseDay.objects.filter(energy_mj=1_000).update(energy_mj=1_002)
    by_node = figures_by(small.lab, query, ["node"])
    assert [part.energy_mj for part in by_node.values()] == [3_002]
    assert figures_by(small.lab, query, ["stretch"]).keys() == {(H0,), (H0 + 24,)}
    assert figures_by(small.lab, query, ["hour"]).keys() == {(H0 + 3,), (H0 + 30,)}
    assert figure(small.lab, query.replace(from_hour=H0 + 1)).energy_mj == 3_000, (
        "a day that is cut is read from the ledger"
    )


def test_only_the_days_that_changed_are_read_from_the_ledger_until_they_are_summed_again(
    small: SmallLab,
) -> None:
    rolled(small, (3, 1_000), (30, 2_000), (60, 4_000))
    push(
        small.node,
        [W("gpu:GPU-2", 7, (H0 + 31) * US_PER_HOUR, (H0 + 31) * US_PER_HOUR + MINUTE)],
        sent_at=NOW,
    )
    assert counted(small.lab) == {H0, H0 + 48, H0 + 72}
    row = Consumer.objects.get(lab=small.lab, key="proc:ann/python3")
    project = create_project(lab=small.lab, slug="vision", name="Vision", now=T0)
    claim(
        lab=small.lab,
        spans=[ConsumerSpan(row.pk, None, H0 + 48, H0 + 72)],
        project=project,
        by=None,
        now=T0,
    )
    assert counted(small.lab) == {H0, H0 + 72}
    assert writer.roll_up(lab=small.lab, now=NOW)
    assert counted(small.lab) == {H0, H0 + 24, H0 + 48, H0 + 72}


def test_what_is_derived_again_and_stays_the_same_marks_nothing(small: SmallLab) -> None:
    rolled(small, (3, 1_000))
    apply_factors(lab=small.lab)
    declare_factor(
        lab=small.lab,
        zone="our-cloud",
        name="Our cloud",
        ug_per_kwh=10**8,
        source="the provider",
        now=T0,
    )
    put_run(
        lab=small.lab, uuid=RUN, facts=RunFacts(name="r", started_us=T0), by=None, bound_node=None
    )
    run_until_idle(worker="test")
    assert counted(small.lab) == {H0, H0 + 24, H0 + 48, H0 + 72}


@time_machine.travel(
    (T0 + 30 * MINUTE) / 1e6, tick=False
)  # not in the minute after midnight: the window begins before it
def test_a_day_is_summed_when_it_is_over() -> None:
    small = small_lab()
    now = now_us()
    push(small.node, [W("gpu:GPU-1", 5, now - MINUTE, now)], sent_at=now)
    edges = day_edges(hour_of(now), hour_of(now) + 1, ZoneInfo("Europe/Berlin"))
    assert writer.roll_up(lab=small.lab, now=now)
    assert not RolledDay.objects.filter(lab=small.lab, to_hour__gt=hour_of(now)).exists()
    assert writer.roll_up(lab=small.lab, now=edges[-1] * US_PER_HOUR)
    assert edges[-2] in counted(small.lab)


@pytest.mark.parametrize(("minutes", "due_minute"), [(0, 10), (9, 10), (10, 70), (59, 70)])
def test_an_hour_is_asked_for_ten_minutes_after_its_end(minutes: int, due_minute: int) -> None:
    with time_machine.travel((T0 + minutes * MINUTE) / 1e6, tick=False):
        small = small_lab()
        now = now_us()
        push(small.node, [W("gpu:GPU-1", 5, now - MINUTE, now)], sent_at=now)
    job = Job.objects.get(kind=writer.HOUR_OVER, key=str(small.lab.pk))
    assert job.due_us == T0 + due_minute * MINUTE


def test_a_server_that_is_upgraded_sums_hours_at_once() -> None:
    """An earlier version waited for the end of the day."""
    small = small_lab()
    tomorrow_us = now_us() + 20 * US_PER_HOUR
    Job.objects.create(kind="carbon.day_over", key=str(small.lab.pk), due_us=tomorrow_us)
    migration = importlib.import_module("apps.carbon.migrations.0007_charge_day")
    with connection.cursor() as cursor:
        cursor.execute(migration.HOURLY)
    job = Job.objects.get(kind=writer.HOUR_OVER)
    assert job.due_us <= now_us()
    run_until_idle(worker="test")
    assert Job.objects.filter(kind=writer.ROLL_UP, key=str(small.lab.pk)).exists()


def test_completed_hours_of_today_are_summed_until_the_day_is(small: SmallLab) -> None:
    """At the end of a day, pages would read all its hours from the ledger."""
    today = H0 + 24
    rolled(small, (3, 1_000), (26, 2_000))
    RolledDay.objects.all().delete()

    def at(minute: int) -> int:
        return today * US_PER_HOUR + minute * MINUTE

    query = FigureQuery(metric="energy_mj", from_hour=H0, to_hour=today + 24)
    expected = figures_by(small.lab, query, ["charge"])
    assert writer.roll_up(lab=small.lab, now=at(3 * 60 + 9))
    assert counted_hours(small.lab) == {today, today + 1}
    assert writer.roll_up(lab=small.lab, now=at(3 * 60 + 10))
    assert counted_hours(small.lab) == {today, today + 1, today + 2}
    assert figures_by(small.lab, query, ["charge"]) == expected
    late_us = at(2 * 60 + 30)
    push(small.node, [W("gpu:GPU-2", 7, late_us, late_us + MINUTE)], sent_at=NOW)
    assert counted_hours(small.lab) == {today, today + 1}
    assert figure(small.lab, query).energy_mj == 3_007
    assert writer.roll_up(lab=small.lab, now=at(3 * 60 + 11))
    assert counted_hours(small.lab) == {today, today + 1, today + 2}
    assert figure(small.lab, query).energy_mj == 3_007
    assert writer.roll_up(lab=small.lab, now=at(24 * 60 + 5))
    assert counted(small.lab) == {H0, today}
    assert not counted_hours(small.lab)
    assert figure(small.lab, query).energy_mj == 3_007


def test_days_of_a_month_whose_idle_shares_still_move_wait_for_its_end(small: SmallLab) -> None:
    """Else every window would have the whole month summed again."""
    project = create_project(lab=small.lab, slug="vision", name="Vision", now=T0)
    rolled(small, (3, 1_000), (30, 2_000))
    row = Consumer.objects.get(lab=small.lab, key="proc:ann/python3")
    claim(
        lab=small.lab,
        spans=[ConsumerSpan(row.pk, None, H0, H0 + HOURS)],
        project=project,
        by=None,
        now=T0,
    )
    set_idle_policy(
        lab=small.lab, policy="by_energy", from_us=(H0 + 24) * US_PER_HOUR, by=None, now=T0
    )
    assert writer.roll_up(lab=small.lab, now=NOW)
    assert counted(small.lab) == {H0}
    assert writer.roll_up(lab=small.lab, now=NOW + 31 * 24 * US_PER_HOUR)
    assert counted(small.lab) >= {H0, H0 + 24, H0 + 48, H0 + 72}


def test_hardware_by_day_is_what_charges_say(small: SmallLab) -> None:
    bought(small, kg=1, years=1, at_us=H0 * US_PER_HOUR, now=NOW)
    query = FigureQuery(metric="embodied_ug", from_hour=H0, to_hour=H0 + HOURS)
    before = embodied_by(small.lab, query, ["charge"], NOW)
    assert writer.roll_up(lab=small.lab, now=NOW)
    assert counted(small.lab, RollupKind.HARDWARE) == {H0, H0 + 24, H0 + 48, H0 + 72}
    cells = embodied_in(small.lab, query, [H0, H0 + 24, H0 + 50, H0 + HOURS], NOW)
    assert sum(cells.values(), Embodied()).embodied_ug == before[("~held",)].embodied_ug
    assert {place for place, _ in cells} == {0, 1, 2}
    EmbodiedDay.objects.update(embodied_ug=0)
    cells = embodied_in(small.lab, query, [H0, H0 + 24, H0 + 50, H0 + HOURS], NOW)
    assert {place for (place, _), cell in cells.items() if cell.embodied_ug} == {1, 2}, (
        "a day over an edge is not read"
    )


def test_device_time_by_day_is_device_time_by_hour(small: SmallLab) -> None:
    rolled(small, (3, 1_000), (4, 1), (30, 2_000))
    by_day: dict[int, int] = defaultdict(int)
    for hour, covered in covered_by_hour(small.lab, H0, H0 + HOURS).items():
        by_day[hour - (hour - H0) % 24] += covered
    assert covered_by_day(small.lab, H0, H0 + HOURS) == by_day
    assert set(Device.objects.filter(lab=small.lab).values_list("pk", flat=True)) == set(
        MeterDay.objects.values_list("device_id", flat=True)
    )


def test_days_that_are_dropped_come_back_the_same(small: SmallLab) -> None:
    bought(small, kg=1, years=1, at_us=H0 * US_PER_HOUR, now=NOW)
    rolled(small, (3, 1_000), (4, 1), (30, 2_000))
    tables = (UseDay, ChargeDay, LabDay, MeterDay, EmbodiedDay)

    def rows() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for table in tables:
            told = table.objects.order_by("day__what", "day__from_hour", "pk").values()
            found += [
                {name: value for name, value in row.items() if name not in {"id", "day_id"}}
                for row in told
            ]
        return found

    before = rows()
    assert len(before) > 5
    RolledDay.objects.all().delete()
    assert not rows()
    assert writer.roll_up(lab=small.lab, now=NOW)
    assert rows() == before


def test_a_ledger_that_is_rebuilt_with_less_is_shown_with_less(small: SmallLab) -> None:
    rolled(small, (3, 1_000), (30, 2_000))
    query = FigureQuery(metric="energy_mj", from_hour=H0, to_hour=H0 + HOURS)
    EnergyWindow.objects.filter(start_us__lt=(H0 + 24) * US_PER_HOUR).delete()
    rebuild_ledger(lab=small.lab)
    assert figure(small.lab, query).energy_mj == 2_000


def test_while_the_ledger_is_written_nothing_is_summed_and_it_is_said() -> None:
    small = small_lab()
    with (
        patch.object(writer, "try_lock_exclusive", return_value=False),
        patch.object(writer, "_PAUSE_S", 0),
    ):
        with pytest.raises(writer.RollupLocked, match="was being written"):
            writer.roll_up(lab=small.lab, now=NOW)


@pytest.mark.postgres
def test_a_change_that_is_not_written_yet_holds_summing_up_and_is_in_it_afterwards(
    small: SmallLab,
) -> None:
    """Who changes the ledger and who sums it never pass each other unseen: summing waits for the
    other's end.
    """
    rolled(small, (3, 1_000))
    changed, may_end = Event(), Event()

    def change() -> None:
        with transaction.atomic():
            at = (H0 + 4) * US_PER_HOUR
            push(small.node, [W("gpu:GPU-2", 7, at, at + MINUTE)], received_us=NOW, sent_at=NOW)
            changed.set()
            may_end.wait(20)
        connection.close()

    other = Thread(target=change)
    other.start()
    assert changed.wait(20)
    with patch.object(writer, "_TRIES", 3), pytest.raises(writer.RollupLocked):
        writer.roll_up(lab=small.lab, now=NOW)
    may_end.set()
    other.join()
    assert H0 not in counted(small.lab)
    assert writer.roll_up(lab=small.lab, now=NOW)
    query = FigureQuery(metric="energy_mj", from_hour=H0, to_hour=H0 + HOURS)
    assert figure(small.lab, query).energy_mj == 1_007
    assert UseDay.objects.filter(day__from_hour=H0, energy_mj=7).exists()


def test_what_days_do_not_hold_is_asked_of_the_ledger() -> None:
    query = FigureQuery(metric="energy_mj", from_hour=0, to_hour=240)
    assert reader.answers(query, ["charge"], basis="lifecycle")
    assert not reader.answers(query, ["hour"], basis="lifecycle")
    assert not reader.answers(
        query.replace(subject_kind="device", subject_key="gpu:1"), [], basis="lifecycle"
    )
    assert not reader.answers(query.replace(to_hour=22), [], basis="lifecycle")
    assert not reader.answers(query.replace(basis="direct"), [], basis="lifecycle")


def test_days_by_device_are_days_by_consumer(small: SmallLab) -> None:
    rolled(small, (0, 5_000), (1, 7_000), (30, 9_000), (60, 11_000))
    push(small.node, [W("gpu:GPU-2", 400, start_us=(H0 + 70) * US_PER_HOUR,
                        end_us=(H0 + 70) * US_PER_HOUR + MINUTE)])  # fmt: skip
    query = FigureQuery("energy_mj", H0 - 5, H0 + HOURS)
    by_consumer = {
        hour: part for (hour,), part in figures_by(small.lab, query, ["stretch"]).items()
    }
    by_device = figures_of_lab(small.lab, *query.hours)
    assert {24 * ((hour - H0) // 24) for hour in by_device} == {0, 24, 48}
    assert by_device.keys() == by_consumer.keys()
    for hour, part in by_device.items():
        for name in ("energy_mj", "facility_energy_mj", "emission_ug", "without_factor_mj"):
            assert getattr(part, name) == getattr(by_consumer[hour], name), (hour, name)


def test_sums_of_figures_are_sums_of_days(small: SmallLab) -> None:
    rolled(small, (3, 1_000), (30, 2_000))
    query = FigureQuery(metric="energy_mj", from_hour=H0 - 5, to_hour=H0 + HOURS)
    whole: Figure = figure(small.lab, query)
    for groups in GROUPED[1:]:
        assert total(figures_by(small.lab, query, groups).values()) == whole
