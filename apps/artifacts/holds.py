"""Reads of holds: which artifacts stay by one now, and which holds there are."""

from collections.abc import Iterable, Mapping

from django.db.models import Q, QuerySet

from apps.accounts.models import Lab
from apps.artifacts.models import Artifact, Hold, LineageEdge
from apps.core.units import END_HOUR, hour_of

_RUNS_AT_ONCE = 500


def in_force(lab: Lab, now: int) -> QuerySet[Hold]:
    """Return the holds of a lab that keep something at ``now`` (µs)."""
    hour = hour_of(now)
    standing = Hold.objects.filter(Q(until_hour=None) | Q(until_hour__gt=hour), lab=lab, lifted_us=None, from_hour__lte=hour)
    return standing.select_related("artifact", "project", "run", "by")


def held_by(lab: Lab, artifacts: Mapping[int, Artifact], now: int) -> dict[int, Hold]:
    """Return the hold that keeps each of ``artifacts`` (by number) at ``now``: of several the one that ends last. What
    nothing holds is left out. One query, and one for each 500 runs that are held."""
    on_artifacts, on_projects, on_runs = dict[int, Hold](), dict[int, Hold](), dict[int, Hold]()
    for hold in in_force(lab, now).order_by("pk"):
        for kept, number in ((on_artifacts, hold.artifact_id), (on_projects, hold.project_id), (on_runs, hold.run_id)):
            if number is not None:
                kept[number] = longest([hold, *filter(None, [kept.get(number)])])
    by_run = _of_runs(on_runs, artifacts)
    found = {}
    for pk, each in artifacts.items():
        holds = [on_artifacts.get(pk), on_projects.get(each.project_id or 0), by_run.get(pk)]
        if any(holds):
            found[pk] = longest(filter(None, holds))
    return found


def longest(holds: Iterable[Hold]) -> Hold:
    """Return the hold that ends last, of those that end together the first that was placed."""
    return min(holds, key=lambda hold: (-(END_HOUR if hold.until_hour is None else hold.until_hour), hold.pk))


def _of_runs(on_runs: Mapping[int, Hold], artifacts: Mapping[int, Artifact]) -> dict[int, Hold]:
    """Return what holds on runs keep: all that they made or read."""
    found: dict[int, Hold] = {}
    runs = sorted(on_runs)
    for start in range(0, len(runs), _RUNS_AT_ONCE):
        edges = LineageEdge.objects.filter(run__in=runs[start : start + _RUNS_AT_ONCE]).values_list("artifact_id", "run_id")
        for pk, run in edges.order_by("pk"):
            if pk in artifacts:
                found[pk] = longest([on_runs[run], *filter(None, [found.get(pk)])])
    return found


def holds_of(artifact: Artifact, now: int) -> list[Hold]:
    """Return all holds that keep an artifact at ``now``, the one that ends last first: its own, its project's, those of runs
    that made or read it."""
    runs = LineageEdge.objects.filter(artifact=artifact).values("run")
    its = Q(artifact=artifact) | Q(run__in=runs)
    if artifact.project_id is not None:
        its |= Q(project=artifact.project_id)
    return _sorted(in_force(artifact.lab, now).filter(its))


def holds_on(lab: Lab, now: int, **what: object) -> list[Hold]:
    """Return the holds in force on one thing: ``project=…``, ``run=…`` or ``artifact=…``."""
    return _sorted(in_force(lab, now).filter(**what))


def _sorted(holds: QuerySet[Hold]) -> list[Hold]:
    return sorted(holds, key=lambda hold: (-(END_HOUR if hold.until_hour is None else hold.until_hour), hold.pk))


def hold_of(lab: Lab, pk: int | None) -> Hold | None:
    """Return the lab's hold with a number, or None."""
    return Hold.objects.filter(lab=lab, pk=pk).select_related("artifact", "project", "run", "by").first() if pk else None
