"""Content of the list of statements, and of the page that closes a period."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from zoneinfo import ZoneInfo

from django.core.paginator import Paginator
from django.urls import reverse

from apps.accounts.models import Lab
from apps.core.errors import Conflict, InvalidInput
from apps.core.text import parse_record_number
from apps.dashboard.periods import Period
from apps.dashboard.statements.market_part import MarketPart, market_part
from apps.dashboard.statements.statement_page import (
    Current,
    Headline,
    current_of,
    headline_of,
    period_of,
    person_name,
)
from apps.reports.checklist import (
    COVERED,
    MARKET_BASED,
    PRICED,
    PROVISIONAL,
    QUARANTINED,
    UNATTRIBUTED,
    Check,
    checklist,
)
from apps.reports.figures import current_rows
from apps.reports.models import Statement
from apps.reports.rows import Lines
from apps.reports.selectors import frozen_rows, latest_statement, latest_statements
from apps.reports.services import period_hours

PAGE_ROWS = 12
_PLACES = {
    COVERED: "nodes",
    QUARANTINED: "quarantine",
    UNATTRIBUTED: "unattributed",
    PROVISIONAL: "grid-providers",
    PRICED: "sites",
    MARKET_BASED: "market",
}


@dataclass(frozen=True)
class StatementRow:
    """A closed period. ``headline`` None: its figures were changed in the database."""

    statement: Statement
    label: str
    closed_by: str
    headline: Headline | None
    current: Current | None


@dataclass(frozen=True)
class StatementsPage:
    """A page of the list. ``before``, ``after``: addresses."""

    rows: list[StatementRow]
    before: str
    after: str


@dataclass(frozen=True)
class CheckRow:
    """A check, what is open, and the page where it is resolved."""

    check: Check
    state: str
    href: str


@dataclass(frozen=True)
class ClosingPage:
    """A period before it is closed. ``closed`` is its statement, if it is closed already."""

    period: Period
    first_day: date
    last_day: date
    checks: list[CheckRow]
    headline: Headline
    market: MarketPart
    closed: Statement | None
    is_blocked: bool


def statements_page(lab: Lab, params: Mapping[str, str]) -> StatementsPage:
    """Return a page of the list. A period needs one query for its current figures."""
    number = parse_record_number(params.get("page", "1"))
    if number is None or not 1 <= number <= 10**6:
        raise InvalidInput("This is not a page.", field="page", hint="Pages count from 1.")
    page = Paginator(latest_statements(lab).defer(None).select_related("created_by"), PAGE_ROWS)
    listed = page.get_page(number)
    return StatementsPage(
        rows=[_row(lab, statement) for statement in listed],
        before=f"?page={listed.previous_page_number()}" if listed.has_previous() else "",
        after=f"?page={listed.next_page_number()}" if listed.has_next() else "",
    )


def _row(lab: Lab, statement: Statement) -> StatementRow:
    label, closed_by = period_of(statement).label, person_name(statement)
    try:
        lines = Lines(frozen_rows(statement))
    except Conflict:
        return StatementRow(statement, label, closed_by, None, None)
    return StatementRow(
        statement, label, closed_by, headline_of(lines), current_of(lab, statement, lines)
    )


def closing_page(lab: Lab, first_day: date, last_day: date, now: int) -> ClosingPage:
    """Return the current figures and the checklist of days of the lab. Raises InvalidInput."""
    from_hour, to_hour = period_hours(lab, first_day, last_day)
    rows = current_rows(lab, from_hour, to_hour, now)
    lines = Lines(rows)
    period = Period(from_hour, to_hour, ZoneInfo(lab.time_zone))
    checks = checklist(lab, from_hour, to_hour, rows, now)
    return ClosingPage(
        period=period,
        first_day=first_day,
        last_day=last_day,
        checks=[_check_row(check, period) for check in checks],
        headline=headline_of(lines),
        market=market_part(rows, lines),
        closed=latest_statement(lab, from_hour, to_hour),
        is_blocked=any(check.blocks and not check.is_done for check in checks),
    )


def _check_row(check: Check, period: Period) -> CheckRow:
    state = "done" if check.is_done else "blocks" if check.blocks else "open"
    place = "" if check.is_done else _PLACES.get(check.kind, "")
    query = f"?{period.fixed_query}" if place == "unattributed" else ""
    return CheckRow(check, state, reverse(place) + query if place else "")
