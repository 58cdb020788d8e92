"""Jobs of budgets."""

from django.db.models import F

from apps.accounts.models import Lab
from apps.budgets.models import Budget
from apps.budgets.stored_forecasts import record_forecasts
from apps.core.clock import now_us
from apps.core.jobs import enqueue, job, periodic_job
from apps.core.models import Job
from apps.core.units import US_PER_HOUR

FORECAST, START = "budgets.forecast", "budgets.start_forecasts"


@job(FORECAST)
def forecast_job(key: str) -> None:
    """Store and score the forecasts of lab ``key``, again after its next midnight."""
    due_us = record_forecasts(lab=Lab.objects.get(pk=int(key)), now=now_us())
    enqueue(kind=FORECAST, key=key, due_us=due_us)


@periodic_job(START)
def start_forecasts_job() -> int:
    """Enqueue the forecasts of labs with budgets for which no job waits."""
    waiting = Job.objects.filter(kind=FORECAST, done__lt=F("requested"))
    keys = set(waiting.values_list("key", flat=True))
    for lab_id in Budget.objects.order_by("lab").values_list("lab", flat=True).distinct():
        if str(lab_id) not in keys:
            enqueue(kind=FORECAST, key=str(lab_id))
    return now_us() + US_PER_HOUR
