"""Withdrawal of many activities at once, by a program that replaces them."""

from collections.abc import Sequence

from apps.accounts.models import User
from apps.activity.models import Activity
from apps.core.database.bulk_writes import update_columns
from apps.ingest.models import SealedHour
from apps.ingest.services import withdraw_declared

CHUNK = 500


def archived_activities(activities: Sequence[Activity]) -> list[Activity]:
    """Return those whose energy is archived, so that they cannot be withdrawn."""
    archived: set[int] = set()
    for start in range(0, len(activities), CHUNK):
        devices = [each.device_id for each in activities[start : start + CHUNK]]
        hours = SealedHour.objects.filter(device_id__in=devices)
        archived.update(hours.values_list("device_id", flat=True).distinct())
    return [each for each in activities if each.device_id in archived]


def withdraw_activities(
    *, activities: Sequence[Activity], reason: str, by: User | None, now: int
) -> int:
    """Take the energy of activities out of the ledger, in the caller's transaction that holds the
    lab; return it in mJ. Withdrawn ones are left as they are. The caller writes the audit entry.

    Raises Conflict if energy is archived.
    """
    active = [each for each in activities if each.withdrawn_us is None]
    energy_mj = 0
    for each in active:
        energy_mj += withdraw_declared(device=each.device)
        each.withdrawn_us, each.withdrawn_by, each.withdrawn_reason = now, by, reason[:300]
    update_columns(active, ["withdrawn_us", "withdrawn_by", "withdrawn_reason"])
    return energy_mj
