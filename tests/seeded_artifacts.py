"""Hardware and artifacts of the demo lab: hardware with embodied carbon, data sets, models,
checkpoints and a cleanup plan.

All values are invented. They are created by the services that production uses.
"""

from typing import Any

from apps.accounts.models import Project
from apps.artifacts.cleanup.plans import create_plan, notify_owners, object_to_items
from apps.artifacts.cleanup.retention import DAY_US
from apps.artifacts.models import Artifact
from apps.artifacts.services.curation import pin, promote
from apps.artifacts.services.holds import place_hold
from apps.artifacts.services.lineage import link_new_artifacts
from apps.assets.models import Asset
from apps.assets.services import Entry, record
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Device
from apps.runs.choices import RunState
from apps.runs.models import Run
from tests.artifacts.support import digest, edge, register_rows, row
from tests.assets.support import YEAR, bought
from tests.builders import SmallLab
from tests.seeded_lab import GPU_NAME, Seeded

YEAR_US = YEAR * US_PER_HOUR
GB, TB = 10**9, 10**12


def register_hardware(seeded: Seeded, *, now: int) -> Asset:
    """Register the server with four cards, the workstation and other hardware. Returns a card."""
    lab = _small_lab(seeded, seeded.nodes[0])
    begin = now // US_PER_HOUR * US_PER_HOUR - 2 * YEAR_US
    rack = bought(
        lab,
        kind="server",
        name="gpu-01",
        kg=1_310,
        years=5,
        at_us=begin,
        now=now,
        serial="SRV-2231",
    )
    bought(lab, kind="workstation", name="ws-3", kg=402, years=5, at_us=begin + YEAR_US, now=now)
    bought(lab, kind="network", name="Switch, machine room", kg=None, years=8, at_us=begin, now=now)
    cards = []
    for number, device in enumerate(
        Device.objects.filter(lab=seeded.lab, key__startswith="gpu:").order_by("key"), 1
    ):
        card = bought(
            lab, name=f"{GPU_NAME} no. {number}", kg=150, at_us=begin, now=now, device=device
        )
        record(asset=card, entry=Entry("move", begin, parent=rack), by=seeded.owner, now=now)
        cards.append(card)
    older = bought(
        lab, name="Tesla V100 no. 1", kg=122, years=5, at_us=begin - 3 * YEAR_US, now=now
    )
    disposal = Entry("dispose", now - 90 * DAY_US, counterpart="Recycler")
    record(asset=older, entry=disposal, by=seeded.owner, now=now)
    run_until_idle(worker="seed")
    return cards[0]


def register_artifacts(seeded: Seeded, *, now: int) -> tuple[Artifact, Any]:
    """Register data sets, models and checkpoints of finished runs, and create a cleanup plan.
    Returns a model and the plan.
    """
    lab = _small_lab(seeded, seeded.nodes[0])
    volumes, corpus = _register_datasets(lab, now)
    models = []
    for slug, name, data in (
        ("vision", "unet-cells", volumes),
        ("connectome", "membranes", volumes),
        ("speech", "tics", corpus),
    ):
        runs = list(_finished_runs(seeded, slug))
        first = _register_model(
            lab,
            f"{name}.safetensors",
            runs[0],
            now,
            [edge(run, "initialised_from") for run in runs[1:3]],
        )
        models += [
            first,
            *(
                _register_model(lab, f"{name}-tuned-{i}.safetensors", run, now)
                for i, run in enumerate(runs[1:3], 1)
            ),
        ]
        _register_checkpoints(lab, name, runs, now)
        register_rows(
            lab, {**data, "runs": [edge(run, "used") for run in runs[:6]]}, now=now, by=seeded.owner
        )
    link_new_artifacts(lab=seeded.lab, now=now)
    promote(artifact=models[1], by=seeded.owner, now=now)
    pin(artifact=models[6], reason="Baseline of the grant report", by=seeded.owner, now=now)
    until_hour = now // US_PER_HOUR + 2_000
    checkpoint = Artifact.objects.filter(lab=seeded.lab, kind="checkpoint").order_by(
        "-bytes", "pk"
    )[3]
    place_hold(
        on=checkpoint,
        reason="Paper under review",
        until_hour=until_hour,
        by=seeded.owner,
        is_manager=True,
        now=now,
    )
    plan = create_plan(lab=seeded.lab, node=lab.node, project=None, by=seeded.owner, now=now)
    notify_owners(plan=plan, grace_days=14, trash_days=14, by=seeded.owner, now=now)
    last = [plan.items.order_by("-pk")[0].pk]
    object_to_items(plan=plan, items=last, reason="For the thesis of Ben", by=seeded.owner, now=now)
    run_until_idle(worker="seed")
    return models[1], plan


def _small_lab(seeded: Seeded, node: Any) -> SmallLab:
    return SmallLab(seeded.lab, seeded.owner, seeded.lab.sites.order_by("id")[0], node)


def _register_datasets(lab: SmallLab, now: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Register two data sets, one of them with copies on two disks."""
    volumes = row(
        "em-volumes-2026",
        kind="dataset",
        format="webdataset",
        form="folder",
        files=2_304,
        bytes=11_200 * GB,
        project="connectome",
        licence="CC-BY-4.0",
        copies=[
            {"path": path, "medium": "hdd"} for path in ("/data/em-volumes", "/backup/em-volumes")
        ],
    )
    corpus = row(
        "recordings-16khz",
        kind="dataset",
        format="parquet",
        form="folder",
        files=418,
        bytes=640 * GB,
        project="speech",
        copies=[{"path": "/data/recordings", "medium": "hdd"}],
    )
    register_rows(lab, volumes, corpus, now=now - 200 * DAY_US, by=lab.owner)
    return volumes, corpus


def _finished_runs(seeded: Seeded, slug: str) -> Any:
    project = Project.objects.get(lab=seeded.lab, slug=slug)
    return Run.objects.filter(lab=seeded.lab, project=project, state=RunState.FINISHED).order_by(
        "started_us"
    )[:9]


def _register_model(
    lab: SmallLab, name: str, run: Run, now: int, more: list[dict[str, str]] | None = None
) -> Artifact:
    """Register a model that ``run`` wrote, with two copies."""
    copies = [
        {"path": f"/models/{name}", "medium": "ssd"},
        {"path": f"s3://lab-models/{name}", "medium": "object"},
    ]
    model = row(
        name,
        kind="model",
        format="safetensors",
        bytes=374_000_000 + len(name),
        licence="Apache-2.0",
        facts={"parameters": 93_400_000, "architecture": "unet"},
        payload=digest(f"tensors of {name}"),
        copies=copies,
        runs=[edge(run), *(more or [])],
    )
    register_rows(lab, model, now=now, by=lab.owner)
    return Artifact.objects.get(lab=lab.lab, digest=model["digest"])


def _register_checkpoints(lab: SmallLab, name: str, runs: list[Run], now: int) -> None:
    """Register checkpoints of every tenth epoch of each run, seen two months ago."""
    rows = [
        row(
            f"{name}-{number}-epoch={epoch}.ckpt",
            kind="checkpoint",
            format="lightning",
            bytes=(3 + number) * 374_000_000,
            facts={"epoch": epoch},
            copies=[{"path": f"/runs/{name}/{number}/epoch={epoch}.ckpt", "medium": "hdd"}],
            runs=[edge(run)],
        )
        for number, run in enumerate(runs, 1)
        for epoch in range(10, 101, 10)
    ]
    register_rows(lab, *rows, now=now - 60 * DAY_US, by=lab.owner)
