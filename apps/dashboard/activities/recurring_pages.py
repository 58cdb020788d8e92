"""Contents of the pages of recurring activities."""

from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.activity.choices import RecurringState
from apps.activity.kinds import kind_of, pue_text
from apps.activity.models import RecurringActivity
from apps.activity.periods import RecurringPeriod
from apps.activity.selectors import latest_periods, recurring_activities_of
from apps.core.units import amount_text
from apps.dashboard.activities.pages import PAGE_ROWS, ActivityRow, input_texts, page_number
from apps.dashboard.activities.pages import range_text as range_of
from apps.dashboard.formatting import ENERGY, factor_value
from apps.dashboard.periods import day_text

SHOWN_PERIODS = 12
_CSS = {
    RecurringState.ACTIVE: "running",
    RecurringState.PROBLEM: "failed",
    RecurringState.ENDED: "retired",
}


@dataclass(frozen=True)
class RecurringRow:
    """A recurring activity. ``next_day``, ``next_period``: '' after the last period."""

    recurring: RecurringActivity
    state: RecurringState
    css: str
    repeats: str
    next_day: str
    next_period: str
    recorded: int


@dataclass(frozen=True)
class RecurringListPage:
    """A page of the list. ``before``, ``after``: numbers of pages, 0 for none."""

    rows: list[RecurringRow]
    number: int
    before: int
    after: int


@dataclass(frozen=True)
class RecurringPage:
    """One recurring activity with its latest recorded periods."""

    row: RecurringRow
    inputs: list[tuple[str, str]]
    factor: str
    pue: str
    periods: list[ActivityRow]


def recurring_list_page(lab: Lab, page: str) -> RecurringListPage:
    """Return a page of the list. One query."""
    number = page_number(page)
    start = (number - 1) * PAGE_ROWS
    listed = list(recurring_activities_of(lab)[start : start + PAGE_ROWS + 1])
    return RecurringListPage(
        rows=[_row(each) for each in listed[:PAGE_ROWS]],
        number=number,
        before=number - 1,
        after=number + 1 if len(listed) > PAGE_ROWS else 0,
    )


def recurring_page(recurring: RecurringActivity) -> RecurringPage:
    """Return the page of a recurring activity. One query."""
    kind, factor, pue = kind_of(recurring.kind), recurring.ug_per_kwh, recurring.pue_ppm
    return RecurringPage(
        row=_row(recurring),
        inputs=input_texts(kind, recurring.inputs),
        factor="" if factor is None else factor_value(factor),
        pue="" if pue is None else pue_text(pue),
        periods=[
            ActivityRow(row, amount_text(row.energy_mj, ENERGY), range_of(row))
            for row in latest_periods(recurring, SHOWN_PERIODS)
        ],
    )


def _row(recurring: RecurringActivity) -> RecurringRow:
    state, following = recurring.state, recurring.next_period
    first, last = recurring.first_day, recurring.last_day
    repeats = f"{recurring.get_period_display()} from {day_text(first, year=True)}"
    return RecurringRow(
        recurring=recurring,
        state=state,
        css=_CSS[state],
        repeats=f"{repeats} to {day_text(last, year=True)}" if last else repeats,
        next_day=day_text(following.first_day, year=True) if following else "",
        next_period=_period_text(following) if following else "",
        recorded=recurring.recorded_periods,
    )


def _period_text(period: RecurringPeriod) -> str:
    first, last = period.first_day, period.last_day
    return f"{day_text(first, year=first.year != last.year)} to {day_text(last, year=True)}"
