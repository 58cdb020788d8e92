"""The runs of the demo, with fingerprints, metrics that fall, and sweeps."""

import math
from collections.abc import Mapping, Sequence
from hashlib import sha256
from random import Random
from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Node
from apps.runs.choices import RunState
from apps.runs.fingerprint_parsing import FingerprintIn, parse_fingerprint
from apps.runs.metric_parsing import Point
from apps.runs.services.fingerprints import fingerprint_from_params
from apps.runs.services.metrics import add_points
from apps.runs.services.runs import RunFacts, change_run, put_run
from apps.runs.services.updates import RunUpdate
from labcarbon.demo.plan import DATASET_GB, SCRIPTS, Machine, PlannedRun

POINTS = 24
_EXIT_CODES = {RunState.FINISHED: 0, RunState.FAILED: 1, RunState.KILLED: 137}


@transaction.atomic
def add_runs(
    people: Mapping[str, User],
    node: Node,
    machine: Machine,
    runs: Sequence[PlannedRun],
    now: int,
) -> None:
    """Report the runs of a machine that began before ``now``. Without its person, who can be
    erased, a run has none.
    """
    for run in runs:
        if run.from_hour * US_PER_HOUR < now:
            _add(people.get(run.person), node, machine, run, now)


def _add(who: User | None, node: Node, machine: Machine, run: PlannedRun, now: int) -> None:
    start_us, end_us = run.from_hour * US_PER_HOUR, run.to_hour * US_PER_HOUR
    script = SCRIPTS[run.project] if run.project else "train.py"
    is_over = end_us <= now
    facts = RunFacts(
        name=run.name,
        started_us=start_us,
        project=run.project or None,
        command=["python", script],
        params=run.params,
        os_user=run.person,
        host=machine.name,
        node_uuid=node.uuid,
        known=RunUpdate(
            fingerprint=_fingerprint(machine, run, script) if _has_fingerprint(run) else None,
            sweep=run.sweep or None,
            intent="sweep" if run.sweep else "train",
        ),
    )
    put_run(
        lab=node.lab,
        uuid=run.uuid,
        facts=facts,
        by=who,
        bound_node=node.uuid,
        now=None if is_over else now,
    )
    if curve := [point for point in _curve(run, start_us, end_us) if point.at_us <= now]:
        points = {"val_loss": curve}
        add_points(lab=node.lab, uuid=run.uuid, points=points, bound_node=node.uuid, now=None)
    if is_over:
        state = RunState(run.outcome)
        change_run(
            lab=node.lab,
            uuid=run.uuid,
            state=state,
            ended_us=end_us,
            exit_code=_EXIT_CODES[state],
            reported_energy_mj=None,
            bound_node=node.uuid,
        )


def _curve(run: PlannedRun, start_us: int, end_us: int) -> list[Point]:
    """Return a loss that falls to a floor, which depends on the learning rate."""
    dice = Random(str(run.uuid))
    distance = abs(math.log10(float(run.params["lr"]) / 0.001))
    floor = 0.11 + 0.05 * distance + dice.uniform(0, 0.02)
    count = POINTS if run.outcome == RunState.FINISHED else POINTS // 3
    step_us = (end_us - start_us) // (count + 1)
    return [
        Point(
            step * 500,
            start_us + step * step_us,
            round(floor + 1.4 / (1 + step / 3) * dice.uniform(0.95, 1.05), 5),
        )
        for step in range(1, count + 1)
    ]


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _has_fingerprint(run: PlannedRun) -> bool:
    """Members of sweeps and families have one, and a part of the others."""
    return bool(run.sweep) or run.family is not None or run.from_hour % 4 == 0


def _fingerprint(machine: Machine, run: PlannedRun, script: str) -> FingerprintIn:
    """Return a fingerprint: that of its family, or one of its own."""
    project = run.project or "none"
    version = f"{project} {run.from_hour // 720}"
    params: dict[str, Any] = {**run.params, "augment": run.from_hour}
    if run.family is not None:
        params = {"lr": 0.0003, "batch": 32, "seed": 7, "augment": run.family}
    known = fingerprint_from_params(params)
    return parse_fingerprint(
        {
            "version": known.version,
            "params": known.params,
            "told": known.told,
            "seeds": known.seeds,
            "entry": _hash(script),
            "entry_name": script,
            "code": {
                "state": "verified",
                "hash": _hash(f"code {version}"),
                "normal": _hash(f"code {version}"),
                "commit": _hash(version)[:40],
                "dirty": False,
            },
            "data": {
                "verified": _hash(f"data {project}"),
                "items": [
                    {
                        "role": "data",
                        "name": project,
                        "files": 2_304,
                        "bytes": DATASET_GB.get(project, 50) * 10**9,
                    }
                ],
            },
            "start": {"verified": _hash("scratch"), "name": "scratch"},
            "environment": {"python": "3.12.4", "torch": "2.9.0"},
            "hardware": {"gpus": f"{len(run.gpus)} × {machine.gpus[0].model}"},
        }
    )
