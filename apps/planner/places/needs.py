"""What places need to know of a planned training, from its estimate."""

from apps.planner.choices import Basis
from apps.planner.evidence import Evidence
from apps.planner.formulas.places import Reference
from apps.planner.formulas.ranges import Range
from apps.planner.formulas.time_and_energy import PastOperations
from apps.planner.formulas.work import is_large, training_flops
from apps.planner.job_input import JobInput
from apps.planner.past_runs import past_operations
from apps.planner.places.cards import cards_named
from apps.planner.places.place import JobNeeds
from apps.planner.services import ComputedEstimate

_MEASURED = (Basis.OWN_RUNS, Basis.PROBE)


def job_needs(
    evidence: Evidence, computed: ComputedEstimate, memory_bytes: Range | None
) -> JobNeeds:
    """Return the needs of a training: its estimate by own runs or a probe is the reference of the
    planned card, and the lab's own runs give time and energy per operation of the others. At most
    six queries beside those of the evidence.
    """
    job, work = computed.job, computed.work
    model, training = job.model, job.training
    gpus, samples = training.gpus or 1, work.sample_count
    past = _past_operations(evidence, job)
    name = computed.card or ""
    cards = cards_named(evidence.lab, [*past, *([name] if name else [])])
    figures = computed.figures
    is_measured = figures is not None and figures.basis in _MEASURED and name
    own_operations: dict[str, list[PastOperations]] = {}
    for key, runs in past.items():
        own_operations.setdefault(cards[key].key, []).extend(runs)
    return JobNeeds(
        memory_bytes=memory_bytes,
        gpus=gpus,
        flops=training_flops(model.macs, samples, training) if model and samples else None,
        is_large=is_large(model.macs) if model else False,
        stops_early=work.stops_early,
        precision=training.precision,
        reference=Reference(figures, gpus, cards[name].rated_mw)
        if figures and is_measured
        else None,
        reference_card=name,
        own_operations=own_operations,
        calibrations=evidence.calibrations,
        samples=samples,
    )


def _past_operations(evidence: Evidence, job: JobInput) -> dict[str, list[PastOperations]]:
    if job.model is None:
        return {}
    return past_operations(
        evidence.measured_estimates,
        training=job.training,
        macs=job.model.macs,
        parameters=job.model.parameters,
        model_input=job.model.input,
    )
