"""Jobs of carbon."""

from apps.accounts.models import Lab
from apps.carbon.hourly_factors import record_hours
from apps.carbon.market.market_years import compute_years
from apps.carbon.market.services import MATCH
from apps.carbon.providers.fetch import fetch_provider
from apps.carbon.providers.forecasts import fetch_forecast
from apps.carbon.providers.models import GridProvider
from apps.carbon.providers.services import FETCH
from apps.carbon.rollups import writer
from apps.carbon.services import apply_factors
from apps.core.clock import now_us
from apps.core.jobs import DAY_US, enqueue, job, periodic_job
from apps.fleet.selectors import labs_with_hour_prices

FETCH_AGAIN = "carbon.fetch_provider_again"


@job("carbon.apply_factors")
def apply_factors_job(key: str) -> None:
    """Derive the applied factors of lab ``key``."""
    apply_factors(lab=Lab.objects.get(pk=int(key)))
    enqueue(kind=MATCH, key=key)


@job(MATCH)
def match_job(key: str) -> None:
    """Compute the missing and stale market-based totals of lab ``key``.

    A job of its own continues after the time limit.
    """
    if not compute_years(lab=Lab.objects.get(pk=int(key)), now=now_us()):
        enqueue(kind=MATCH, key=key)


@job(writer.ROLL_UP)
def roll_up_job(key: str) -> None:
    """Roll up the completed days of lab ``key``, and hours of its current day.

    A job of its own continues after the time limit.
    """
    lab, now = Lab.objects.get(pk=int(key)), now_us()
    if writer.roll_up(lab=lab, now=now):
        writer.ask_for_next_hour(lab=lab, now=now)
        enqueue(kind=MATCH, key=key)
    else:
        enqueue(kind=writer.ROLL_UP, key=key)


@job(writer.HOUR_OVER)
def hour_over_job(key: str) -> None:
    """Enqueue the rollup of the hour of lab ``key`` that ended, or of the day.

    It has its own kind: a job that waits until the next hour would also delay jobs enqueued now.
    """
    enqueue(kind=writer.ROLL_UP, key=key, due_us=now_us() + writer.DELAY_US)


@job(FETCH)
def fetch_provider_job(key: str) -> None:
    """Fetch the hours of provider ``key`` and schedule the next request. A disabled or removed
    provider is not requested.
    """
    row = (
        GridProvider.objects.select_related("lab")
        .filter(pk=int(key), enabled=True, removed_us=None)
        .first()
    )
    if row is None:
        return
    fetch_provider(row, record_hours)
    fetch_forecast(row)
    enqueue(kind=FETCH_AGAIN, key=key, due_us=row.due_us)


@job(FETCH_AGAIN)
def fetch_provider_again_job(key: str) -> None:
    """Enqueue the next request. A separate kind, so that an immediate request does not wait for the
    timer.
    """
    enqueue(kind=FETCH, key=key)


@periodic_job("carbon.extend_hour_prices")
def extend_hour_prices_job() -> int:
    """Enqueue the derivation of prices by hour, daily: they are written some weeks ahead."""
    for lab_id in labs_with_hour_prices():
        enqueue(kind="carbon.apply_factors", key=str(lab_id))
    return now_us() + DAY_US
