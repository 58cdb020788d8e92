"""A sweep against the runs of a lab: duplicates, finished runs, totals and alternatives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Q

from apps.accounts.models import Lab
from apps.accounts.selectors import project_by_slug, require_project
from apps.carbon.figures.energy import Figure, figures_of_runs
from apps.core.errors import InvalidInput, NotFound
from apps.planner.sweep_runs.works import (
    Duplicate,
    ambiguous_params,
    done_keys,
    duplicates,
    family_keys,
    new_params,
    point_fingerprints,
    unknown_parts,
)
from apps.planner.sweeps.alternatives import (
    coarser_axes,
    coarser_points,
    fewest_random,
    random_points,
)
from apps.planner.sweeps.sweep import Sweep
from apps.planner.sweeps.totals import Total, total_of
from apps.runs.choices import Intent, RunState, Tier
from apps.runs.fingerprint_parsing import FingerprintIn
from apps.runs.models import Fingerprint, Run, TierKey
from apps.runs.services.fingerprints import (
    ignored_params_of_project,
    ignored_params_of_run,
    row_from_payload,
)

MAX_FAMILY_RUNS = 200


@dataclass(frozen=True)
class SweepRequest:
    """A sweep and the work that it varies: an earlier run, or a fingerprint, or neither."""

    sweep: Sweep
    base: UUID | None = None
    fingerprint: FingerprintIn | None = None
    project: str = ""
    random_runs: int | None = None


@dataclass(frozen=True)
class DoneRun:
    """A finished run of the same work. ``is_possible``: a part is known by names, sizes and times
    only, was not examined, or no seed is set, or labels differ.
    """

    uuid: UUID
    started_us: int
    is_possible: bool


@dataclass(frozen=True)
class Totals:
    """Totals of runs, each None without a measured run of the family."""

    energy_mj: Total | None
    emission_ug: Total | None
    cost_ucurrency: Total | None


@dataclass(frozen=True)
class Alternative:
    """A smaller sweep. ``points``: numbers of its points. ``values``: those of a coarser grid."""

    kind: str
    points: Sequence[int]
    new_runs: int
    saved: Totals
    values: Mapping[str, Sequence[Any]] | None = None


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep will run. ``done`` None: unknown, ``unknown`` has the reasons. ``duplicates``
    None: the points are unknown. ``new_params``: swept parameters that the base does not have.
    """

    duplicates: list[Duplicate] | None
    done: dict[int, DoneRun] | None
    unknown: list[str]
    new_params: list[str]
    new_runs: int
    family_runs: int | None
    totals: Totals
    alternatives: list[Alternative] = field(default_factory=list)


def plan_sweep(*, lab: Lab, request: SweepRequest) -> SweepPlan:
    """Return what a sweep will run. The number of queries does not depend on its size."""
    sweep = request.sweep
    base, ignored = _base(lab, request)
    figures = _family_figures(lab, base, ignored)
    if sweep.points is None:
        if request.random_runs is not None:
            raise _no_alternative()
        totals = _totals(figures, sweep.runs)
        return SweepPlan(None, None, ["points"], [], sweep.runs, _number(figures), totals)
    fingerprints = point_fingerprints(sweep.points)
    repeated = duplicates(fingerprints, ignored)
    first = list(range(sweep.runs))
    for duplicate in repeated:
        first[duplicate.point] = duplicate.of
    done: dict[int, DoneRun] | None = None
    unknown, new_names = ["base"], list[str]()
    if base is not None:
        new_names = new_params(fingerprints, base)
        unknown = unknown_parts(base) + ambiguous_params(sweep.points, fingerprints, base)
        if not unknown:
            numbers = sorted(set(first))
            keys = done_keys([fingerprints[number] for number in numbers], base, ignored)
            done = _done_runs(lab, dict(zip(numbers, keys, strict=True)), fingerprints, base)
    new = set(first) - set(done or ())
    return SweepPlan(
        duplicates=repeated,
        done=done,
        unknown=unknown if done is None else [],
        new_params=new_names,
        new_runs=len(new),
        family_runs=_number(figures),
        totals=_totals(figures, len(new)),
        alternatives=_alternatives(request, first, new, figures),
    )


def _base(lab: Lab, request: SweepRequest) -> tuple[Fingerprint | None, frozenset[str]]:
    """Return the work that a sweep varies, and the ignored parameters of its project."""
    if request.project:
        require_project(lab, request.project)
    project = project_by_slug(lab, request.project) if request.project else None
    if request.base is None:
        ignored = ignored_params_of_project(project.pk if project else None)
        payload = request.fingerprint
        return (row_from_payload(payload) if payload is not None else None), ignored
    run = Run.objects.filter(lab=lab, uuid=request.base).select_related("fingerprint").first()
    if run is None:
        raise NotFound(
            "There is no such run in this lab.", field="base", hint="Use the UUID of a run."
        )
    ignored = ignored_params_of_project(project.pk) if project else ignored_params_of_run(run)
    row = getattr(run, "fingerprint", None)
    if row is None:
        raise InvalidInput(
            "This run has no fingerprint.", field="base", hint="Choose a run with a fingerprint."
        )
    return row, ignored


