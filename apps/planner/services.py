"""Compute and store estimates: one call for pages, API and the duplicate check."""

from collections.abc import Mapping
from dataclasses import dataclass

from apps.accounts.models import Lab, User
from apps.catalog.matching import match_key
from apps.core.errors import InvalidInput
from apps.core.units import INT64_MAX, US_PER_HOUR
from apps.planner.calibrations import with_calibration
from apps.planner.choices import ESTIMATE_VERSION, Basis
from apps.planner.evidence import Evidence, read_evidence
from apps.planner.formulas.node_energy import with_node_energy
from apps.planner.formulas.ranges import Range
from apps.planner.formulas.time_and_energy import (
    Figures,
    from_catalogue,
    from_operations,
    from_own_runs,
    from_probe,
)
from apps.planner.formulas.work import Work, is_large, training_flops
from apps.planner.job_input import JobInput, to_json
from apps.planner.models import Estimate
from apps.planner.parameter_names import fill_work
from apps.planner.past_runs import family_runs, past_operations
from apps.planner.site_conditions import SiteConditions
from apps.runs.choices import Tier
from apps.runs.match_keys import Parts, tier_keys

OPEN_US = 14 * 24 * US_PER_HOUR  # until an estimate without a run expires


@dataclass(frozen=True)
class ComputedEstimate:
    """An estimate that is not stored. ``figures`` None: no basis, and ``missing`` says what it
    would take. ``card``: name of the planned GPU, '' without one, None unknown.
    """

    job: JobInput
    work: Work
    figures: Figures | None
    missing: list[str]
    conditions: SiteConditions
    card: str | None
    emission_ug: Range | None
    cost_ucurrency: Range | None
    keys: Mapping[Tier, int]

    @property
    def basis(self) -> Basis:
        """Return what the estimate rests on."""
        return self.figures.basis if self.figures else Basis.NONE


def compute_estimate(*, lab: Lab, job: JobInput, now: int) -> ComputedEstimate:
    """Return the estimate of a planned training, by its most trusted basis. The number of queries
    is constant.
    """
    return estimate_from(read_evidence(lab, job, now), job)


def estimate_from(evidence: Evidence, job: JobInput) -> ComputedEstimate:
    """Return the estimate of a training from evidence that was read for it, or for another training
    of the same lab, place and fingerprint.
    """
    parts, card, conditions = evidence.parts, evidence.card, evidence.conditions
    work = fill_work(job.work, evidence.params)
    figures = _figures(evidence, job, work)
    if figures is not None:
        figures = with_node_energy(figures, evidence.rest_mw(job.training.gpus or 1))
        figures = with_calibration(figures, evidence.calibrations)
    energy_mj = figures.node_energy_mj if figures else None
    computed = ComputedEstimate(
        job=job,
        work=work,
        figures=figures,
        missing=[] if figures else _missing(job, work, parts, card),
        conditions=conditions,
        card=card,
        emission_ug=conditions.emission(energy_mj) if energy_mj else None,
        cost_ucurrency=conditions.cost(energy_mj) if energy_mj else None,
        keys=dict(tier_keys(parts)) if parts else {},
    )
    _check_size(computed)
    return computed


def create_estimate(
    *, lab: Lab, job: JobInput, person: User | None, now: int
) -> tuple[Estimate, ComputedEstimate]:
    """Compute and store an estimate. It is open for 14 days."""
    computed = compute_estimate(lab=lab, job=job, now=now)
    return store_estimate(lab=lab, computed=computed, person=person, now=now), computed


