"""Content of the differences of a statement: to the current figures, or to its next revision."""

from collections.abc import Iterator
from dataclasses import dataclass

from apps.accounts.models import Lab
from apps.dashboard.figures import Projected
from apps.dashboard.periods import Period
from apps.dashboard.statements.statement_page import period_of
from apps.dashboard.statements.texts import (
    change_text,
    line_name,
    subject_name,
    subject_names,
    value_text,
)
from apps.reports.figures import current_rows
from apps.reports.models import Statement
from apps.reports.rows import FACTOR, Row
from apps.reports.selectors import Difference, differences, frozen_rows, revisions

MAX_ROWS = 200
CSV_HEADER = (
    "subject", "metric", "accounting", "basis", "profile", "scope", "factor", "pue_ppm",
    "before", "after", "difference",
)  # fmt: skip


@dataclass(frozen=True)
class DifferenceRow:
    """A line with another value. A value None: it has no such line, which is not zero."""

    difference: Difference
    subject: str
    name: str
    before: str | Projected | None
    after: str | Projected | None
    change: str | Projected


@dataclass(frozen=True)
class DifferencesPage:
    """Differences of a statement. ``next_revision`` None: to the current figures. ``rows``: of
    whole figures; ``parts``: of their parts by factor, the first of ``number_of_parts``.
    ``editions``: whether editions of factors differ. ``hidden``: lines that only the CSV contains.
    """

    statement: Statement
    period: Period
    next_revision: Statement | None
    rows: list[DifferenceRow]
    parts: list[DifferenceRow]
    number_of_parts: int
    hidden: int
    editions: bool


def compared_rows(
    lab: Lab, statement: Statement, now: int
) -> tuple[Statement | None, list[Row], list[Row]]:
    """Return the next revision (None: the current figures), and both lists of rows."""
    later = revisions(statement).filter(revision=statement.revision + 1).first()
    after = (
        frozen_rows(later)
        if later
        else current_rows(lab, statement.from_hour, statement.to_hour, now)
    )
    return later, frozen_rows(statement), after


def differences_page(lab: Lab, statement: Statement, now: int) -> DifferencesPage:
    """Return the lines of a statement that have other values later. Raises Conflict for a statement
    that was changed in the database.
    """
    later, before, after = compared_rows(lab, statement, now)
    changed, names = differences(before, after), subject_names(lab)
    whole = [each for each in changed if not each.key.factor]
    parts = [each for each in changed if each.key.factor]
    old, new = ([row for row in rows if row.kind == FACTOR] for rows in (before, after))
    return DifferencesPage(
        statement=statement,
        period=period_of(statement),
        next_revision=later,
        rows=[_difference_row(each, names) for each in whole[:MAX_ROWS]],
        parts=[_difference_row(each, names) for each in parts[:MAX_ROWS]],
        number_of_parts=len(parts),
        hidden=sum(max(0, len(listed) - MAX_ROWS) for listed in (whole, parts)),
        editions=old != new,
    )


def _difference_row(each: Difference, names: dict[str, str]) -> DifferenceRow:
    metric = each.key.metric
    before, after = (
        None if value is None else value_text(metric, value) for value in (each.before, each.after)
    )
    return DifferenceRow(
        difference=each,
        subject=subject_name(each.key.subject, names),
        name=line_name(each.key),
        before=before,
        after=after,
        change=change_text(metric, each.change),
    )


def difference_csv_rows(
    lab: Lab, statement: Statement, now: int
) -> Iterator[tuple[str | int | None, ...]]:
    """Return all differences with exact integers."""
    _, before, after = compared_rows(lab, statement, now)
    for each in differences(before, after):
        key = each.key
        yield (
            key.subject, key.metric, key.accounting, key.basis, key.profile, key.scope, key.factor,
            key.pue_ppm, each.before, each.after, each.change,
        )  # fmt: skip
