"""Reads of statements."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Min, OuterRef, QuerySet, Subquery

from apps.accounts.models import Lab
from apps.assets.models import EmbodiedCharge, LifecycleEvent
from apps.carbon.figures.figure_query import HARDWARE_METRICS, HIDDEN, USE_METRICS, FigureQuery
from apps.core.errors import Conflict
from apps.core.units import INT64_MAX
from apps.energy.models import LedgerEntry
from apps.reports.conservation import ASSET
from apps.reports.models import Statement
from apps.reports.rows import FACTOR, LAB, LINE, NAME, STATEMENT, Row, digest_of_text, one_line
from apps.reports.rows import rows_of_text as _rows_of_text


@dataclass(frozen=True)
class Difference:
    """A line with another value. None: it has no such line, which is not zero."""

    key: Row
    before: int | None
    after: int | None

    @property
    def change(self) -> int:
        return (self.after or 0) - (self.before or 0)


def latest_statements(lab: Lab) -> QuerySet[Statement]:
    """Return the last revision of each closed period, latest period first."""
    last = (
        Statement.objects.filter(
            lab=OuterRef("lab"), from_hour=OuterRef("from_hour"), to_hour=OuterRef("to_hour")
        )
        .order_by("-revision")
        .values("pk")[:1]
    )
    return (
        Statement.objects.filter(lab=lab, pk=Subquery(last))
        .select_related("created_by")
        .defer("content")
        .order_by("-from_hour", "to_hour")
    )


def statement_of(lab: Lab, pk: int) -> Statement | None:
    """Return a statement of a lab by its number."""
    if pk > INT64_MAX:
        return None
    return Statement.objects.filter(lab=lab, pk=pk).select_related("lab", "created_by").first()


def latest_statement(lab: Lab, from_hour: int, to_hour: int) -> Statement | None:
    """Return the last revision of a closed period with exactly these hours."""
    return revisions(Statement(lab=lab, from_hour=from_hour, to_hour=to_hour)).first()


def revisions(statement: Statement) -> QuerySet[Statement]:
    """Return the revisions of a statement's period, latest first."""
    return (
        Statement.objects.filter(
            lab=statement.lab_id, from_hour=statement.from_hour, to_hour=statement.to_hour
        )
        .select_related("created_by")
        .order_by("-revision")
    )


def first_data_hour(lab: Lab) -> int | None:
    """Return the first hour with energy (measured or of an activity) or hardware of a lab, None for
    none. Three queries.
    """
    firsts = (
        LedgerEntry.objects.filter(lab=lab).aggregate(first=Min("hour")),
        EmbodiedCharge.objects.filter(lab=lab).aggregate(first=Min("from_hour")),
        LifecycleEvent.objects.filter(asset__lab=lab).aggregate(first=Min("hour")),
    )
    return min((each["first"] for each in firsts if each["first"] is not None), default=None)


def frozen_rows(statement: Statement) -> list[Row]:
    """Return the rows of a statement. Raises Conflict if its content does not have its hash."""
    if digest_of_text(statement.content) != statement.sha256:
        raise Conflict(
            f"The figures of {statement} do not have the hash of the statement: they were changed "
            "in the database.",
            hint="Restore the database from a backup, and compare an exported file.",
        )
    return _rows_of_text(statement.content)


def export_rows(statement: Statement) -> list[Row]:
    """Return the rows of an export: those of the statement, and current names."""
    rows = frozen_rows(statement)
    return [*rows, *_name_rows(statement, {row.subject for row in rows})]


def _name_rows(statement: Statement, subjects: set[str]) -> list[Row]:
    lab, by = statement.lab, statement.created_by
    names = {
        (STATEMENT, "lab_name"): lab.name,
        (STATEMENT, "closed_by"): (by.get_full_name() or by.get_username()) if by else "",
        (STATEMENT, "reason"): statement.reason,
    }
    for slug, name in lab.projects.values_list("slug", "name").order_by("slug"):
        names[f"project:{slug}", "name"] = name
    for pk, name in lab.assets.values_list("pk", "name").order_by("pk"):
        names[f"{ASSET}{pk}", "name"] = name
    return [
        Row(NAME, subject, metric, value=one_line(text))
        for (subject, metric), text in names.items()
        if subject in {STATEMENT, *subjects} and text
    ]


def figure_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that a restatement can change: editions and lines."""
    return [row for row in rows if row.kind in (FACTOR, LINE)]


def differences(before: Sequence[Row], after: Sequence[Row]) -> list[Difference]:
    """Return the lines with other values, in the order of ``before``, then the new ones."""
    old, new = (
        {row.key: row.number for row in rows if row.kind == LINE} for rows in (before, after)
    )
    return [
        Difference(key, old.get(key), new.get(key))
        for key in dict.fromkeys((*old, *new))
        if old.get(key) != new.get(key)
    ]


def figure_query_of(row: Row, statement: Statement) -> FigureQuery | None:
    """Return the query of a line as of now, None if it has none: parts, device time, counts,
    market-based totals.
    """
    if row.metric not in (*USE_METRICS, *HARDWARE_METRICS) or row.factor or row.is_market:
        return None
    query = FigureQuery(
        metric=row.metric,
        from_hour=statement.from_hour,
        to_hour=statement.to_hour,
        basis=statement.basis,
        scope=row.scope,
        **({"profile": row.profile} if row.profile else {}),
    )
    kind, _, key = row.subject.partition(":")
    if row.subject == "~lab":  # hardware in the inventory without a project
        return query.replace(project=HIDDEN)
    if row.subject.startswith("~"):
        return query.replace(consumer=row.subject[1:])
    return query if row.subject == LAB else query.replace(subject_kind=kind, subject_key=key)
