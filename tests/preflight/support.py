"""Runs with fingerprints, energy and metrics, as they are stored."""

from typing import Any
from uuid import UUID

from labcarbon_collect.lc1 import param_hash

from apps.core.jobs import run_until_idle
from apps.preflight.models import DuplicateFinding
from apps.preflight.services.findings import judge_run
from apps.runs.choices import RunState
from apps.runs.models import Metric, Run
from apps.runs.services.fingerprints import put_fingerprint
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.runs.fingerprints import a_run, hex64, parsed, told

GPU = "gpu:GPU-0000-7777"


def seeds(number: int) -> dict[str, str]:
    return {"seed": param_hash("seed", number)}


def stored(
    small: SmallLab,
    *,
    minutes: int = 0,
    state: RunState = RunState.FINISHED,
    wire: dict[str, Any] | None = None,
    **facts: Any,
) -> Run:
    """Store a run that began ``minutes`` after T0 and, unless it still runs, took one."""
    started = T0 + minutes * MINUTE
    facts.setdefault("node", small.node)
    facts.setdefault("host", "ws-1")
    facts.setdefault("os_user", "ada")
    facts.setdefault("ended_us", None if state == RunState.RUNNING else started + MINUTE)
    run = a_run(small.lab, started_us=started, state=state, **facts)
    put_fingerprint(run=run, payload=parsed(**(wire or {})))
    return run


def spend(small: SmallLab, run: Run, energy_mj: int, *, minute: int = 0) -> None:
    """Push a minute of energy of a run."""
    start = T0 + minute * MINUTE
    window = W(
        GPU,
        energy_mj,
        start_us=start,
        end_us=start + MINUTE,
        seq=minute,
        shares=((f"run:{run.uuid}", energy_mj),),
    )
    push(small.node, [window])


def metric(run: Run, name: str, value: float, **facts: Any) -> Metric:
    told_ = {"count": 5, "last_step": 5, "min_value": value, "max_value": value, **facts}
    return Metric.objects.create(run=run, name=name, last_value=value, **told_)


def body(*, run: UUID | None = None, project: str | None = None, **wire: Any) -> dict[str, Any]:
    """Return a question over the wire."""
    return {
        "fingerprint": told(**wire),
        "project": project,
        "name": "train.py",
        "run": str(run) if run else None,
    }


def judged(run: Run, now: int = T0) -> DuplicateFinding | None:
    """Judge a run as its job does."""
    run_until_idle(worker="test")
    return judge_run(run=Run.objects.select_related("lab", "parent").get(pk=run.pk), now=now)


OTHER_DATA = {"weak": hex64("stat"), "items": []}
