"""The alternatives to a planned training, as differences in time, energy, emissions and cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from apps.core.errors import InvalidInput
from apps.planner.choices import Basis
from apps.planner.evidence import Evidence
from apps.planner.formulas.byte_range import ByteRange
from apps.planner.formulas.memory import judge
from apps.planner.formulas.ranges import Range, Spread
from apps.planner.formulas.time_and_energy import MAX_RUNS
from apps.planner.formulas.what_ifs import (
    Difference,
    StoppingShare,
    operations_spread,
    scale,
    separate_difference,
    shared_difference,
    stopping_ppm,
    stopping_share,
)
from apps.planner.formulas.work import is_large, training_flops
from apps.planner.job_input import JobInput
from apps.planner.past_runs import family_run_ids
from apps.planner.services import ComputedEstimate, estimate_from
from apps.planner.what_ifs.alternatives import Alternative, Effect, Plan, alternatives
from apps.planner.what_ifs.past_curves import read_past_curves
from apps.planner.what_ifs.reuse import Reuse, reuse_of

NO_BASIS = "The planned training has no basis."
NO_BASIS_ALTERNATIVE = "The alternative has no basis."
NO_PAST_CURVE = "No past curve of its family is known."
NO_KNOWN_EFFECT = "It has no known effect on time."
NO_ADAPTATION = "No measured run has adapted such a model."
NO_RUNS_AT_PRECISION = "No measured run of both precisions on this card has known operations."
# Bases whose estimates follow from operations, so that those of an alternative can be computed.
_BY_OPERATIONS = (Basis.OPERATIONS, Basis.CATALOGUE)


@dataclass(frozen=True)
class Figures:
    """Time, energy, emissions and cost of a training, each None if it is unknown."""

    time_us: Range | None = None
    energy_mj: Range | None = None
    emission_ug: Range | None = None
    cost_ucurrency: Range | None = None


@dataclass(frozen=True)
class WhatIf:
    """An alternative and its differences to the plan; None: unknown, ``missing`` states why.
    ``fit`` '': memory of the alternative or of the card is unknown.
    """

    key: str
    facts: Mapping[str, int | str]
    memory: ByteRange | None
    fit: str
    time_us: Difference | None = None
    energy_mj: Difference | None = None
    emission_ug: Difference | None = None
    cost_ucurrency: Difference | None = None
    missing: str = ""


@dataclass(frozen=True)
class WhatIfs:
    """The alternatives to a plan. ``reuse`` None: there is no model to adapt."""

    rows: Sequence[WhatIf]
    reuse: Reuse | None


def what_ifs(evidence: Evidence, plan: Plan, planned: ComputedEstimate) -> WhatIfs:
    """Return the alternatives that apply to a plan with its estimate. The number of queries does
    not depend on their number.
    """
    plan = replace(plan, job=replace(plan.job, work=planned.work))
    share = past_share(evidence)
    rows = [_what_if(evidence, plan, planned, each) for each in alternatives(plan, share)]
    reuse = reuse_of(evidence, plan)
    if reuse is not None:
        rows.insert(0, _adaptation(planned, reuse))
    return WhatIfs(rows, reuse)


def _adaptation(planned: ComputedEstimate, reuse: Reuse) -> WhatIf:
    """Return the adaptation of a model of the registry instead of the planned training."""
    facts: dict[str, int | str] = {"models": len(reuse.models), "runs": reuse.runs}
    if reuse.basis is not None:
        facts["basis"] = reuse.basis.label
    row = WhatIf("adapt", facts, None, "")
    if reuse.energy_mj is None or planned.figures is None:
        return replace(row, missing=NO_ADAPTATION if reuse.energy_mj is None else NO_BASIS)
    before, conditions = _figures(planned), planned.conditions
    emission_ug = conditions.emission(reuse.energy_mj)
    cost_ucurrency = conditions.cost(reuse.energy_mj)
    return replace(
        row,
        time_us=_difference(before.time_us, reuse.time_us, None),
        energy_mj=_difference(before.energy_mj, reuse.energy_mj, None),
        emission_ug=_difference(before.emission_ug, emission_ug, None),
        cost_ucurrency=_difference(before.cost_ucurrency, cost_ucurrency, None),
    )


def past_share(evidence: Evidence) -> StoppingShare | None:
    """Return the share of their epochs that the runs of the family needed, on any card."""
    if evidence.parts is None:
        return None
    newest = sorted(family_run_ids(evidence.lab, evidence.parts), reverse=True)
    curves = read_past_curves(newest[:MAX_RUNS])
    shares = [share for curve in curves if (share := stopping_ppm(curve)) is not None]
    return stopping_share(shares)


def _what_if(
    evidence: Evidence, plan: Plan, planned: ComputedEstimate, each: Alternative
) -> WhatIf:
    fit = judge(each.memory, plan.card_bytes) if each.memory and plan.card_bytes else ""
    row = WhatIf(each.key, each.facts, each.memory, fit)
    missing = _missing(each, planned)
    if missing:
        return replace(row, missing=missing)
    try:
        changed = _changed(evidence, planned, each)
    except InvalidInput:  # more work than a figure can hold
        changed = None
    if changed is None:
        is_precision = each.effect == Effect.PRECISION
        return replace(row, missing=NO_RUNS_AT_PRECISION if is_precision else NO_BASIS_ALTERNATIVE)
    figures, spread = changed
    before = _figures(planned)
    return replace(
        row,
        time_us=_difference(before.time_us, figures.time_us, spread),
        energy_mj=_difference(before.energy_mj, figures.energy_mj, spread),
        emission_ug=_difference(before.emission_ug, figures.emission_ug, spread),
        cost_ucurrency=_difference(before.cost_ucurrency, figures.cost_ucurrency, spread),
    )


def _missing(each: Alternative, planned: ComputedEstimate) -> str:
    if each.effect == Effect.MEMORY:
        return NO_KNOWN_EFFECT
    if planned.figures is None:
        return NO_BASIS
    if not each.jobs:
        return NO_PAST_CURVE
    return ""


def _changed(
    evidence: Evidence, planned: ComputedEstimate, each: Alternative
) -> tuple[Figures, Spread | None] | None:
    """Return the figures of an alternative, and the spread of their ratio to the planned ones. None
    in its place: they rest on other evidence. None: no basis.
    """
    if each.effect == Effect.PRECISION:
        if planned.basis != Basis.OPERATIONS:
            return None
        figures = _sum_of_jobs(evidence, planned, each.jobs)
        return (figures, None) if figures else None
    before = _operations(planned.job)
    if not before:
        return None
    ratio = Fraction(sum(map(_operations, each.jobs)), before)
    if each.effect == Effect.WORK:
        if planned.basis == Basis.OWN_RUNS:
            return _scaled(planned, ratio), each.ratio_spread
        figures = _sum_of_jobs(evidence, planned, each.jobs)
        return (figures, each.ratio_spread) if figures else None
    spread = operations_spread(ratio)
    if planned.basis not in _BY_OPERATIONS:
        return _scaled(planned, ratio), spread
    figures = _sum_of_jobs(evidence, planned, each.jobs)
    has_same_evidence = each.effect == Effect.OPERATIONS and all(
        _is_large(job) == _is_large(planned.job) for job in each.jobs
    )
    return (figures, spread if has_same_evidence else None) if figures else None


def _sum_of_jobs(
    evidence: Evidence, planned: ComputedEstimate, jobs: Sequence[JobInput]
) -> Figures | None:
    """Return the sum of the estimates of all jobs, None if one of them has another basis."""
    estimates = [estimate_from(evidence, job) for job in jobs]
    if any(each.basis != planned.basis for each in estimates):
        return None
    parts = [_figures(each) for each in estimates]
    return Figures(
        _sum([part.time_us for part in parts]),
        _sum([part.energy_mj for part in parts]),
        _sum([part.emission_ug for part in parts]),
        _sum([part.cost_ucurrency for part in parts]),
    )


def _figures(computed: ComputedEstimate) -> Figures:
    figures = computed.figures
    return Figures(
        figures.time_us if figures else None,
        figures.node_energy_mj if figures else None,
        computed.emission_ug,
        computed.cost_ucurrency,
    )


def _sum(ranges: Sequence[Range | None]) -> Range | None:
    """Return the sum end by end: the parts share what is uncertain."""
    known = [each for each in ranges if each is not None]
    if len(known) < len(ranges):
        return None
    return Range(
        sum(each.low for each in known),
        sum(each.likely for each in known),
        sum(each.high for each in known),
    )


def _scaled(planned: ComputedEstimate, ratio: Fraction) -> Figures:
    """Return the planned figures × the ratio of operations: own runs and probes have measured the
    training as it is planned.
    """
    figures = _figures(planned)
    return Figures(
        figures.time_us and scale(figures.time_us, ratio),
        figures.energy_mj and scale(figures.energy_mj, ratio),
        figures.emission_ug and scale(figures.emission_ug, ratio),
        figures.cost_ucurrency and scale(figures.cost_ucurrency, ratio),
    )


def _operations(job: JobInput) -> int:
    """Return the operations of a job, in proportion to its known work."""
    work = job.work
    amount = work.sample_count or work.step_count or work.epochs or 1
    return training_flops(job.model.macs if job.model else 1, amount, job.training)


def _is_large(job: JobInput) -> bool:
    return job.model is not None and is_large(job.model.macs)


def _difference(
    planned: Range | None, changed: Range | None, spread: Spread | None
) -> Difference | None:
    if planned is None or changed is None:
        return None
    if spread is None:
        return separate_difference(planned, changed)
    return shared_difference(planned, changed.likely, spread)
