"""Queries of holds: active holds and the artifacts that they protect."""

from collections.abc import Iterable, Mapping

from django.db.models import Q, QuerySet

from apps.accounts.models import Lab
from apps.artifacts.models import Artifact, Hold, LineageEdge
from apps.core.units import END_HOUR, hour_of

_BATCH_SIZE = 500


def active_holds(lab: Lab, now: int) -> QuerySet[Hold]:
    """Return the holds of a lab that are active at ``now`` (µs)."""
    hour = hour_of(now)
    holds = Hold.objects.filter(
        Q(until_hour=None) | Q(until_hour__gt=hour), lab=lab, lifted_us=None, from_hour__lte=hour
    )
    return holds.select_related("artifact", "project", "run", "by")


def effective_holds(lab: Lab, artifacts: Mapping[int, Artifact], now: int) -> dict[int, Hold]:
    """Return the hold that protects each of ``artifacts`` (by primary key) at ``now``.

    Of several holds the one that ends last counts. Artifacts without a hold are left out. One
    query, plus one for each 500 runs with a hold.
    """
    on_artifacts, on_projects, on_runs = dict[int, Hold](), dict[int, Hold](), dict[int, Hold]()
    for hold in active_holds(lab, now).order_by("pk"):
        for holds_by_number, number in (
            (on_artifacts, hold.artifact_id),
            (on_projects, hold.project_id),
            (on_runs, hold.run_id),
        ):
            if number is not None:
                holds_by_number[number] = latest_ending(
                    [hold, *filter(None, [holds_by_number.get(number)])]
                )
    holds_by_run = _holds_on_runs(on_runs, artifacts)
    effective = {}
    for pk, artifact in artifacts.items():
        holds = [
            on_artifacts.get(pk),
            on_projects.get(artifact.project_id or 0),
            holds_by_run.get(pk),
        ]
        if any(holds):
            effective[pk] = latest_ending(filter(None, holds))
    return effective


def latest_ending(holds: Iterable[Hold]) -> Hold:
    """Return the hold that ends last, and of equal ends the one placed first."""
    return min(
        holds,
        key=lambda hold: (-(END_HOUR if hold.until_hour is None else hold.until_hour), hold.pk),
    )


def _holds_on_runs(
    on_runs: Mapping[int, Hold], artifacts: Mapping[int, Artifact]
) -> dict[int, Hold]:
    """Return the holds on runs by artifact: everything that the runs produced or read."""
    holds: dict[int, Hold] = {}
    runs = sorted(on_runs)
    for start in range(0, len(runs), _BATCH_SIZE):
        edges = LineageEdge.objects.filter(run__in=runs[start : start + _BATCH_SIZE]).values_list(
            "artifact_id", "run_id"
        )
        for pk, run in edges.order_by("pk"):
            if pk in artifacts:
                holds[pk] = latest_ending([on_runs[run], *filter(None, [holds.get(pk)])])
    return holds


def holds_on_artifact(artifact: Artifact, now: int) -> list[Hold]:
    """Return all holds that protect an artifact at ``now``, the one that ends last first.

    These are its own, its project's and those of runs that produced or read it.
    """
    runs = LineageEdge.objects.filter(artifact=artifact).values("run")
    condition = Q(artifact=artifact) | Q(run__in=runs)
    if artifact.project_id is not None:
        condition |= Q(project=artifact.project_id)
    return _sorted(active_holds(artifact.lab, now).filter(condition))


def holds_on_subject(lab: Lab, now: int, **subject: object) -> list[Hold]:
    """Return the active holds on one subject: ``project=…``, ``run=…`` or ``artifact=…``."""
    return _sorted(active_holds(lab, now).filter(**subject))


def _sorted(holds: QuerySet[Hold]) -> list[Hold]:
    return sorted(
        holds,
        key=lambda hold: (-(END_HOUR if hold.until_hour is None else hold.until_hour), hold.pk),
    )


def hold_by_pk(lab: Lab, pk: int | None) -> Hold | None:
    """Return a hold of the lab, or None."""
    return (
        Hold.objects.filter(lab=lab, pk=pk)
        .select_related("artifact", "project", "run", "by")
        .first()
        if pk
        else None
    )
