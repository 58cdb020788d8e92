"""Reads of finished runs as evidence for estimates: their time, energy, cards and work."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Sum

from apps.accounts.models import Lab
from apps.catalog.matching import match_key
from apps.energy.models import LedgerEntry
from apps.fleet.choices import DeviceKind
from apps.fleet.models import Device
from apps.ingest.models import Consumer
from apps.planner.formulas.time_and_energy import MAX_RUNS, PastOperations, PastRun
from apps.planner.formulas.work import (
    Training,
    Work,
    is_large,
    modality,
    training_flops,
)
from apps.planner.job_input import StoredCosts, costs_from, training_from, work_from
from apps.planner.models import Estimate
from apps.planner.parameter_names import work_from_params
from apps.runs.choices import Intent, RunState, Tier
from apps.runs.match_keys import Parts, tier_keys
from apps.runs.models import Fingerprint, Run, TierKey

# Runs that did not do the work of their family.
EXCLUDED_INTENTS = (Intent.DEBUG, Intent.SERVICE, Intent.PROBE)
_GPUS = (DeviceKind.GPU, DeviceKind.MIG)
_MAX_ESTIMATES = 200


@dataclass
class Measured:
    """The measured use of a run. None: nothing of it was measured. ``cards``: match keys of the
    names of its GPUs.
    """

    gpu_energy_mj: int | None = None
    node_energy_mj: int | None = None
    cards: set[str] = field(default_factory=set)
    gpus: int = 0


def measured_use(lab: Lab, uuids: Collection[UUID]) -> dict[UUID, Measured]:
    """Return the measured use of runs. Unmeasured runs are left out. Two queries."""
    if not uuids:
        return {}
    consumers = Consumer.objects.filter(lab=lab, run_uuid__in=list(uuids))
    runs = dict(consumers.values_list("pk", "run_uuid"))
    rows = (
        LedgerEntry.objects.filter(consumer__in=list(runs))
        .values_list("consumer_id", "device_id", "device__kind", "device__name")
        .annotate(total_mj=Sum("energy_mj"))
        .order_by("consumer_id", "device_id")
    )
    use: dict[UUID, Measured] = {}
    gpus: set[tuple[UUID, int]] = set()
    for consumer_id, device_id, kind, name, total_mj in rows:
        uuid = runs[consumer_id]
        assert uuid is not None, "only consumers of runs were read"
        measured = use.setdefault(uuid, Measured())
        measured.node_energy_mj = (measured.node_energy_mj or 0) + int(total_mj)
        if kind in _GPUS:
            measured.gpu_energy_mj = (measured.gpu_energy_mj or 0) + int(total_mj)
            measured.cards.add(match_key(name))
            measured.gpus += (uuid, device_id) not in gpus
            gpus.add((uuid, device_id))
    return use


@dataclass(frozen=True)
class FamilyRun:
    """A finished run of a family as evidence, with its measured use."""

    run_id: int
    past: PastRun
    use: Measured


def family_run_ids(lab: Lab, parts: Parts, card: str | None = None) -> set[int]:
    """Return the ids of the newest finished runs of a family: equal entry, data and start. At most
    three queries. ``card``: of runs that used this card; '' and None: of all.
    """
    keys = [(tier, key) for tier, key in tier_keys(parts) if tier in (Tier.F4, Tier.F4_WEAK)]
    ids: set[int] = set()
    devices = _devices_of(lab, card) if card else []
    for tier, key in keys:
        # Filtered here, else newer runs that are no evidence could be all that is read.
        rows = (
            TierKey.objects.filter(
                lab=lab, tier=tier, key=key,
                run__state=RunState.FINISHED, run__ended_us__isnull=False,
            )
            .exclude(run__intent__in=EXCLUDED_INTENTS)
            .order_by("-run_id")
        )  # fmt: skip
        if card:
            rows = rows.filter(
                Exists(
                    LedgerEntry.objects.filter(
                        consumer__lab=lab,
                        consumer__run_uuid=OuterRef("run__uuid"),
                        device__in=devices,
                    )
                )
            )
        ids.update(rows.values_list("run_id", flat=True)[: 2 * MAX_RUNS])
    return ids


def read_family(lab: Lab, parts: Parts, card: str | None = None) -> list[FamilyRun]:
    """Return the runs of :func:`family_run_ids`, the newest first. At most eight queries."""
    runs = list(
        Run.objects.filter(pk__in=family_run_ids(lab, parts, card)).order_by("-started_us", "-pk")[
            : 2 * MAX_RUNS
        ]
    )
    use = measured_use(lab, [run.uuid for run in runs])
    prints = {
        row.run_id: row for row in Fingerprint.objects.filter(run__in=runs).only("told", "recipe")
    }
    inputs = dict(Estimate.objects.filter(run__in=runs).values_list("run_id", "input"))
    return [
        FamilyRun(
            run.pk,
            _past_run(run, use.get(run.uuid), prints.get(run.pk), inputs.get(run.pk), parts.recipe),
            use.get(run.uuid) or Measured(),
        )
        for run in runs
    ]


def family_runs(
    family: Iterable[FamilyRun], *, card: str | None = None, gpus: int | None = None
) -> list[PastRun]:
    """Return the runs of a family as evidence. ``card``: on this card only ('': without a GPU;
    None: on any). ``gpus``: on so many only.
    """
    return [row.past for row in family if _is_on(row.use, card=card, gpus=gpus)][:MAX_RUNS]


def _devices_of(lab: Lab, card: str) -> list[int]:
    devices = Device.objects.filter(lab=lab, kind__in=_GPUS).values_list("pk", "name")
    return [pk for pk, name in devices if match_key(name) == card]


def _is_on(use: Measured, *, card: str | None, gpus: int | None) -> bool:
    return (card is None or use.cards == ({card} if card else set())) and (
        not gpus or use.gpus in (0, gpus)
    )


def _past_run(
    run: Run,
    use: Measured | None,
    row: Fingerprint | None,
    job: dict[str, Any] | None,
    recipe: str,
) -> PastRun:
    assert run.ended_us is not None
    work = work_from(job) if job else Work()
    if not work.is_known:
        work = work_from_params({**run.params, **(row.told if row else {})})
    costs = costs_from(job) if job else None
    return PastRun(
        time_us=run.ended_us - run.started_us,
        gpu_energy_mj=use.gpu_energy_mj if use else None,
        node_energy_mj=use.node_energy_mj if use else None,
        work=work,
        macs=costs.macs if costs else None,
        parameters=costs.parameters if costs else None,
        is_same_recipe=bool(recipe) and row is not None and row.recipe == recipe,
    )


@dataclass(frozen=True)
class MeasuredEstimate:
    """A finished run with measured use and the model costs of its estimate."""

    costs: StoredCosts
    training: Training
    work: Work
    time_us: int
    use: Measured


def read_measured_estimates(lab: Lab) -> list[MeasuredEstimate]:
    """Return the newest finished runs that have an estimate with model costs. Three queries."""
    rows = (
        Estimate.objects.filter(lab=lab, run__state=RunState.FINISHED, run__ended_us__isnull=False)
        .exclude(run__intent__in=EXCLUDED_INTENTS)
        .select_related("run")
        .order_by("-created_us")[:_MAX_ESTIMATES]
    )
    listed = [(row.run, row.input, costs) for row in rows if (costs := costs_from(row.input))]
    use = measured_use(lab, [run.uuid for run, _, _ in listed if run])
    return [
        MeasuredEstimate(
            costs,
            training_from(stored),
            work_from(stored),
            run.ended_us - run.started_us,
            use[run.uuid],
        )
        for run, stored, costs in listed
        if run is not None and run.ended_us is not None and run.uuid in use
    ]


def past_operations(
    rows: Iterable[MeasuredEstimate],
    *,
    training: Training,
    macs: int,
    parameters: int,
    model_input: str,
) -> dict[str, list[PastOperations]]:
    """Return the runs by match key of their card, on the same number of GPUs, at the same
    precision, of the same kind of model.
    """
    kind = (training.precision, is_large(macs), modality(model_input))
    result: dict[str, list[PastOperations]] = {}
    for row in rows:
        costs, work, use = row.costs, row.work, row.use
        if not work.sample_count or work.stops_early:
            continue
        if (row.training.precision, is_large(costs.macs), modality(costs.input)) != kind:
            continue
        if len(use.cards) != 1 or use.gpus != (training.gpus or 1):
            continue
        of_card = result.setdefault(next(iter(use.cards)), [])
        if len(of_card) < MAX_RUNS:
            of_card.append(
                PastOperations(
                    flops=training_flops(costs.macs, work.sample_count, row.training),
                    time_us=row.time_us,
                    gpu_energy_mj=use.gpu_energy_mj,
                    node_energy_mj=use.node_energy_mj,
                    is_same_model=(costs.macs, costs.parameters) == (macs, parameters),
                )
            )
    return result
