"""Checks before a period is closed."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from zoneinfo import ZoneInfo

from django.db.models import F

from apps.accounts.models import Lab
from apps.carbon.choices import Resolution
from apps.core.models import Job
from apps.core.units import ENERGY as UNITS
from apps.core.units import PPM, US_PER_HOUR, hour_of, plain_amount
from apps.ingest.choices import Decision
from apps.ingest.models import DirtyHour, QuarantinedWindow
from apps.ingest.services.decisions import default_time
from apps.reports.conservation import COVERAGE, ENERGY, WITHOUT_FACTOR
from apps.reports.market_totals import INCLUDED, OTHER_PERIOD, state_of
from apps.reports.rows import FACTOR, LAB, LINE, Row
from apps.reports.selectors import first_data_hour

OVER, DATA, SETTLED = "over", "data", "settled"
COVERED, QUARANTINED, UNATTRIBUTED = "coverage", "quarantined", "unattributed"
PROVISIONAL, PRICED = "provisional", "priced"
MARKET_BASED = "market_based"
LABELS = {
    OVER: "the period is over",
    DATA: "the lab has data",
    SETTLED: "energy is settled",
    COVERED: "coverage",
    QUARANTINED: "quarantined windows",
    UNATTRIBUTED: "unattributed energy",
    PROVISIONAL: "provisional factors",
    PRICED: "energy without a factor",
    MARKET_BASED: "market-based totals",
}
# Jobs that compute all figures of a lab again. Others run all the time in a lab that measures.
_LAB_JOBS = ("attribution.lab", "carbon.apply_factors", "assets.use_all", "assets.recompute")


@dataclass(frozen=True)
class Check:
    """A check. ``value``: what is open (hours, ppm, windows, mJ), None if it is unknown. An open
    check with ``blocks`` must be resolved first. ``first_day``: of the lab's data, None for none.
    """

    kind: str
    is_done: bool
    value: int | None
    energy_mj: int = 0
    blocks: bool = False
    first_day: date | None = None

    @property
    def label(self) -> str:
        """Return what is checked."""
        return LABELS[self.kind]

    @property
    def open_part(self) -> str:
        """Return what is open, with its unit; '' for nothing."""
        if self.is_done:
            return ""
        if self.kind == DATA:
            return first_data_text(self.first_day)
        if self.kind == COVERED:
            if self.value is None:
                return "unknown: no device was expected to measure"
            return f"{self.value / 10_000:.4g} % of the device time has data"
        if self.kind in (OVER, SETTLED):
            return f"{self.value} {'hours' if self.kind == OVER else 'hours or jobs'} remain"
        if self.kind == MARKET_BASED:
            return "not computed yet, or outdated: the worker computes them after the daily sums"
        energy = plain_amount(self.energy_mj, UNITS)
        return f"{self.value} windows, {energy}" if self.kind == QUARANTINED else energy


def checklist(lab: Lab, from_hour: int, to_hour: int, rows: Iterable[Row], now: int) -> list[Check]:
    """Return the checks of a period. ``rows``: its current figures. Seven queries. Only a calendar
    year has market-based totals to check.
    """
    listed = list(rows)
    windows, waiting_mj = _quarantined(lab, from_hour, to_hour)
    unsettled = count_unsettled(lab, from_hour, to_hour)
    first_hour = first_data_hour(lab)
    remaining_hours = max(0, to_hour - hour_of(now))
    coverage_ppm = _value(listed, LAB, COVERAGE)
    unattributed_mj = _value(listed, "~unattributed", ENERGY) or 0
    provisional_mj = _provisional_mj(listed)
    unpriced_mj = _value(listed, LAB, WITHOUT_FACTOR) or 0
    return [
        Check(OVER, not remaining_hours, remaining_hours, blocks=True),
        _data_check(lab, first_hour, to_hour),
        Check(SETTLED, not unsettled, unsettled, blocks=True),
        Check(COVERED, coverage_ppm == PPM, coverage_ppm),
        Check(QUARANTINED, not windows, windows, waiting_mj),
        Check(UNATTRIBUTED, not unattributed_mj, unattributed_mj, unattributed_mj),
        Check(PROVISIONAL, not provisional_mj, provisional_mj, provisional_mj),
        Check(PRICED, not unpriced_mj, unpriced_mj, unpriced_mj),
        *_market_checks(state_of(listed)),
    ]


def _market_checks(state: str) -> list[Check]:
    """Check that the market-based totals of a calendar year can be frozen with its figures."""
    if state == OTHER_PERIOD:
        return []
    return [Check(MARKET_BASED, state == INCLUDED, None)]


def first_data_text(first_day: date | None) -> str:
    """Return the day of the lab's first data, in words."""
    if first_day is None:
        return "no energy, no activity and no hardware yet"
    return f"the first energy, activity or hardware is of {first_day.isoformat()}"


def _data_check(lab: Lab, first_hour: int | None, to_hour: int) -> Check:
    """Check that a period is not before all data of the lab."""
    if first_hour is None:
        return Check(DATA, False, None, blocks=True)
    first = datetime.fromtimestamp(first_hour * 3600, tz=ZoneInfo(lab.time_zone))
    is_before = to_hour <= first_hour
    return Check(DATA, not is_before, first_hour, blocks=True, first_day=first.date())


def _value(rows: Iterable[Row], subject: str, metric: str) -> int | None:
    return next(
        (
            row.number
            for row in rows
            if row.kind == LINE
            and (row.subject, row.metric) == (subject, metric)
            and not (row.factor or row.scope)
        ),
        None,
    )


def _provisional_mj(rows: list[Row]) -> int:
    """Return the energy whose hourly factor is estimated, so that its provider can replace it."""
    provisional = {
        row.subject
        for row in rows
        if (row.kind, row.metric, row.value)
        == (FACTOR, "resolution", Resolution.HOURLY_ESTIMATED.value)
    }
    return sum(
        row.number
        for row in rows
        if row.kind == LINE and row.metric == ENERGY and row.factor in provisional
    )


def _quarantined(lab: Lab, from_hour: int, to_hour: int) -> tuple[int, int]:
    """Return the number and energy of undecided quarantined windows whose time is in a period."""
    windows, energy_mj = 0, 0
    rows = QuarantinedWindow.objects.filter(node__lab=lab, decision=Decision.NONE).only(
        "possible", "content", "energy_mj"
    )
    for row in rows.iterator(chunk_size=1000):
        start_us, end_us = default_time(row)
        if start_us < to_hour * US_PER_HOUR and end_us > from_hour * US_PER_HOUR:
            windows, energy_mj = windows + 1, energy_mj + row.energy_mj
    return windows, energy_mj


def count_unsettled(lab: Lab, from_hour: int, to_hour: int) -> int:
    """Return the number of device-hours of a period whose energy is not in the ledger yet, and of
    pending jobs that compute all figures again.
    """
    hours = DirtyHour.objects.filter(device__lab=lab, hour__gte=from_hour, hour__lt=to_hour).count()
    jobs = Job.objects.filter(kind__in=_LAB_JOBS, key=str(lab.pk), done__lt=F("requested")).count()
    return hours + jobs
