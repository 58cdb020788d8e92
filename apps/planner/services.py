"""Compute and store estimates: one call for pages, API and the duplicate check."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import Lab, User
from apps.catalog.choices import HardwareKind
from apps.catalog.matching import match_key
from apps.catalog.selectors import model_of
from apps.core.errors import InvalidInput
from apps.core.units import INT64_MAX, US_PER_HOUR, hour_of
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device
from apps.fleet.selectors import placement_of
from apps.planner.choices import ESTIMATE_VERSION, Basis, Precision
from apps.planner.formulas.node_energy import rest_power, with_node_energy
from apps.planner.formulas.ranges import Range
from apps.planner.formulas.time_and_energy import (
    Card,
    Figures,
    from_catalogue,
    from_operations,
    from_own_runs,
    from_probe,
)
from apps.planner.formulas.work import Work, is_large, training_flops
from apps.planner.job_input import JobInput, Place, to_json
from apps.planner.models import Estimate
from apps.planner.parameter_names import fill_work
from apps.planner.past_runs import family_runs, past_operations
from apps.planner.places.own_nodes import rest_of_node
from apps.planner.site_conditions import SiteConditions, site_conditions
from apps.replacement.performance import performance_of
from apps.runs.choices import Tier
from apps.runs.match_keys import Parts, tier_keys
from apps.runs.services.fingerprints import ignored_params_of_project, parts_of, row_from_payload

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
    parts, params = _fingerprint(job)
    work = fill_work(job.work, params)
    card = _card(job.place)
    hour = hour_of(now)
    figures = _figures(lab, job, work, parts, card)
    if figures is not None:
        figures = with_node_energy(figures, _rest_mw(lab, job, card, hour))
    conditions = site_conditions(lab, _site_of(job.place, hour), hour)
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
    figures, conditions = computed.figures, computed.conditions
    estimate = Estimate.objects.create(
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
    return estimate, computed


def _columns(name: str, unit: str, figure: Range | None) -> dict[str, int | None]:
    return {
        f"{name}_{end}_{unit}": getattr(figure, end) if figure else None
        for end in ("low", "likely", "high")
    }


def _fingerprint(job: JobInput) -> tuple[Parts | None, dict[str, Any]]:
    """Return the compared parts and the known parameters of the planned run."""
    row = None
    if job.fingerprint is not None:
        row = row_from_payload(job.fingerprint)
    elif job.like_run is not None:
        row = getattr(job.like_run, "fingerprint", None)
    params = dict(job.like_run.params) if job.like_run and not job.fingerprint else {}
    if row is None:
        return None, params
    ignored = ignored_params_of_project(job.project.pk if job.project else None)
    return parts_of(row, ignored=ignored), {**params, **(row.told or {})}


def _card(place: Place) -> str | None:
    """Return the name of the planned GPU: as stated, else of the node if all its GPUs are equal.
    '' without a GPU, None unknown.
    """
    if place.card is not None or place.node is None:
        return place.card
    devices = Device.objects.filter(node=place.node, kind=DeviceKind.GPU)
    names = {match_key(name): name for name in devices.values_list("name", flat=True)}
    return next(iter(names.values())) if len(names) == 1 else None if names else ""


def _site_of(place: Place, hour: int) -> Any:
    if place.site is not None or place.node is None:
        return place.site
    placement = placement_of(place.node, hour)
    return placement.site if placement else None


def _figures(
    lab: Lab, job: JobInput, work: Work, parts: Parts | None, card: str | None
) -> Figures | None:
    model = job.model
    if parts is not None:
        runs = family_runs(
            lab,
            parts,
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
    return _by_operations(lab, job, work, card, flops)


def _by_operations(lab: Lab, job: JobInput, work: Work, card: str, flops: int) -> Figures | None:
    assert job.model is not None
    gpus = job.training.gpus or 1
    past = past_operations(
        lab,
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
    rated = _rated(lab, card, job.training.precision)
    if rated is None:
        return None
    return from_catalogue(
        flops, rated, is_large=is_large_net, gpus=gpus, stops_early=work.stops_early
    )


def _rated(lab: Lab, name: str, precision: Precision) -> Card | None:
    """Return the rated figures of a card, None if the catalogue does not have them."""
    model = model_of(HardwareKind.GPU, name, lab)
    performance = performance_of(model.name) if model else None
    if model is None or performance is None or not model.tdp_mw:
        return None
    peak = performance.tensor if precision == Precision.MIXED else performance.fp32
    peak = peak or performance.fp32
    return Card(peak, model.tdp_mw) if peak else None


def _rest_mw(lab: Lab, job: JobInput, card: str | None, hour: int) -> Range | None:
    """Return the power of the planned node outside of its GPUs, None if it is unknown."""
    gpus = job.training.gpus or 1
    measured = rest_of_node(job.place.node, hour, gpus) if job.place.node else None
    if measured is not None or not card:
        return measured
    model = model_of(HardwareKind.GPU, card, lab)
    return rest_power(model.tdp_mw, gpus) if model and model.tdp_mw else None


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