def _done_runs(
    lab: Lab,
    keys: Mapping[int, Sequence[tuple[Tier, int]]],
    fingerprints: Sequence[FingerprintIn],
    base: Fingerprint,
) -> dict[int, DoneRun]:
    """Return the finished run of each point that has one: a verified one first, then the newest.
    One query.
    """
    by_tier: dict[Tier, set[int]] = {}
    for point_keys in keys.values():
        for tier, key in point_keys:
            by_tier.setdefault(tier, set()).add(key)
    if not by_tier:
        return {}
    condition = Q()
    for tier, tier_keys in by_tier.items():
        condition |= Q(tier=tier, key__in=tier_keys)
    fields = ("tier", "key", "run__uuid", "run__started_us", "run__fingerprint__labels",
              "run__fingerprint__not_compared")  # fmt: skip
    found: dict[tuple[int, int], list[tuple[Any, ...]]] = {}
    rows = TierKey.objects.filter(condition, lab=lab, run__state=RunState.FINISHED)
    for tier, key, *run in rows.exclude(run__intent=Intent.PROBE).values_list(*fields):
        found.setdefault((tier, key), []).append(tuple(run))
    done = {}
    for number, point_keys in keys.items():
        fingerprint = fingerprints[number]
        labels = None if base.labels is None else base.labels | (fingerprint.labels or {})
        is_unseeded = not base.seeds and not fingerprint.seeds
        candidates = [
            DoneRun(
                uuid,
                started_us,
                tier != Tier.F1
                or is_unseeded
                or labels is None
                or labels != other_labels
                or bool(base.not_compared or not_compared),
            )
            for tier, key in point_keys
            for uuid, started_us, other_labels, not_compared in found.get((tier, key), ())
        ]
        if candidates:
            done[number] = min(candidates, key=lambda run: (run.is_possible, -run.started_us))
    return done


def _family_figures(
    lab: Lab, base: Fingerprint | None, ignored: frozenset[str]
) -> list[Figure] | None:
    """Return the figures of the newest measured finished runs of the family of ``base``; None if
    its family is unknown. Three queries.
    """
    keys = family_keys(base, ignored) if base is not None else []
    if not keys:
        return None
    condition = Q()
    for tier, key in keys:
        condition |= Q(tier=tier, key=key)
    ids = TierKey.objects.filter(condition, lab=lab).values("run_id")
    runs = Run.objects.filter(lab=lab, pk__in=ids, state=RunState.FINISHED)
    newest = runs.exclude(intent=Intent.PROBE).order_by("-started_us", "-pk")
    uuids = list(newest.values_list("uuid", flat=True)[:MAX_FAMILY_RUNS])
    return list(figures_of_runs(lab, uuids).values())


def _number(figures: Sequence[Figure] | None) -> int | None:
    return None if figures is None else len(figures)


def _totals(figures: Sequence[Figure] | None, runs: int) -> Totals:
    """Return the totals of ``runs`` runs. Incomplete emissions and costs of a run are unknown."""
    measured = figures or ()
    emissions = [figure.emission_ug for figure in measured if not figure.without_factor_mj]
    costs = [figure.cost_ucurrency for figure in measured if not figure.without_price_mj]
    return Totals(
        total_of([figure.energy_mj for figure in measured], runs),
        total_of(emissions, runs),
        total_of(costs, runs),
    )


def _alternatives(
    request: SweepRequest,
    first: Sequence[int],
    new: set[int],
    figures: Sequence[Figure] | None,
) -> list[Alternative]:
    """Return smaller sweeps. ``first``: the first point with the work of each point."""
    axes = request.sweep.axes
    if axes is None:
        if request.random_runs is not None:
            raise _no_alternative()
        return []
    alternatives = []

    def add(kind: str, points: list[int], values: Mapping[str, Sequence[Any]] | None) -> None:
        runs = len({first[number] for number in points} & new)
        saved = _totals(figures, len(new) - runs)
        alternatives.append(Alternative(kind, points, runs, saved, values))

    remaining = coarser_axes(axes)
    if remaining is not None:
        values = {
            name: [axes[name][index] for index in places] for name, places in remaining.items()
        }
        add("coarser", list(coarser_points(axes, remaining)), values)
    fewest = fewest_random(axes)
    runs = fewest if request.random_runs is None else request.random_runs
    if not fewest <= runs <= request.sweep.runs:
        raise InvalidInput(
            f"{runs} random runs are not possible.",
            field="random_runs",
            hint=f"{fewest} runs cover each value; the grid has {request.sweep.runs}.",
        )
    if runs < request.sweep.runs:
        add("random", random_points(axes, runs), None)
    return alternatives


def _no_alternative() -> InvalidInput:
    return InvalidInput(
        "This sweep has no random alternative.",
        field="random_runs",
        hint="Leave it out: only a grid has one.",
    )
