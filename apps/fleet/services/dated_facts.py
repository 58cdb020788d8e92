"""What all dated facts share. A fact is never edited: another is recorded, or the latest is withdrawn, or the whole
history is corrected ("it was always so"), which withdraws all that stood."""

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
    """Ask for what follows from a lab's places to be derived again: applied factors, and rules that name a site."""
    enqueue(kind="carbon.apply_factors", key=str(lab.pk))
    enqueue(kind="attribution.lab", key=str(lab.pk))


def record_audit(lab: Lab, by: User | None, action: Act, subject: str, details: dict[str, Any], now: int | None) -> None:
    """Add an act to the audit log. ``now`` None: a caller that knows no time, such as a command, acts now."""
    audit.record(lab=lab, by=by, action=action, subject=subject, details=details, now=now_us() if now is None else now)


def whole_hour(from_us: int) -> int:
    """Return the whole UTC hour that holds ``from_us``, if a fact may begin then."""
    hour = hour_of(from_us)
    if not 0 <= hour < END_HOUR:
        raise InvalidInput("This time is out of range.", field="from_day", hint="Choose a year between 1970 and 2300.")
    return hour


def withdraw(facts: "QuerySet[Fact]", by: User | None, now: int) -> None:
    """Withdraw all of ``facts``; the rows stay, with who withdrew them and when."""
    facts.update(withdrawn_us=now, withdrawn_by=by)


def require_free_hour(facts: "QuerySet[Fact]", hour: int, what: str) -> int:
    """Return ``hour`` unless a fact that stands begins in it: then nobody overwrites it silently."""
    if facts.filter(from_hour=hour).exists():
        raise Conflict(
            f"{what} is recorded for that very hour already.",
            field="from_day",
            hint="Choose another hour, withdraw that entry if it is the latest, or correct the whole history.",
        )
    return hour


def require_latest(facts: "QuerySet[Any]", fact: DatedFact, what: str) -> None:
    """Raise Conflict unless ``fact`` is the first of ``facts``, ordered from the latest on."""
    latest = facts.first()
    if latest is None or latest.pk != fact.pk:
        raise Conflict(
            f"This is not the latest {what} any more, and only the latest can be withdrawn.",
            hint="Load the page again to see the history as it is now.",
        )
