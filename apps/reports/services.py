"""Close and restate periods. Both are idempotent, and neither changes a stored statement."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from zoneinfo import ZoneInfo

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import Lab, User
from apps.carbon.figures.figure_query import iso_hour
from apps.core.errors import Conflict, InvalidInput
from apps.core.intervals import midnight_hour
from apps.reports.checklist import DATA, OVER, Check, checklist
from apps.reports.choices import StatementAct
from apps.reports.conservation import imbalances
from apps.reports.figures import current_rows
from apps.reports.models import Statement
from apps.reports.rows import FORMAT, STATEMENT, Row, canonical_text, digest_of_text
from apps.reports.selectors import figure_rows, frozen_rows, latest_statement

MAX_REASON = 300
_MAX_DAYS = 366 * 5
_READS = 5


@dataclass(frozen=True)
class ClosedPeriod:
    """A statement. ``is_new`` False: it existed, and nothing was stored."""

    statement: Statement
    is_new: bool


def period_hours(lab: Lab, first_day: date, last_day: date) -> tuple[int, int]:
    """Return the whole UTC hours of days in the lab's zone. Raises InvalidInput."""
    if last_day < first_day:
        raise InvalidInput(
            "The last day is before the first.",
            field="last_day",
            hint=f"Choose {first_day.isoformat()} or a later day.",
        )
    if (last_day - first_day).days >= _MAX_DAYS or last_day.year > 2200 or first_day.year < 1970:
        raise InvalidInput(
            "A period has at most five years.", field="last_day", hint="Choose an earlier day."
        )
    zone = ZoneInfo(lab.time_zone)
    return midnight_hour(first_day, zone), midnight_hour(last_day + timedelta(days=1), zone)


def close_period(
    *, lab: Lab, first_day: date, last_day: date, by: User | None, now: int
) -> ClosedPeriod:
    """Freeze the figures of days of the lab as revision 1. A closed period stays as it is.

    Raises InvalidInput for a period that is not over or before all data of the lab, Conflict while
    figures are being computed.
    """
    from_hour, to_hour = period_hours(lab, first_day, last_day)
    closed = latest_statement(lab, from_hour, to_hour)
    if closed is not None:
        return ClosedPeriod(closed, False)
    rows = _consistent_rows(lab, from_hour, to_hour, now)
    with transaction.atomic():
        lab = audit.hold(lab)
        closed = latest_statement(lab, from_hour, to_hour)
        if closed is not None:
            return ClosedPeriod(closed, False)
        statement = Statement(
            lab=lab,
            first_day=first_day,
            last_day=last_day,
            time_zone=lab.time_zone,
            from_hour=from_hour,
            to_hour=to_hour,
            revision=1,
            basis=lab.basis,
            created_us=now,
            created_by=by,
        )
        _store(statement, rows, "", StatementAct.CLOSED)
    return ClosedPeriod(statement, True)


def restate_period(*, statement: Statement, reason: str, by: User | None, now: int) -> ClosedPeriod:
    """Freeze the current figures of a closed period as its next revision. Without a difference
    there is none: the last revision is returned.

    Raises InvalidInput without a reason, Conflict while figures are being computed.
    """
    reason = reason.strip()
    if not reason or len(reason) > MAX_REASON:
        raise InvalidInput(
            "A restatement needs a reason." if not reason else "The reason is too long.",
            field="reason",
            hint=f"State in up to {MAX_REASON} characters why the figures have changed.",
        )
    hours = statement.from_hour, statement.to_hour
    rows = _consistent_rows(statement.lab, *hours, now, needs_data=False)
    with transaction.atomic():
        lab = audit.hold(statement.lab)
        latest = latest_statement(lab, statement.from_hour, statement.to_hour)
        assert latest is not None
        if figure_rows(frozen_rows(latest)) == figure_rows(rows):
            return ClosedPeriod(latest, False)
        restated = Statement(
            lab=lab,
            first_day=latest.first_day,
            last_day=latest.last_day,
            time_zone=latest.time_zone,
            from_hour=latest.from_hour,
            to_hour=latest.to_hour,
            revision=latest.revision + 1,
            basis=lab.basis,
            reason=reason,
            created_us=now,
            created_by=by,
        )
        _store(restated, rows, latest.sha256, StatementAct.RESTATED)
    return ClosedPeriod(restated, True)


def _consistent_rows(
    lab: Lab, from_hour: int, to_hour: int, now: int, *, needs_data: bool = True
) -> list[Row]:
    """Return the current rows of one moment: two reads with the same result contain no change.
    ``needs_data`` False: a closed period can be restated even if the lab's data was withdrawn.
    """
    rows = current_rows(lab, from_hour, to_hour, now)
    open_checks = [
        check
        for check in checklist(lab, from_hour, to_hour, rows, now)
        if check.blocks and not check.is_done and (needs_data or check.kind != DATA)
    ]
    _require_none(open_checks, to_hour)
    for _ in range(_READS):
        before, rows = rows, current_rows(lab, from_hour, to_hour, now)
        if before == rows:
            break
    else:
        raise Conflict(
            "The figures of this period change at the moment.", hint="Try again in a minute."
        )
    if problems := imbalances(rows):
        raise Conflict(
            f"The figures are not stored: {problems[0].row.label} {problems[0].message}.",
            hint="Report this as an error of LabCarbon.",
        )
    return rows


def _require_none(open_checks: Sequence[Check], to_hour: int) -> None:
    """Raise the error of the first open check."""
    for check in open_checks:
        if check.kind == OVER:
            raise InvalidInput(
                "The period is not over.",
                field="last_day",
                hint=f"It ends at {iso_hour(to_hour)}. Close it afterwards.",
            )
        if check.kind == DATA:
            raise _without_data(check)
        raise Conflict(
            f"{check.value} hours or jobs of this period are still computed.",
            hint="Try again in a minute.",
        )


def _without_data(check: Check) -> InvalidInput:
    if check.first_day is None:
        return InvalidInput(
            "The lab has no energy, no activity and no hardware yet.",
            field="last_day",
            hint="Close a period after its use is measured or entered.",
        )
    day = check.first_day.isoformat()
    return InvalidInput(
        f"The period is before the lab's first energy, activity or hardware, which is of {day}.",
        field="last_day",
        hint=f"Choose {day} or a later day.",
    )


def _store(statement: Statement, rows: Sequence[Row], previous: str, act: StatementAct) -> None:
    """Store a statement with its hash, and write the audit entry."""
    facts = {
        "format": FORMAT,
        "lab": statement.lab.slug,
        "first_day": statement.first_day.isoformat(),
        "last_day": statement.last_day.isoformat(),
        "time_zone": statement.time_zone,
        "from": iso_hour(statement.from_hour),
        "to": iso_hour(statement.to_hour),
        "revision": str(statement.revision),
        "basis": statement.basis,
        "created_us": str(statement.created_us),
        "previous_sha256": previous,
    }
    header = [Row(STATEMENT, STATEMENT, name, value=text) for name, text in facts.items() if text]
    statement.content = canonical_text([*header, *rows])
    statement.sha256 = digest_of_text(statement.content)
    statement.save(force_insert=True)
    audit.record(
        lab=statement.lab,
        by=statement.created_by,
        action=act,
        subject=f"{facts['first_day']} – {facts['last_day']}",
        details={
            "revision": statement.revision,
            "sha256": statement.sha256,
            **({"reason": statement.reason} if statement.reason else {}),
        },
        now=statement.created_us,
    )
