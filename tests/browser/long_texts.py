"""Runs of the same work whose names, values and hosts are long and have no space."""

from typing import Any


def add_long_texts(small: Any, begin: int) -> dict[str, Any]:
    """Add four runs, of which one is counted, one not counted yet, and two are not measured.

    Return ``long_run`` (the counted one), ``long_runs`` (all) and ``long_finding``.
    """
    from apps.core.jobs import run_until_idle
    from apps.preflight.models import DuplicateFinding
    from apps.preflight.services.findings import judge_run
    from apps.runs.choices import RunState
    from apps.runs.metric_parsing import Point
    from apps.runs.models import Run
    from apps.runs.services.fingerprints import put_fingerprint
    from apps.runs.services.metrics import add_points
    from tests.builders import MINUTE, W, push
    from tests.runs.fingerprints import a_run, hex64, parsed

    long = "deep_convolutional_network_of_the_second_series_"
    value = f"/scratch/{long * 4}.yaml"[:200]
    runs = []
    for i in range(4):
        run = a_run(
            small.lab, name=f"{i}_{long * 4}.py", started_us=begin + i * MINUTE, host=long * 5,
            ended_us=begin + (i + 1) * MINUTE, state=RunState.FAILED if i == 1 else "finished",
            node=small.node, os_user=long * 2, user=small.owner, sweep="" if i else long * 2,
            exit_code=1, command=["python", f"{long * 3}.py", f"--config={value}"],
            params={long * 3: value}, tags={long: value}, failure="cuda_memory" if i == 1 else "",
            failure_text=f"RuntimeError: {long * 20}" if i == 1 else "", cluster=long * 2,
            job_id=f"{i}" * 64, scheduler="slurm", account=long * 2, partition=long * 2,
        )  # fmt: skip
        labels = {long: f"{i}" * 32}
        put_fingerprint(
            run=run,
            payload=parsed(
                entry=hex64(long), entry_name=f"{long * 4}.py"[:200],
                labels=labels, told={long: value} if i == 3 else {}, params={long: "a" * 32},
                not_compared=[f"the content of {long}"], environment={long: value[:100]},
                dropped={f"{long}{k}": "" for k in range(9)},
            ),
        )  # fmt: skip
        curve = [Point(step, begin, step / (i + 3)) for step in range(9)]
        points = {f"validation/{long * 2}": curve}
        add_points(lab=small.lab, uuid=run.uuid, points=points, bound_node=None, now=None)
        runs.append(run)
    device = "gpu:GPU-0000-3333"
    for i, settle in ((1, True), (2, False)):
        window = W(
            device, 9_000_000, start_us=begin + i * MINUTE, end_us=begin + (i + 1) * MINUTE, seq=i,
            shares=((f"run:{runs[i].uuid}", 9_000_000),),
        )  # fmt: skip
        facts = {device: {"name": long * 3}}
        run_until_idle(worker="seed")
        push(small.node, [window], settle=settle, sent_at=begin + 99 * MINUTE, device_facts=facts)
    for run in runs[1:]:
        judge_run(run=Run.objects.select_related("lab", "parent").get(pk=run.pk), now=begin)
    finding = DuplicateFinding.objects.get(run=runs[3])
    return {
        "long_run": str(runs[1].uuid),
        "long_runs": [str(run.uuid) for run in runs],
        "long_finding": finding.pk,
    }
