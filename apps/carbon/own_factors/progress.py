"""How far the figures of a lab are priced again after a file of own factors."""

from django.db.models import F

from apps.accounts.models import Lab
from apps.carbon.choices import RollupKind
from apps.carbon.rollups.writer import count_days
from apps.core.models import Job
from apps.core.units import hour_of


def repriced_percent(
    lab: Lab, *, from_hour: int | None, to_hour: int | None, since_us: int, now: int
) -> int | None:
    """Return the share of days that are summed again after a change at ``since_us``, None before
    the job of the change has run. Pages show the new figures as soon as it has.
    """
    waiting = Job.objects.filter(
        kind="carbon.apply_factors", key=str(lab.pk), done__lt=F("requested")
    )
    if waiting.exists():
        return None
    if from_hour is None or to_hour is None:
        return 100
    until = min(to_hour, hour_of(since_us) - 1)  # later hours are summed as they end
    done, total = count_days(lab, RollupKind.USE, from_hour, max(until, from_hour), now)
    return 100 * done // total if total else 100
