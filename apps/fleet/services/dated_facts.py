"""Common parts of dated facts. Facts are never edited.

A new fact is recorded, the latest is withdrawn, or the complete history is corrected. A correction
withdraws all active facts.
"""

from typing import Any, TypeVar

from django.db.models import QuerySet

from apps.accounts import audit
from apps.accounts.choices import Act
from apps.accounts.models import Lab, User
from apps.core.clock import now_us
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import enqueue
from apps.core.units import END_HOUR, hour_of
from apps.fleet.models import DatedFact

Fact = TypeVar("Fact", bound=DatedFact)


def enqueue_site_updates(lab: Lab) -> None:
    """Enqueue the jobs that depend on site facts: applied factors, and rules with a site."""
    enqueue(kind="carbon.apply_factors", key=str(lab.pk))
    enqueue(kind="attribution.lab", key=str(lab.pk))


def record_audit(
    lab: Lab, by: User | None, action: Act, subject: str, details: dict[str, Any], now: int | None
) -> None:
    """Add an act to the audit log. ``now`` None: the current time, for commands."""
    audit.record(
        lab=lab,
        by=by,
        action=action,
        subject=subject,
        details=details,
        now=now_us() if now is None else now,
    )


def whole_hour(from_us: int) -> int:
    """Return the UTC hour of ``from_us``. Raises InvalidInput for a time out of range."""
    hour = hour_of(from_us)
    if not 0 <= hour < END_HOUR:
        raise InvalidInput(
            "The date is out of range.",
            field="from_day",
            hint="Choose a year between 1970 and 2300.",
        )
    return hour


def withdraw(facts: "QuerySet[Fact]", by: User | None, now: int) -> None:
    """Withdraw all of ``facts``. The rows stay, with author and time of the withdrawal."""
    facts.update(withdrawn_us=now, withdrawn_by=by)


def require_free_hour(facts: "QuerySet[Fact]", hour: int, what: str) -> int:
    """Return ``hour``. Raises Conflict if an active fact starts in it."""
    if facts.filter(from_hour=hour).exists():
        raise Conflict(
            f"{what} is already recorded for this hour.",
            field="from_day",
            hint="Choose another hour, withdraw the latest entry, or correct the whole history.",
        )
    return hour


def require_latest(facts: "QuerySet[Any]", fact: DatedFact, what: str) -> None:
    """Raise Conflict unless ``fact`` is the first of ``facts``, ordered from the latest on."""
    latest = facts.first()
    if latest is None or latest.pk != fact.pk:
        raise Conflict(
            f"Only the latest {what} can be withdrawn, and this is not the latest.",
            hint="Reload the page to see the current history.",
        )
