"""Jobs of carbon."""

from apps.accounts.models import Lab
from apps.carbon.rollups import writer
from apps.carbon.services import apply_factors
from apps.core.clock import now_us
from apps.core.jobs import enqueue, job


@job("carbon.apply_factors")
def apply_factors_job(key: str) -> None:
    """Derive the applied factors of lab ``key``."""
    apply_factors(lab=Lab.objects.get(pk=int(key)))


@job(writer.ROLL_UP)
def roll_up_job(key: str) -> None:
    """Roll up the completed days of lab ``key``, and hours of its current day.

    A job of its own continues after the time limit.
    """
    lab, now = Lab.objects.get(pk=int(key)), now_us()
    if writer.roll_up(lab=lab, now=now):
        writer.ask_for_next_hour(lab=lab, now=now)
    else:
        enqueue(kind=writer.ROLL_UP, key=key)


@job(writer.HOUR_OVER)
def hour_over_job(key: str) -> None:
    """Enqueue the rollup of the hour of lab ``key`` that ended, or of the day.

    It has its own kind: a job that waits until the next hour would also delay jobs enqueued now.
    """
    enqueue(kind=writer.ROLL_UP, key=key, due_us=now_us() + writer.DELAY_US)
