"""Recording of a billing export: its months replace their earlier versions, in batches."""

from collections.abc import Iterator
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from apps.accounts import audit
from apps.accounts.models import User
from apps.activity.services.withdrawals import withdraw_activities
from apps.billing.choices import Act, FileState
from apps.billing.models import BilledMonth, BillingFile, FilePart
from apps.billing.services.covered_hours import set_covered_hours
from apps.billing.services.month_uses import (
    compute_uses,
    record_uses,
    replacement_problem,
    save_results,
)
from apps.billing.services.uploads import EXPIRY_US, RECORD, locked, wrong_state
from apps.core.jobs import enqueue, renew_lease

MAX_REASON = 270
REVIEWED_US = 100 * 86_400_000_000  # months that began earlier are not computed again


@transaction.atomic
def confirm(*, file: BillingFile, by: User, now: int) -> None:
    """Record the months of an export by a job. Raises Conflict."""
    stored = locked(file.uuid)
    if stored.state in (FileState.RECORDING, FileState.DONE):
        return  # clicked twice
    if stored.state != FileState.CHECKED:
        raise wrong_state(stored)
    BillingFile.objects.filter(pk=stored.pk).update(
        state=FileState.RECORDING, bytes_done=0, confirmed_us=now, confirmed_by=by
    )
    FilePart.objects.filter(file=stored).delete()
    enqueue(kind=RECORD, key=str(stored.uuid))


def record_batches(*, uuid: UUID, now: int) -> Iterator[int]:
    """Record the months of an export; yield the number of activities after each batch.

    A killed job continues: months that are current are only completed.
    """
    file = (
        BillingFile.objects.select_related("lab", "confirmed_by")
        .filter(uuid=uuid, state=FileState.RECORDING)
        .first()
    )
    if file is None:
        return
    for month in file.months.select_related("lab", "file").order_by("month", "account"):
        renew_lease()
        if not _make_current(month, now):
            continue
        yield from _complete(month, file.confirmed_by, now)
    _finish(file, now)


def _complete(month: BilledMonth, by: User | None, now: int) -> Iterator[int]:
    """Compute a current month as of now, and record its activities."""
    set_covered_hours(month)
    uses = compute_uses(month, now)
    save_results(month, uses)
    month.problem = replacement_problem(month, month, uses)[:300]
    month.save(update_fields=["problem"])
    if not month.problem:
        yield from record_uses(month=month, computed=uses, by=by, now=now)


@transaction.atomic
def _make_current(month: BilledMonth, now: int) -> bool:
    """Let a month replace its earlier version, whose activities it takes over. Return whether it
    is current.
    """
    audit.hold(month.lab)
    if month.is_current:
        return True
    previous = (
        BilledMonth.objects.select_for_update(of=("self",))
        .filter(
            lab=month.lab,
            provider=month.provider,
            account=month.account,
            month=month.month,
            is_current=True,
        )
        .first()
    )
    if previous is not None:
        uses = compute_uses(month, now)
        month.problem = replacement_problem(month, previous, uses)[:300]
        if month.problem:
            month.save(update_fields=["problem"])
            return False
        previous.uses.update(month=month)
        month.version = previous.version
        previous.delete()
    month.version += 1
    month.is_current = True
    month.save(update_fields=["problem", "version", "is_current"])
    return True


@transaction.atomic
def _finish(file: BillingFile, now: int) -> None:
    audit.hold(file.lab)
    stored = locked(file.uuid)
    if stored.state != FileState.RECORDING:
        return
    BillingFile.objects.filter(pk=stored.pk).update(
        state=FileState.DONE, bytes_done=stored.bytes, found={}
    )
    months = list(stored.months.filter(is_current=True))
    audit.record(
        lab=file.lab,
        by=file.confirmed_by,
        action=Act.RECORDED,
        subject=stored.name,
        details={
            "file": stored.name,
            "months": sorted({month.month for month in months}),
            "energy_mj": sum(month.energy_mj for month in months),
        },
        now=now,
    )


def files_to_review(now: int) -> list[UUID]:
    """Return the exports with current months whose days ended since, or whose instances have a
    collector.
    """
    months = BilledMonth.objects.filter(
        is_current=True, file__state=FileState.DONE, items__end_us__gt=now - REVIEWED_US
    ).filter(Q(items__resource__gt="") | Q(items__end_us__gt=F("file__confirmed_us")))
    return list(months.order_by("file").values_list("file__uuid", flat=True).distinct())


def review_file(*, uuid: UUID, now: int) -> Iterator[int]:
    """Compute the current months of an export again. Yield the number of activities after each
    batch.
    """
    months = BilledMonth.objects.filter(
        is_current=True, file__uuid=uuid, file__state=FileState.DONE
    ).select_related("lab", "file")
    for month in months.order_by("pk"):
        renew_lease()
        yield from _complete(month, None, now)


@transaction.atomic
def remove_month(*, month: BilledMonth, reason: str, by: User, now: int) -> None:
    """Withdraw the activities of a month and delete its items. Raises Conflict if energy is
    archived.
    """
    audit.hold(month.lab)
    stored = BilledMonth.objects.select_for_update(of=("self",)).get(pk=month.pk)
    uses = stored.uses.select_related("activity", "activity__device")
    energy_mj = withdraw_activities(
        activities=[use.activity for use in uses],
        reason=f"The bill was removed: {reason}",
        by=by,
        now=now,
    )
    details = {
        "month": stored.month,
        "account": stored.account,
        "version": stored.version,
        "reason": reason,
        "energy_mj": energy_mj,
    }
    subject = f"{stored.get_provider_display()} {stored.account} {stored.month}"
    audit.record(
        lab=month.lab, by=by, action=Act.REMOVED, subject=subject, details=details, now=now
    )
    stored.delete()
    enqueue(kind="attribution.lab", key=str(month.lab_id))


def delete_expired_files(*, now: int) -> int:
    """Delete exports that nobody confirmed for a week; return their number."""
    expired = BillingFile.objects.filter(created_us__lt=now - EXPIRY_US).exclude(
        state__in=(FileState.RECORDING, FileState.DONE)
    )
    return expired.delete()[1].get("billing.BillingFile", 0)
