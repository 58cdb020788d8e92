"""Jobs of assets."""

from apps.accounts.models import Lab
from apps.assets import use
from apps.assets.charging import CHUNK, assets_metered_by, recharge, recharge_lab
from apps.core.clock import now_us
from apps.core.jobs import handles, request_job
from apps.core.units import US_PER_HOUR, hour_of

MONTH = 31 * 24


@handles("assets.use")
def use_job(key: str) -> None:
    """Sum the use of devices in the UTC day ``<lab>:<day>`` again, and charge the assets whose use changed."""
    lab_id, _, day = key.partition(":")
    lab, hour = Lab.objects.get(pk=int(lab_id)), int(day) * 24
    _summed(lab, hour, hour + 24)
    now = now_us()
    if hour * US_PER_HOUR <= now < (hour + 48) * US_PER_HOUR:  # once more when this day of the lab is over
        request_job(kind="assets.charge", key=str(lab.pk), due_us=(hour_of(now) // 24 + 2) * 24 * US_PER_HOUR)


@handles("assets.use_all")
def use_all_job(key: str) -> None:
    """Sum the use of all devices of lab ``key`` again over all time: rules or claims changed who is charged."""
    lab = Lab.objects.get(pk=int(key))
    first, end = use.hours_of_ledger(lab)
    for hour in range(first, end, MONTH):
        _summed(lab, hour, min(hour + MONTH, end))


def _summed(lab: Lab, from_hour: int, to_hour: int) -> None:
    changed = use.roll_up(lab=lab, from_hour=from_hour, to_hour=to_hour)
    ids = assets_metered_by(lab, changed) if changed else []
    for start in range(0, len(ids), CHUNK):
        recharge(
            lab=lab, asset_ids=ids[start : start + CHUNK], since=max(0, from_hour - 48)
        )  # the days of the lab that this touches


@handles("assets.charge")
def charge_job(key: str) -> None:
    """Charge all assets of lab ``key`` again."""
    recharge_lab(lab=Lab.objects.get(pk=int(key)))
