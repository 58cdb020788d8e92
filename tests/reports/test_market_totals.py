"""Market-based totals in statements: frozen with their rule editions, and verified offline."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
import time_machine
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.carbon.figures.energy import Figure
from apps.carbon.market.choices import RuleEdition
from apps.carbon.market.market_years import compute_years, stored_years
from apps.carbon.market.records import ContractualInstrument, ZoneRates
from apps.carbon.market.services import withdraw_instrument
from apps.carbon.market.stored_result import sum_year
from apps.carbon.rollups import writer
from apps.core.jobs import run_until_idle
from apps.core.units import MJ_PER_KWH
from apps.reports.checklist import checklist
from apps.reports.conservation import imbalances
from apps.reports.export_files import render_csv, render_json
from apps.reports.figures import current_rows
from apps.reports.market_totals import (
    INCLUDED,
    NOT_COMPUTED,
    OTHER_PERIOD,
    OUTDATED,
    STATE,
    market_imbalances,
    state_of,
    total_rows,
)
from apps.reports.models import Statement
from apps.reports.rows import FACTOR, LAB, LINE, Row, canonical_text, digest_of_text, line
from apps.reports.selectors import export_rows, frozen_rows
from apps.reports.services import close_period, period_hours, restate_period
from apps.reports.verification import verify
from tests.builders import SmallLab, small_lab
from tests.carbon.market.instruments import RESIDUAL, add
from tests.carbon.market.test_market_years import use
from tests.carbon.market.test_matching_properties import Use, cases, result_of
from tests.examples import examples
from tests.reports.support import NOVEMBER

YEAR = (date(2026, 1, 1), date(2026, 12, 31))
LATER = int(datetime(2027, 1, 3, 12, tzinfo=UTC).timestamp()) * 10**6
WH = MJ_PER_KWH // 1000
IN_FORCE, DRAFT = (f"market:{edition.value}" for edition in RuleEdition)
TOTALS = ("facility_energy_mj", "emission_ug", "covered_mj", "without_factor_mj")
stored = pytest.mark.django_db(transaction=True)


@pytest.fixture
def small() -> Iterator[SmallLab]:
    """Create a lab with use in November 2026, a residual mix and a certificate, in January 2027."""
    with time_machine.travel(datetime.fromtimestamp(LATER // 10**6, tz=UTC), tick=False):
        small = small_lab()
        use(small, *((hour, 20 * WH) for hour in range(0, 30, 3)))
        add(small.lab, **RESIDUAL)
        add(small.lab, volume_wh=90, name="Wind park")
        yield small


def computed(small: SmallLab) -> None:
    run_until_idle(worker="test")
    assert writer.roll_up(lab=small.lab, now=LATER)
    assert compute_years(lab=small.lab, now=LATER)


def close(small: SmallLab, days: tuple[date, date] = YEAR) -> Statement:
    return close_period(
        lab=small.lab, first_day=days[0], last_day=days[1], by=small.owner, now=LATER
    ).statement


def values(rows: Sequence[Row], subject: str) -> dict[str, int]:
    """Return {metric: integer} of the whole figures of a subject."""
    return {
        row.metric: row.number
        for row in rows
        if (row.kind, row.subject) == (LINE, subject) and not (row.factor or row.profile)
    }


@stored
def test_a_year_has_the_totals_of_both_rule_editions(small: SmallLab) -> None:
    computed(small)
    rows = frozen_rows(close(small))
    assert state_of(rows) == INCLUDED
    results = stored_years(small.lab, 2026, LATER)
    of_lab = values(rows, LAB)
    for subject, year in zip((IN_FORCE, DRAFT), results.values(), strict=True):
        result = year.result
        assert values(rows, subject) == dict(
            zip(
                TOTALS,
                (result.energy_mj, result.emission_ug, result.covered_mj, result.missing_mj),
                strict=True,
            )
        )
        assert result.energy_mj == of_lab["facility_energy_mj"]
        assert result.location_ug == of_lab["emission_ug"] != result.emission_ug
    assert 0 < values(rows, DRAFT)["covered_mj"] < values(rows, IN_FORCE)["covered_mj"]
    facts = {(row.subject, row.metric): row.value for row in rows if row.kind == FACTOR}
    assert facts[IN_FORCE, "status"] == "in force"
    assert facts[DRAFT, "status"] == "draft"
    assert facts["market:DE:residual_mix:" + _residual(facts), "ug_per_kwh"] == "724600000"
    market = [row for row in rows if row.kind == LINE and row.is_market]
    assert {(row.accounting, row.basis) for row in market} == {("market", "lifecycle")}


def _residual(facts: dict[tuple[str, str], str]) -> str:
    [key] = {subject for subject, _ in facts if ":residual_mix:" in subject}
    return key.partition(":residual_mix:")[2]


@stored
@pytest.mark.parametrize("render", [render_json, render_csv])
def test_the_totals_are_verified_offline(small: SmallLab, render: object) -> None:
    computed(small)
    statement = close(small)
    rows = export_rows(statement)
    assert callable(render)
    result = verify(render(rows).encode(), statement.sha256)
    assert result.problems == []
    for i, row in enumerate(rows):
        if row.kind == LINE and row.is_market and row.metric != "matching_periods":
            changed = [*rows[:i], replace(row, value=str(row.number + 10**10)), *rows[i + 1 :]]
            [problem, *_] = verify(render(changed).encode()).problems
            assert "market:scope2" in problem.message, row
    assert verify(render(rows).encode().replace(b"draft", b"final", 1)).problems


@stored
def test_only_a_calendar_year_has_them(small: SmallLab) -> None:
    computed(small)
    for days in (NOVEMBER, (date(2026, 1, 1), date(2026, 12, 30))):
        rows = frozen_rows(close(small, days))
        assert state_of(rows) == OTHER_PERIOD
        assert not any(row.is_market for row in rows)


@stored
def test_a_year_without_totals_or_with_outdated_ones_states_it(small: SmallLab) -> None:
    hours = period_hours(small.lab, *YEAR)
    rows = current_rows(small.lab, *hours, LATER)
    assert state_of(rows) == NOT_COMPUTED
    computed(small)
    instrument = add(small.lab, name="Late", volume_wh=10)
    rows = current_rows(small.lab, *hours, LATER)
    assert state_of(rows) == OUTDATED
    assert _market_check(small, rows) == [(False, False)]
    assert not any(row.is_market for row in rows)
    withdraw_instrument(lab=small.lab, instrument=instrument, reason="Test", by=None, now=LATER)
    rows = current_rows(small.lab, *hours, LATER)
    assert state_of(rows) == INCLUDED
    assert _market_check(small, rows) == [(True, False)]
    november = period_hours(small.lab, *NOVEMBER)
    assert _market_check(small, current_rows(small.lab, *november, LATER)) == []


def _market_check(small: SmallLab, rows: list[Row]) -> list[tuple[bool, bool]]:
    checks = checklist(small.lab, *period_hours(small.lab, *YEAR), rows, LATER)
    return [(check.is_done, check.blocks) for check in checks if check.kind == "market_based"]


@stored
def test_totals_of_a_running_year_are_not_those_of_the_whole(small: SmallLab) -> None:
    december_us = int(datetime(2026, 12, 20, tzinfo=UTC).timestamp()) * 10**6
    run_until_idle(worker="test")
    assert writer.roll_up(lab=small.lab, now=december_us)
    assert compute_years(lab=small.lab, now=december_us)
    rows = current_rows(small.lab, *period_hours(small.lab, *YEAR), LATER)
    assert state_of(rows) == OUTDATED


@stored
def test_a_restatement_adds_totals_that_were_computed_later(small: SmallLab) -> None:
    run_until_idle(worker="test")
    without = close_period(
        lab=small.lab, first_day=YEAR[0], last_day=YEAR[1], by=None, now=LATER
    ).statement
    frozen = without.content
    computed(small)
    restated = restate_period(
        statement=without, reason="Market-based totals", by=small.owner, now=LATER + 1
    )
    assert restated.is_new is (state_of(frozen_rows(without)) != INCLUDED)
    assert state_of(frozen_rows(restated.statement)) == INCLUDED
    assert Statement.objects.get(pk=without.pk).content == frozen
    again = restate_period(
        statement=restated.statement, reason="Again", by=small.owner, now=LATER + 2
    )
    assert not again.is_new


@stored
def test_a_statement_of_before_verifies_and_is_not_restated(small: SmallLab) -> None:
    computed(small)
    statement = close(small, NOVEMBER)
    old = [row for row in frozen_rows(statement) if row.metric != STATE]
    text = canonical_text(old)
    Statement.objects.filter(pk=statement.pk).update(content=text, sha256=digest_of_text(text))
    statement.refresh_from_db()
    assert state_of(frozen_rows(statement)) == ""
    for render in (render_json, render_csv):
        content = render(export_rows(statement)).encode()
        assert verify(content, statement.sha256).problems == []
    assert not restate_period(
        statement=statement, reason="Nothing", by=small.owner, now=LATER + 1
    ).is_new


def test_json_has_integers() -> None:
    row = line("market:scope2-2015", "emission_ug", 12, accounting="market", basis="direct")
    assert json.loads(render_json([row]))["rows"][0]["value"] == 12


@settings(max_examples=examples(100))
@given(cases, st.data())
def test_every_result_keeps_its_sums_and_a_changed_line_does_not(
    case: tuple[Use, Sequence[ContractualInstrument], dict[str, ZoneRates], RuleEdition],
    data: st.DataObject,
) -> None:
    consumption, listed, of_zone, edition = case
    matching = result_of(consumption, listed, of_zone, edition)
    rates = {zone: of_zone.get(zone, ZoneRates()) for zone in consumption}
    result = sum_year(matching, dict.fromkeys(consumption, Figure()), rates)
    energy_mj = sum(mj for hours in consumption.values() for mj in hours.values())
    rows = [
        line(LAB, "facility_energy_mj", energy_mj),
        *total_rows({edition: result}, "lifecycle"),
    ]
    assert list(market_imbalances(rows)) == []
    assert all(row.is_market for row in rows[1:])
    lines = [i for i, row in enumerate(rows) if row.kind == LINE and row.is_market]
    i = data.draw(st.sampled_from(lines))
    if rows[i].metric == "matching_periods":
        return
    change = data.draw(st.sampled_from([-(10**14), -100, 100, 10**14]))
    rows[i] = replace(rows[i], value=str(rows[i].number + change))
    found = list(market_imbalances(rows))
    assert found
    assert {problem.row.subject for problem in found} == {rows[i].subject}


def test_a_part_without_its_rate_is_named() -> None:
    part = {"factor": "market:DE:certificate:1:none"}
    rows = [
        line(LAB, "facility_energy_mj", 5),
        line(IN_FORCE, "facility_energy_mj", 5, **part),
        line(IN_FORCE, "matching_periods", 1, **part),
    ]
    messages = [problem.message for problem in imbalances(rows) if problem.row.is_market]
    assert "has a factor that is not in the statement" in messages
    assert "has no total emission_ug beside it" in messages
    facts = [Row(FACTOR, part["factor"], "ug_per_kwh", value="7")]
    messages = [problem.message for problem in imbalances([*rows, *facts])]
    assert "has ug_per_kwh or emission_ug, but not both" in messages
