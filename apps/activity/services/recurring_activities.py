"""Add and end recurring activities, and record their periods: each once, after it is over."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import Lab, User
from apps.activity.choices import Act, RepetitionKind
from apps.activity.drafts import Draft
from apps.activity.kinds import check_hours, parse_inputs, values_of
from apps.activity.models import Activity, RecurringActivity
from apps.activity.periods import SHORTEST_DAYS, RecurringPeriod, external_id, period
from apps.activity.services.activities import Preview, preview_activity, store_activities
from apps.activity.services.lookups import Lookups
from apps.core.clock import utc
from apps.core.errors import Conflict, InvalidInput, LabCarbonError
from apps.core.jobs import enqueue
from apps.core.units import US_PER_HOUR

RECORD = "activity.record_recurring"
_DAY_US = 24 * US_PER_HOUR


@dataclass(frozen=True)
class Repetition:
    """How an activity repeats. ``last_day`` None: until it is ended."""

    kind: RepetitionKind
    first_day: date
    last_day: date | None = None

    @property
    def first_period(self) -> RecurringPeriod:
        return period(self.kind, self.first_day, 0)


def preview_period(*, lab: Lab, draft: Draft, repetition: Repetition, now: int) -> Preview:
    """Compute the first period of a recurring activity without saving it. The period of ``draft``
    is replaced, and can be in the future. Raises InvalidInput.
    """
    first = repetition.first_period
    if repetition.last_day is not None and repetition.last_day < first.last_day:
        raise InvalidInput(
            f"No period is over by that day: the first one ends on {first.last_day}.",
            field="until",
            hint="Enter that day, a later one, or none.",
        )
    if draft.external_id:
        raise InvalidInput(
            "A recurring activity has no external id.",
            field="external_id",
            hint="Leave it empty: each period has its own.",
        )
    dated = _in_period(draft, first, lab)
    computed = preview_activity(lab=lab, draft=dated, now=max(now, dated.end_us))
    check_hours(
        computed.kind,
        values_of(computed.kind, computed.inputs),
        SHORTEST_DAYS[repetition.kind] * _DAY_US,
        f"the shortest {repetition.kind.value}",
    )
    return computed


@transaction.atomic
def add_recurring_activity(
    *, lab: Lab, draft: Draft, repetition: Repetition, form_key: str, by: User, now: int
) -> tuple[RecurringActivity, bool]:
    """Store a recurring activity; return it and whether it is new. Periods that are over are
    recorded by a job.

    ``form_key``: that of the form as it was opened, '' without one. The same key is the same
    recurring activity, whatever the form contains now.
    """
    audit.hold(lab)
    uuid = UUID(form_key) if form_key else uuid4()
    stored = RecurringActivity.objects.filter(lab=lab, uuid=uuid).first()
    if stored is not None:
        return stored, False
    lookups = Lookups(lab)
    computed = preview_period(lab=lab, draft=draft, repetition=repetition, now=now)
    added = RecurringActivity.objects.create(
        lab=lab,
        uuid=uuid,
        kind=draft.kind,
        name=computed.row.name,
        project=lookups.project(draft.project) if draft.project else None,
        zone=computed.zone,
        ug_per_kwh=draft.ug_per_kwh,
        pue_ppm=draft.pue_ppm,
        inputs=parse_inputs(computed.kind, draft.inputs),
        period=repetition.kind,
        first_day=repetition.first_day,
        last_day=repetition.last_day,
        next_first_day=repetition.first_day,
        created_us=now,
        created_by=by,
    )
    enqueue(kind=RECORD, key=str(added.pk))
    _note(added, by, Act.RECURRING_ADDED, now)
    return added, True


@transaction.atomic
def end_recurring_activity(*, recurring: RecurringActivity, by: User, now: int) -> None:
    """Record no further period. Recorded ones stay. Raises Conflict for one that has ended."""
    audit.hold(recurring.lab)
    stored = RecurringActivity.objects.select_for_update(of=("self",)).get(pk=recurring.pk)
    if stored.next_period is None:
        raise Conflict("This recurring activity has ended already.", hint="Reload the page.")
    stored.ended_us, stored.ended_by = now, by
    stored.save(update_fields=["ended_us", "ended_by"])
    _note(stored, by, Act.RECURRING_ENDED, now)


def due_activities(*, now: int) -> list[int]:
    """Return the numbers of recurring activities with a period that is over and not recorded."""
    rows = RecurringActivity.objects.filter(ended_us=None, next_first_day__lt=utc(now).date())
    return [row.pk for row in rows.select_related("lab").order_by("pk") if _due_period(row, now)]


def record_periods(*, pk: int, now: int) -> Iterator[date]:
    """Record the periods of a recurring activity that are over. Yield the first day of each.

    A period that is refused ends this: the reason is stored, and the daily job tries it again.
    """
    while (first_day := _record_next(pk, now)) is not None:
        yield first_day


@transaction.atomic
def _record_next(pk: int, now: int) -> date | None:
    """Record the next period that is over; return its first day, None if there is none or it is
    refused.
    """
    found = RecurringActivity.objects.select_related("lab").filter(pk=pk).first()
    if found is None:
        return None
    audit.hold(found.lab)
    rows = RecurringActivity.objects.select_related("lab", "project", "created_by")
    stored = rows.select_for_update(of=("self",)).get(pk=pk)
    due = _due_period(stored, now)
    if due is None:
        return None
    try:
        with transaction.atomic():
            _record(stored, due, now)
    except LabCarbonError as error:
        problem = f"{error.message} {error.hint}".strip()
        stored.problem = f"{problem[:1].upper()}{problem[1:]}"[:600]
        stored.save(update_fields=["problem"])
        return None
    stored.next_first_day, stored.problem = due.end_day, ""
    stored.save(update_fields=["next_first_day", "problem"])
    return due.first_day


def _record(recurring: RecurringActivity, due: RecurringPeriod, now: int) -> None:
    """Record the activity of a period, unless its external id exists. Its hours were checked when
    they were entered: a week with a change of the clock is an hour shorter.
    """
    lab, identity = recurring.lab, external_id(recurring.uuid, due.first_day)
    if Activity.objects.filter(lab=lab, external_id=identity).exists():
        return
    draft = replace(_in_period(_draft(recurring), due, lab), external_id=identity)
    lookups = Lookups(lab)
    computed = preview_activity(lab=lab, draft=draft, now=now, lookups=lookups)
    rows, refused = store_activities(
        computed=[(draft, computed)],
        lookups=lookups,
        by=recurring.created_by,
        origin="recurring activity",
        now=now,
    )
    for error in refused.values():
        raise error
    [activity] = rows
    enqueue(kind="attribution.run", key=f"{lab.pk}:{activity.uuid}")
    details = {
        "kind": activity.kind,
        "energy_mj": activity.energy_mj,
        "uuid": str(activity.uuid),
        "recurring": str(recurring.uuid),
        "first_day": due.first_day.isoformat(),
    }
    audit.record(
        lab=lab, by=None, action=Act.RECORDED, subject=activity.name, details=details, now=now
    )


def _due_period(recurring: RecurringActivity, now: int) -> RecurringPeriod | None:
    """Return the next period if it is over in the lab's time zone."""
    following = recurring.next_period
    if following is None or following.bounds_us(ZoneInfo(recurring.lab.time_zone))[1] > now:
        return None
    return following


def _in_period(draft: Draft, dated: RecurringPeriod, lab: Lab) -> Draft:
    start_us, end_us = dated.bounds_us(ZoneInfo(lab.time_zone))
    return replace(draft, start_us=start_us, end_us=end_us)


def _draft(recurring: RecurringActivity) -> Draft:
    """Return a recurring activity as entered, without a period."""
    return Draft(
        kind=recurring.kind,
        name=recurring.name,
        start_us=0,
        end_us=0,
        inputs=recurring.inputs,
        project=recurring.project.slug if recurring.project else "",
        zone=recurring.zone,
        ug_per_kwh=recurring.ug_per_kwh,
        pue_ppm=recurring.pue_ppm,
    )


def _note(recurring: RecurringActivity, by: User, action: Act, now: int) -> None:
    details = {
        "kind": recurring.kind,
        "period": recurring.period,
        "first_day": recurring.first_day.isoformat(),
        "last_day": recurring.last_day.isoformat() if recurring.last_day else "",
        "recorded_periods": recurring.recorded_periods,
        "uuid": str(recurring.uuid),
    }
    audit.record(
        lab=recurring.lab,
        by=by,
        action=action,
        subject=recurring.name,
        details=details,
        now=now,
    )
