"""Reads of finished runs as evidence for estimates: their time, energy, cards and work."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Sum

from apps.accounts.models import Lab
from apps.catalog.matching import match_key
from apps.energy.models import LedgerEntry
from apps.fleet.choices import DeviceKind
from apps.ingest.models import Consumer
from apps.planner.formulas.time_and_energy import MAX_RUNS, PastOperations, PastRun
from apps.planner.formulas.work import (
    Training,
    Work,
    is_large,
    modality,
    training_flops,
)
from apps.planner.job_input import costs_from, training_from, work_from
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


def family_runs(
    lab: Lab, parts: Parts, *, card: str | None = None, gpus: int | None = None
) -> list[PastRun]:
    """Return the newest finished runs of a family: equal entry, data and start. Six queries.

    ``card``: on this card only ('': without a GPU; None: on any). ``gpus``: on so many only.
    """
    keys = [(tier, key) for tier, key in tier_keys(parts) if tier in (Tier.F4, Tier.F4_WEAK)]
    ids: set[int] = set()
    for tier, key in keys:
        rows = TierKey.objects.filter(lab=lab, tier=tier, key=key).order_by("-run_id")
        ids.update(rows.values_list("run_id", flat=True)[: 2 * MAX_RUNS])
    runs = list(
        Run.objects.filter(pk__in=ids, state=RunState.FINISHED, ended_us__isnull=False)
        .exclude(intent__in=EXCLUDED_INTENTS)
        .order_by("-started_us", "-pk")[: 2 * MAX_RUNS]
    )
    use = measured_use(lab, [run.uuid for run in runs])
    usable = [run for run in runs if _is_on(use.get(run.uuid, Measured()), card=card, gpus=gpus)][
        :MAX_RUNS
    ]
    return _past_runs(usable, use, parts.recipe)


def _is_on(use: Measured, *, card: str | None, gpus: int | None) -> bool:
    return (card is None or use.cards == ({card} if card else set())) and (
        not gpus or use.gpus in (0, gpus)
    )


def _past_runs(runs: Iterable[Run], use: dict[UUID, Measured], recipe: str) -> list[PastRun]:
    listed = list(runs)
    prints = {
        row.run_id: row for row in Fingerprint.objects.filter(run__in=listed).only("told", "recipe")
    }
    inputs = dict(Estimate.objects.filter(run__in=listed).values_list("run_id", "input"))
    return [
        _past_run(run, use.get(run.uuid), prints.get(run.pk), inputs.get(run.pk), recipe)
        for run in listed
    ]


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


def past_operations(
    lab: Lab, *, training: Training, macs: int, parameters: int, model_input: str
) -> dict[str, list[PastOperations]]:
    """Return the finished runs with an estimate's model costs by match key of their card, on the
    same number of GPUs, at the same precision, of the same kind of model. Three queries.
    """
    rows = (
        Estimate.objects.filter(lab=lab, run__state=RunState.FINISHED, run__ended_us__isnull=False)
        .exclude(run__intent__in=EXCLUDED_INTENTS)
        .select_related("run")
        .order_by("-created_us")[:_MAX_ESTIMATES]
    )
    kind = (training.precision, is_large(macs), modality(model_input))
    alike = []
    for row in rows:
        costs, past, work = costs_from(row.input), training_from(row.input), work_from(row.input)
        if costs is None or not work.sample_count or work.stops_early:
            continue
        if (past.precision, is_large(costs.macs), modality(costs.input)) == kind:
            flops = training_flops(costs.macs, work.sample_count, past)
            alike.append((row, flops, (costs.macs, costs.parameters) == (macs, parameters)))
    use = measured_use(lab, [row.run.uuid for row, _, _ in alike if row.run])
    result: dict[str, list[PastOperations]] = {}
    for row, flops, is_same_model in alike:
        assert row.run is not None
        assert row.run.ended_us is not None
        measured = use.get(row.run.uuid)
        if measured is None or len(measured.cards) != 1 or measured.gpus != (training.gpus or 1):
            continue
        of_card = result.setdefault(next(iter(measured.cards)), [])
        if len(of_card) < MAX_RUNS:
            of_card.append(
                PastOperations(
                    flops=flops,
                    time_us=row.run.ended_us - row.run.started_us,
                    gpu_energy_mj=measured.gpu_energy_mj,
                    node_energy_mj=measured.node_energy_mj,
                    is_same_model=is_same_model,
                )
            )
    return result