def store_estimate(
    *, lab: Lab, computed: ComputedEstimate, person: User | None, now: int
) -> Estimate:
    """Store an estimate. It is open for 14 days."""
    job, figures, conditions = computed.job, computed.figures, computed.conditions
    return Estimate.objects.create(
        lab=lab,
        project=job.project,
        person=person,
        node=job.place.node,
        created_us=now,
        expires_us=now + OPEN_US,
        input=to_json(job, computed.work),
        f2=computed.keys.get(Tier.F2),
        f2_weak=computed.keys.get(Tier.F2_WEAK),
        basis=computed.basis,
        facts=dict(figures.facts) if figures else {"missing": computed.missing},
        version=ESTIMATE_VERSION,
        currency=conditions.price.currency if conditions.price else "",
        conditions=conditions.to_json(),
        **_columns("time", "us", figures.time_us if figures else None),
        **_columns("gpu_energy", "mj", figures.gpu_energy_mj if figures else None),
        **_columns("node_energy", "mj", figures.node_energy_mj if figures else None),
        **_columns("emission", "ug", computed.emission_ug),
        **_columns("cost", "ucurrency", computed.cost_ucurrency),
    )


def _columns(name: str, unit: str, figure: Range | None) -> dict[str, int | None]:
    return {
        f"{name}_{end}_{unit}": getattr(figure, end) if figure else None
        for end in ("low", "likely", "high")
    }


def _figures(evidence: Evidence, job: JobInput, work: Work) -> Figures | None:
    model, card = job.model, evidence.card
    if evidence.parts is not None:
        runs = family_runs(
            evidence.family,
            card=None if card is None else match_key(card),
            gpus=job.training.gpus,
        )
        figures = from_own_runs(
            runs,
            work,
            macs=model.macs if model else None,
            parameters=model.parameters if model else None,
        )
        if figures is not None:
            return figures
    if job.probe is not None and (figures := from_probe(job.probe, work)) is not None:
        return figures
    if model is None or not work.sample_count or not card:
        return None
    flops = training_flops(model.macs, work.sample_count, job.training)
    return _by_operations(evidence, job, work, card, flops)


def _by_operations(
    evidence: Evidence, job: JobInput, work: Work, card: str, flops: int
) -> Figures | None:
    assert job.model is not None
    gpus = job.training.gpus or 1
    past = past_operations(
        evidence.measured_estimates,
        training=job.training,
        macs=job.model.macs,
        parameters=job.model.parameters,
        model_input=job.model.input,
    )
    is_large_net = is_large(job.model.macs)
    on_card = past.get(match_key(card), ())
    figures = from_operations(
        flops, on_card, is_large=is_large_net, gpus=gpus, stops_early=work.stops_early
    )
    if figures is not None:
        return figures
    rated = evidence.rated(job.training.precision)
    if rated is None:
        return None
    return from_catalogue(
        flops, rated, is_large=is_large_net, gpus=gpus, stops_early=work.stops_early
    )


def _missing(job: JobInput, work: Work, parts: Parts | None, card: str | None) -> list[str]:
    """Return what would give a basis, one sentence each."""
    missing = []
    if parts is None:
        missing.append("No fingerprint was given, so that no run of its family was searched.")
    else:
        missing.append("No measured finished run of its family can be compared.")
    if job.probe is None:
        missing.append("It was not probed.")
    elif not (work.step_count or work.epochs):
        missing.append("The total number of steps is unknown, so that the probe is not extended.")
    else:
        missing.append("The probe has less than 60 s past its warm-up, or no steps.")
    if job.model is None:
        missing.append("The model costs are unknown.")
    if not work.sample_count:
        missing.append("The total number of samples is unknown.")
    if not card:
        missing.append("The GPU is unknown." if card is None else "The place has no GPU.")
    elif job.model is not None and work.sample_count:
        missing.append(f"The catalogue has no rated figures of {card!r}.")
    return missing


def _check_size(computed: ComputedEstimate) -> None:
    figures = computed.figures
    ranges = (figures.time_us, figures.gpu_energy_mj, figures.node_energy_mj) if figures else ()
    for each in (*ranges, computed.emission_ug, computed.cost_ucurrency):
        if each is not None and each.high > INT64_MAX:
            raise InvalidInput(
                "The work is too large for an estimate.",
                field="work",
                hint="Check samples, epochs and steps.",
            )
