"""Artifacts of the demo: data sets with copies, models, checkpoints, a cleanup plan."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from apps.artifacts.cleanup.plans import create_plan, notify_owners, object_to_items
from apps.artifacts.models import Artifact
from apps.artifacts.parsing import parse_artifacts
from apps.artifacts.services.curation import pin, promote
from apps.artifacts.services.holds import place_hold
from apps.artifacts.services.lineage import link_new_artifacts
from apps.artifacts.services.register import register
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Node
from apps.runs.choices import RunState
from labcarbon.demo.lab import DemoLab
from labcarbon.demo.plan import DATASET_GB, HOURS_PER_DAY, PROJECTS, PlannedRun

_DAY_US = HOURS_PER_DAY * US_PER_HOUR
RUNS_PER_PROJECT, CHECKPOINTS = 6, 8


def add_artifacts(
    made: DemoLab, node: Node, runs: Sequence[PlannedRun], now: int, suffix: str
) -> None:
    """Register what finished runs of ``node`` read and wrote. ``suffix``: of the names."""
    for slug, _ in PROJECTS:
        finished = [
            run
            for run in runs
            if run.project == slug
            and run.outcome == RunState.FINISHED
            and run.to_hour < made.calendar.hour(275)
        ][-RUNS_PER_PROJECT:]
        if finished:
            names = (slug, f"{slug}{suffix}")
            _register(made, node, [_dataset(*names, finished)], now - 80 * _DAY_US)
            _register(made, node, _checkpoints(*names, finished), now - 75 * _DAY_US)
            _register(made, node, _models(*names, finished), now - 20 * _DAY_US)
    link_new_artifacts(lab=made.lab, now=now)


def curate(made: DemoLab, node: Node, now: int) -> None:
    """Promote, pin and hold some artifacts, and create a cleanup plan that waits for objections."""
    models = list(Artifact.objects.filter(lab=made.lab, kind="model").order_by("name"))
    promote(artifact=models[0], by=made.admin, now=now)
    pin(artifact=models[-1], reason="Baseline of the grant report", by=made.admin, now=now)
    checkpoint = Artifact.objects.filter(lab=made.lab, kind="checkpoint").order_by("name")[3]
    place_hold(
        on=checkpoint,
        reason="Paper under review",
        until_hour=now // US_PER_HOUR + 2_000,
        by=made.admin,
        is_manager=True,
        now=now,
    )
    plan = create_plan(lab=made.lab, node=node, project=None, by=made.admin, now=now)
    notify_owners(plan=plan, grace_days=14, trash_days=14, by=made.admin, now=now)
    last = [plan.items.order_by("-pk")[0].pk]
    object_to_items(plan=plan, items=last, reason="For a thesis", by=made.admin, now=now)


def _register(made: DemoLab, node: Node, rows: list[dict[str, Any]], now: int) -> None:
    parsed = parse_artifacts(msgspec.json.encode({"artifacts": rows}))[1]
    results = register(
        lab=made.lab, rows=parsed, node_uuid=node.uuid, by=made.admin, bound_node=None, now=now
    )
    refused = [result for result in results if result[0] == "refused"]
    if refused:
        raise RuntimeError(f"{len(refused)} artifacts were refused: {refused[:3]}")


def _row(name: str, **more: Any) -> dict[str, Any]:
    return {"digest": sha256(name.encode()).hexdigest(), "name": name, **more}


def _link(run: PlannedRun, role: str = "produced") -> dict[str, str]:
    return {"run": str(run.uuid), "role": role}


def _dataset(slug: str, name: str, runs: Sequence[PlannedRun]) -> dict[str, Any]:
    return _row(
        f"{name}-dataset",
        kind="dataset",
        format="webdataset",
        form="folder",
        files=2_304,
        bytes=DATASET_GB[slug] * 10**9,
        project=slug,
        licence="CC-BY-4.0",
        copies=[{"path": f"{root}/{name}", "medium": "hdd"} for root in ("/data", "/backup")],
        runs=[_link(run, "used") for run in runs],
    )


def _models(slug: str, name: str, runs: Sequence[PlannedRun]) -> list[dict[str, Any]]:
    """A model of each run. Each run but the first starts from the model of the one before."""
    rows = []
    for number, run in enumerate(runs):
        file_name = f"{name}-{number + 1}.safetensors"
        links = [
            _link(run),
            *(_link(after, "initialised_from") for after in runs[number + 1 :][:1]),
        ]
        rows.append(
            _row(
                file_name,
                kind="model",
                format="safetensors",
                bytes=374_000_000 + number,
                project=slug,
                licence="Apache-2.0",
                facts={"parameters": 93_400_000, "architecture": "unet"},
                copies=[
                    {"path": f"/models/{file_name}", "medium": "ssd"},
                    {"path": f"s3://demo-models/{file_name}", "medium": "object"},
                ],
                runs=links,
            )
        )
    return rows


def _checkpoints(slug: str, name: str, runs: Sequence[PlannedRun]) -> list[dict[str, Any]]:
    return [
        _row(
            f"{name}-{number}-epoch={epoch}.ckpt",
            kind="checkpoint",
            format="lightning",
            bytes=(2 + number) * 374_000_000,
            project=slug,
            facts={"epoch": epoch},
            copies=[{"path": f"/runs/{name}/{number}/epoch={epoch}.ckpt", "medium": "hdd"}],
            runs=[_link(run)],
        )
        for number, run in enumerate(runs, 1)
        for epoch in range(10, CHECKPOINTS * 10 + 1, 10)
    ]
