"""Close and restate a period: frozen figures are those of the API, and are stored once."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import IntegrityError, transaction
from django.test import Client

from apps.accounts import audit
from apps.accounts.models import AuditEntry, Lab
from apps.accounts.services.labs import issue_user_token
from apps.activity.services import record_activity
from apps.carbon.figures.energy import entries
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR, emission_ug, facility_mj
from apps.ingest.models import DirtyHour, QuarantinedWindow
from apps.reports.checklist import checklist
from apps.reports.conservation import imbalances
from apps.reports.figures import current_rows
from apps.reports.models import Statement
from apps.reports.rows import FACTOR, LAB, LINE, Row
from apps.reports.selectors import (
    differences,
    figure_query_of,
    figure_rows,
    frozen_rows,
    latest_statements,
    revisions,
)
from apps.reports.services import close_period, restate_period
from tests.activity.support import draft
from tests.assets.support import bought
from tests.builders import T0, SmallLab, W, push, small_lab
from tests.reports.support import (
    DECEMBER_US,
    HOUR,
    NOVEMBER,
    close,
    full_lab,
    lines,
    provisional,
    use,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def small() -> Iterator[SmallLab]:
    with time_machine.travel(datetime.fromtimestamp(DECEMBER_US // 10**6, tz=UTC), tick=False):
        yield full_lab()


def _restate(statement: Statement, small: SmallLab, reason: str = "Late data") -> Statement:
    return restate_period(
        statement=statement, reason=reason, by=small.owner, now=DECEMBER_US + 1
    ).statement


def test_frozen_figures_are_those_of_the_api(small: SmallLab) -> None:
    statement = close(small).statement
    token = issue_user_token(lab=small.lab, user=small.owner, now=DECEMBER_US)
    client = Client(headers={"authorization": f"Bearer {token}"})
    compared = set()
    for row, value in lines(statement).items():
        query = figure_query_of(row, statement)
        if query is None:
            continue
        response = client.get(f"/api/v1/figures/?{query.to_query_string()}")
        assert response.json()["value"] == value, row.label
        compared.add((row.subject.partition(":")[0], row.metric, row.scope))
    assert {
        ("lab", "energy_mj", ""), ("lab", "energy_mj", "3.1"), ("project", "emission_ug", ""),
        ("~idle", "facility_energy_mj", ""), ("~unattributed", "emission_ug", ""),
        ("asset", "embodied_ug", ""), ("asset", "embodied_inventory_ug", ""),
        ("lab", "embodied_inventory_ug", "3.2"),
    } <= compared  # fmt: skip


def test_a_statement_names_the_editions_and_its_missing_parts(small: SmallLab) -> None:
    rows = frozen_rows(close(small).statement)
    editions = {row.subject for row in rows if row.kind == FACTOR}
    used = {row.factor for row in rows if row.kind == LINE and row.factor} - {"none"}
    assert used == editions
    assert {edition.split(":")[1:4:2] == ["DE", "hourly_estimated"] for edition in editions} == {
        True, False
    }  # fmt: skip
    values = {row.label: row.value for row in rows if row.kind == LINE and row.subject == LAB}
    assert values["lab, without_factor_mj"] == "7777778"
    assert (values["lab, assets"], values["lab, assets_known"]) == ("2", "1")
    assert "lab, coverage_ppm" in values


def test_closing_twice_is_once(small: SmallLab) -> None:
    first = close(small)
    again = close(small, DECEMBER_US + US_PER_HOUR)
    assert (first.is_new, again.is_new) == (True, False)
    assert first.statement == again.statement
    assert Statement.objects.count() == 1
    [entry] = AuditEntry.objects.filter(lab=small.lab, action="statement.closed")
    assert entry.details["sha256"] == first.statement.sha256
    assert audit.verify(small.lab) is None


def test_restating_twice_is_once(small: SmallLab) -> None:
    statement = close(small).statement
    assert _restate(statement, small) == statement  # nothing has changed
    before = statement.content
    use(small, 5, at_us=T0 + 5 * US_PER_HOUR, seq=500)
    second = _restate(statement, small)
    assert (second.revision, second.reason) == (2, "Late data")
    assert _restate(statement, small, "Again") == _restate(second, small, "Again") == second
    assert [row.revision for row in revisions(statement)] == [2, 1]
    assert list(latest_statements(small.lab)) == [second]
    statement.refresh_from_db()
    assert statement.content == before
    facts = {row.metric: row.value for row in frozen_rows(second) if row.kind == "statement"}
    assert facts["previous_sha256"] == statement.sha256
    changed = {
        difference.key.label: difference.change
        for difference in differences(frozen_rows(statement), frozen_rows(second))
    }
    assert changed["lab, energy_mj"] == 5 * 901
    assert changed["project:demo, energy_mj"] == 5 * 600
    assert AuditEntry.objects.filter(lab=small.lab, action="statement.restated").count() == 1


def test_nothing_changes_a_closed_period(small: SmallLab) -> None:
    statement = close(small).statement
    stored = Statement.objects.values().get()
    use(small, 3, at_us=T0 + 9 * US_PER_HOUR, seq=900)
    provisional(small.lab, {0: 222}, is_actual=True)
    bought(small, name="Late", kg=70, now=DECEMBER_US)
    run_until_idle(worker="test")
    assert Statement.objects.values().get() == stored
    now = current_rows(small.lab, statement.from_hour, statement.to_hour, DECEMBER_US)
    labels = {row.key.label for row in differences(frozen_rows(statement), now)}
    assert {"lab, energy_mj", "lab, embodied_ug"} <= labels
    assert close(small).statement == statement


def test_a_period_must_be_over_and_settled(small: SmallLab) -> None:
    with pytest.raises(InvalidInput, match="not over"):
        close(small, T0)
    device = small.lab.nodes.get(pk=small.node.pk).devices.first()
    dirty = DirtyHour.objects.create(device=device, hour=HOUR)
    with pytest.raises(Conflict, match="still computed"):
        close(small)
    dirty.delete()
    DirtyHour.objects.create(device=device, hour=HOUR + 24 * 60)  # not of this period
    assert close(small).is_new


@pytest.mark.parametrize(
    ("first_day", "last_day", "message"),
    [
        (date(2026, 11, 2), date(2026, 11, 1), "before the first"),
        (date(2010, 1, 1), date(2026, 1, 1), "five years"),
        (date(1960, 1, 1), date(1960, 1, 1), "five years"),
    ],
)
def test_an_impossible_period(
    small: SmallLab, first_day: date, last_day: date, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        close_period(
            lab=small.lab, first_day=first_day, last_day=last_day, by=small.owner, now=DECEMBER_US
        )


def test_the_days_are_those_of_the_zone_of_the_lab(small: SmallLab) -> None:
    Lab.objects.filter(pk=small.lab.pk).update(time_zone="Asia/Kolkata")
    small.lab.refresh_from_db()
    statement = close(small).statement
    assert statement.from_hour == -(-(1_793_491_200 - 19_800) // 3600)  # 00:30 there
    assert statement.to_hour - statement.from_hour == 30 * 24
    assert close_period(
        lab=small.lab, first_day=NOVEMBER[0] - timedelta(days=31), last_day=NOVEMBER[1],
        by=None, now=DECEMBER_US,
    ).is_new  # fmt: skip


@pytest.mark.parametrize("reason", ["", "   ", "x" * 301])
def test_a_restatement_needs_a_reason(small: SmallLab, reason: str) -> None:
    statement = close(small).statement
    with pytest.raises(InvalidInput) as refused:
        _restate(statement, small, reason)
    assert refused.value.field == "reason"


def test_the_database_refuses_a_second_same_revision(small: SmallLab) -> None:
    statement = close(small).statement
    for changes in ({}, {"revision": 2}, {"revision": 0}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Statement.objects.create(
                **{
                    field.name: getattr(statement, field.name)
                    for field in Statement._meta.concrete_fields
                    if field.name != "id"
                }
                | changes
            )


def test_a_content_that_was_changed_in_the_database_is_refused(small: SmallLab) -> None:
    statement = close(small).statement
    statement.content = statement.content.replace("54000", "54001", 1)
    with pytest.raises(Conflict, match="do not have the hash"):
        frozen_rows(statement)


def test_the_checklist(small: SmallLab) -> None:
    statement = close(small).statement
    period = (statement.from_hour, statement.to_hour)
    push(small.node, [W("gpu:GPU-0000-1111", 10**12, seq=5000, start_us=T0 - 10**10,
                        end_us=T0 - 10**10 + 60_000_000)])  # fmt: skip
    assert QuarantinedWindow.objects.count() == 1
    rows = current_rows(small.lab, *period, DECEMBER_US)
    checks = {check.kind: check for check in checklist(small.lab, *period, rows, DECEMBER_US)}
    assert {kind for kind, check in checks.items() if check.is_done} == {"over", "data", "settled"}
    assert (checks["quarantined"].value, checks["quarantined"].energy_mj) == (1, 10**12)
    assert checks["unattributed"].value == 90
    assert checks["priced"].value == 7_777_778
    assert checks["provisional"].value == 60 * 901
    assert 0 < (checks["coverage"].value or 0) < 1_000_000
    later = (statement.to_hour, statement.to_hour + 24)
    empty = {
        check.kind: check
        for check in checklist(
            small.lab, *later, current_rows(small.lab, *later, DECEMBER_US), DECEMBER_US
        )
    }
    assert empty["quarantined"].is_done
    assert empty["unattributed"].is_done


def test_a_lab_without_devices_has_a_statement_without_coverage(db: None) -> None:
    small = small_lab()
    bought(small, kg=150, now=DECEMBER_US)
    run_until_idle(worker="test")
    statement = close(small).statement
    values = {row.label: value for row, value in lines(statement).items()}
    assert values["lab, energy_mj"] == 0
    assert values["lab, embodied_inventory_ug"] == 150 * 10**9
    assert "lab, coverage_ppm" not in values
    assert imbalances(figure_rows(frozen_rows(statement))) == []


def test_a_lab_without_data_cannot_close(db: None) -> None:
    small = small_lab()
    run_until_idle(worker="test")
    with pytest.raises(InvalidInput, match="no energy, no activity and no hardware") as refused:
        close(small)
    assert refused.value.field == "last_day"
    assert not Statement.objects.exists()


def test_a_period_before_all_data_cannot_be_closed(small: SmallLab) -> None:
    for first_day, last_day in ((date(2024, 1, 1), date(2024, 12, 31)), (NOVEMBER[0],) * 2):
        with pytest.raises(InvalidInput, match="which is of 2026-11-02") as refused:
            close_period(
                lab=small.lab, first_day=first_day, last_day=last_day, by=None, now=DECEMBER_US
            )
        assert refused.value.field == "last_day"
    hours = HOUR - 24 * 300, HOUR - 24 * 299
    rows = current_rows(small.lab, *hours, DECEMBER_US)
    [check] = [
        check for check in checklist(small.lab, *hours, rows, DECEMBER_US) if check.kind == "data"
    ]
    assert (check.is_done, check.blocks, check.first_day) == (False, True, date(2026, 11, 2))
    assert "2026-11-02" in check.open_part
    assert close_period(
        lab=small.lab, first_day=date(2026, 11, 2), last_day=date(2026, 11, 2), by=None,
        now=DECEMBER_US,
    ).is_new  # fmt: skip


@pytest.mark.parametrize("what", ["hardware", "activity"])
def test_hardware_and_activities_are_data(small: SmallLab, what: str) -> None:
    early_us = T0 - 60 * 24 * US_PER_HOUR
    if what == "hardware":
        bought(small, name="Early", kg=None, at_us=early_us, now=DECEMBER_US)
    else:
        one = replace(draft(), start_us=early_us, end_us=early_us + 24 * US_PER_HOUR)
        record_activity(lab=small.lab, draft=one, by=small.owner, now=DECEMBER_US)
    run_until_idle(worker="test")
    day = datetime.fromtimestamp(early_us // 10**6, tz=UTC).date()
    assert close_period(lab=small.lab, first_day=day, last_day=day, by=None, now=DECEMBER_US).is_new


def test_a_closed_period_without_data_can_be_restated(small: SmallLab) -> None:
    """As after the withdrawal of all its activities."""
    statement = close(small).statement
    Statement.objects.filter(pk=statement.pk).update(
        from_hour=statement.from_hour - 24 * 400, to_hour=statement.to_hour - 24 * 400
    )
    statement.refresh_from_db()
    assert _restate(statement, small).revision == 2


def test_integers_are_those_that_python_computes_from_the_ledger(small: SmallLab) -> None:
    """Both databases agree with Python, so they agree with each other."""
    statement = close(small).statement
    stored = {row.label: value for row, value in lines(statement).items() if not row.factor}
    subjects = {
        "lab": {},
        "project:demo": {"subject_kind": "project", "subject_key": "demo"},
        "~idle": {"consumer": "idle"},
        "~unattributed": {"consumer": "unattributed"},
    }
    for subject, narrowed in subjects.items():
        query = FigureQuery("energy_mj", statement.from_hour, statement.to_hour, **narrowed)
        listed = list(entries(small.lab, query))
        known = [row for row in listed if row["factor_ug_per_kwh"] is not None]
        assert listed
        assert stored[f"{subject}, entries"] == len(listed)
        assert stored[f"{subject}, energy_mj"] == sum(row["energy_mj"] for row in listed)
        assert stored[f"{subject}, facility_energy_mj"] == sum(
            facility_mj(row["energy_mj"], row["pue_ppm"]) for row in listed if row["pue_ppm"]
        )
        assert stored[f"{subject}, emission_ug, location, lifecycle"] == sum(
            emission_ug(row["energy_mj"], row["pue_ppm"], row["factor_ug_per_kwh"]) for row in known
        )


def test_figures_that_change_while_they_are_read_are_read_again(
    small: SmallLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, uploads = list[list[Row]](), itertools.count(9)

    def changing(*arguments: Any) -> list[Row]:
        reads.append(current_rows(*arguments))
        if len(reads) < stable_from:
            number = next(uploads)
            use(small, 1, at_us=T0 + number * US_PER_HOUR, seq=1000 + number)
        return reads[-1]

    monkeypatch.setattr("apps.reports.services.current_rows", changing)
    stable_from = 100
    with pytest.raises(Conflict, match="change at the moment"):
        close(small)
    assert not Statement.objects.exists()
    reads.clear()
    stable_from = 2
    statement = close(small).statement
    assert figure_rows(frozen_rows(statement)) == figure_rows(reads[-1])
    assert reads[-1] == reads[-2] != reads[0]
