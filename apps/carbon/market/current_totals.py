"""Market-based totals that are up to date, in one query, for pages that show them in passing."""

from django.db.models import Exists, F, OuterRef, Q

from apps.accounts.models import Lab
from apps.carbon.choices import RollupKind
from apps.carbon.market.choices import RuleEdition
from apps.carbon.market.models import MarketYear
from apps.carbon.market.selectors import matching_year
from apps.carbon.market.services import MATCH
from apps.carbon.market.stored_result import YearResult, result_from_json
from apps.carbon.models import RolledDay, StaleSpan
from apps.core.models import Job
from apps.core.units import hour_of

_INPUT_JOBS = (MATCH, "carbon.apply_factors")


def current_totals(
    lab: Lab, year: int, now: int
) -> tuple[int, dict[RuleEdition, YearResult]] | None:
    """Return the end of the complete days and the totals of a year by rule edition, None if they
    are not stored or an input has changed. One query.

    Each change of an input enqueues a job or marks rolled hours stale, in its transaction. A change
    of rolled hours enqueues the computation. So without pending jobs and stale hours the totals are
    those of the current inputs.
    """
    hours = matching_year(lab, year)
    of_year = Q(
        lab=lab,
        what=RollupKind.USE,
        from_hour__lt=OuterRef("until_hour"),
        to_hour__gt=OuterRef("from_hour"),
    )
    is_other = ~Q(basis=lab.basis, time_zone=lab.time_zone)
    pending = Job.objects.filter(kind__in=_INPUT_JOBS, key=str(lab.pk), done__lt=F("requested"))
    rows = MarketYear.objects.filter(
        ~Exists(StaleSpan.objects.filter(of_year)),
        ~Exists(RolledDay.objects.filter(of_year, is_other)),
        ~Exists(pending),
        lab=lab,
        year=year,
        from_hour=hours.from_hour,
    )
    if hour_of(now) >= hours.to_hour:
        rows = rows.filter(until_hour=hours.to_hour)
    found = {RuleEdition(row.edition): row for row in rows}
    if len(found) < len(RuleEdition):
        return None
    until_hour = min(row.until_hour for row in found.values())
    return until_hour, {edition: result_from_json(found[edition].result) for edition in RuleEdition}
