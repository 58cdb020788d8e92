"""Score attached estimates: duration and measured energy of the runs that finished."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import Q

from apps.accounts.models import Lab
from apps.core.jobs import renew_lease
from apps.planner.models import Estimate
from apps.planner.outcomes.states import FIRST_SCORE_US, SCORES_CHANGE_US
from apps.planner.past_runs import EXCLUDED_INTENTS, measured_use
from apps.runs.choices import RunState

_CHUNK = 500
_FIELDS = ("actual_time_us", "actual_gpu_energy_mj", "actual_node_energy_mj")


def score_estimates(*, now: int) -> None:
    """Score estimates whose run finished an hour ago or more: once, and again for eight days, as
    windows are uploaded late. Withdraw the scores of runs that are no longer finished.
    """
    scorable = Q(run__state=RunState.FINISHED, run__ended_us__isnull=False) & ~Q(
        run__intent__in=EXCLUDED_INTENTS
    )
    withdrawn = Estimate.objects.filter(~scorable, run__isnull=False, scored_us__isnull=False)
    withdrawn.update(scored_us=None, **dict.fromkeys(_FIELDS))
    due = Estimate.objects.filter(
        scorable,
        Q(scored_us__isnull=True) | Q(run__ended_us__gt=now - SCORES_CHANGE_US),
        run__ended_us__lte=now - FIRST_SCORE_US,
    ).order_by("pk")
    for lab in Lab.objects.filter(pk__in=due.order_by().values("lab")).order_by("pk"):
        last_pk = 0
        while rows := list(due.filter(lab=lab, pk__gt=last_pk).select_related("run")[:_CHUNK]):
            renew_lease()
            _score(lab, rows, now)
            last_pk = rows[-1].pk


@transaction.atomic
def _score(lab: Lab, rows: Sequence[Estimate], now: int) -> None:
    runs = {row.pk: row.run for row in rows if row.run is not None}
    use = measured_use(lab, [run.uuid for run in runs.values()])
    changed = []
    for row in rows:
        run = runs[row.pk]
        assert run.ended_us is not None
        measured = use.get(run.uuid)
        outcome = (
            run.ended_us - run.started_us,
            measured.gpu_energy_mj if measured else None,
            measured.node_energy_mj if measured else None,
        )
        if row.scored_us is None or outcome != tuple(getattr(row, name) for name in _FIELDS):
            for name, value in zip(_FIELDS, outcome, strict=True):
                setattr(row, name, value)
            row.scored_us = now
            changed.append(row)
    Estimate.objects.bulk_update(changed, ["scored_us", *_FIELDS])
