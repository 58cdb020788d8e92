"""Jobs of assets."""

from uuid import UUID

from apps.accounts.models import Lab
from apps.assets import device_usage
from apps.assets.choices import ImportState
from apps.assets.models import RegisterImport
from apps.assets.services import attachments, csv_import, import_tasks
from apps.assets.services.charges import CHUNK, assets_metered_by, recharge, recharge_lab
from apps.assets.services.recompute import differing
from apps.core.clock import now_us
from apps.core.jobs import DAY_US, enqueue, job, periodic_job
from apps.core.units import US_PER_HOUR, hour_of

MONTH = 31 * 24


@job("assets.use")
def use_job(key: str) -> None:
    """Recompute device use of the UTC day ``<lab>:<day>``, and charges of changed assets."""
    lab_id, _, day = key.partition(":")
    lab, hour = Lab.objects.get(pk=int(lab_id)), int(day) * 24
    _summed(lab, hour, hour + 24)
    now = now_us()
    if hour * US_PER_HOUR <= now < (hour + 48) * US_PER_HOUR:  # again after this day
        enqueue(
            kind="assets.day_over",
            key=str(lab.pk),
            due_us=(hour_of(now) // 24 + 2) * 24 * US_PER_HOUR,
        )


@job("assets.use_all")
def use_all_job(key: str) -> None:
    """Recompute all device use of lab ``key`` after rules or claims changed the attribution."""
    lab = Lab.objects.get(pk=int(key))
    first, end = device_usage.hours_of_ledger(lab)
    for hour in range(first, end, MONTH):
        _summed(lab, hour, min(hour + MONTH, end))


def _summed(lab: Lab, from_hour: int, to_hour: int) -> None:
    changed = device_usage.roll_up(lab=lab, from_hour=from_hour, to_hour=to_hour)
    ids = assets_metered_by(lab, changed) if changed else []
    for start in range(0, len(ids), CHUNK):
        recharge(
            lab=lab, asset_ids=ids[start : start + CHUNK], since=max(0, from_hour - 48)
        )  # the days of the lab that overlap the UTC day


@job("assets.day_over")
def day_over_job(key: str) -> None:
    """Charge the assets of lab ``key`` again at the end of its day.

    It has its own kind: a job that waits until tomorrow would also delay jobs enqueued now.
    """
    recharge_lab(lab=Lab.objects.get(pk=int(key)))


@job("assets.charge")
def charge_job(key: str) -> None:
    """Charge all assets of lab ``key`` again."""
    recharge_lab(lab=Lab.objects.get(pk=int(key)))


@job(attachments.ERASE)
def erase_attachments_job(key: str) -> None:
    """Erase the bytes of deleted attachments."""
    attachments.erase_deleted(now_us())


@periodic_job("assets.orphan_files")
def orphan_files_job() -> int:
    """Delete files of attachments without a row, daily."""
    now = now_us()
    attachments.remove_orphans(now)
    return now + DAY_US


@job("assets.recompute")
def recompute_job(key: str) -> None:
    """Recompute the stored values and all charges of lab ``key`` after a change of the rules."""
    lab = Lab.objects.get(pk=int(key))
    differing(lab=lab, repair=True)
    recharge_lab(lab=lab)


@job("assets.import_read")
def import_read_job(key: str) -> None:
    """Read the file of import ``key``."""
    row = (
        RegisterImport.objects.select_related("lab")
        .filter(uuid=UUID(key), state=ImportState.READING)
        .first()
    )
    if row is not None:
        csv_import.read(row=row, now=now_us())


@job(csv_import.TASK)
def import_task_job(key: str) -> None:
    """Register the file of import ``<uuid>:<user id>``, or undo it: all rows or none."""
    import_tasks.run(key)
