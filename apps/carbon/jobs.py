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
    """Sum the days of lab ``key`` that are over; what is left after a while in a job of its own."""
    lab, now = Lab.objects.get(pk=int(key)), now_us()
    if writer.roll_up(lab=lab, now=now):
        writer.ask_for_tomorrow(lab=lab, now=now)
    else:
        enqueue(kind=writer.ROLL_UP, key=key)


@job(writer.DAY_OVER)
def day_over_job(key: str) -> None:
    """Ask for the day of lab ``key`` that ended to be summed. A kind of its own, since it waits: what is asked for now
    does not wait with it."""
    enqueue(kind=writer.ROLL_UP, key=key, due_us=now_us() + writer.DELAY_US)
