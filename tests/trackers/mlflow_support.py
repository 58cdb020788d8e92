"""Helpers for tests of a polled MLflow server."""

from typing import Any

from django.db.models import Sum

from apps.accounts.models import Project
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.energy.models import LedgerEntry
from apps.fleet.models import Node
from apps.trackers.mlflow.models import MlflowSource
from apps.trackers.mlflow.services.poller import Slice, poll_source
from apps.trackers.mlflow.services.servers import SourceIn, add_source
from tests.builders import T0, SmallLab
from tests.fakes.mlflow_server import FakeMlflow, FakeRun

MS = T0 // 1000
WATTS = "system/gpu_{}_power_usage_watts"
COMMIT = "c0ffee" + "0" * 34


def demo(lab: SmallLab, slug: str = "demo") -> Project:
    return Project.objects.get(lab=lab.lab, slug=slug)


def source_at(
    server: FakeMlflow | str, lab: SmallLab, *, node: Node | None = None, **more: Any
) -> MlflowSource:
    """Return a polled server of the lab. Its power goes to ``node``, else to the site."""
    address = server if isinstance(server, str) else server.address
    told = {
        "name": "MLflow",
        "address": address,
        "project": demo(lab),
        "node": node,
        "site": None if node else lab.site,
        **more,
    }
    return add_source(lab=lab.lab, payload=SourceIn(**told), by=lab.owner, now=now_us())


def poll(source: MlflowSource) -> Slice:
    """Poll the server once, and run the resulting jobs except further polls."""
    source = MlflowSource.objects.select_related("lab", "node", "project").get(pk=source.pk)
    done = poll_source(source=source, seconds=300)
    settle()
    return done


def settle() -> None:
    """Delete poll jobs, then run the due jobs."""
    from apps.core.models import Job

    Job.objects.filter(kind__in=("trackers.mlflow", "trackers.mlflow_again")).delete()
    run_until_idle(worker="test")


def ledger_mj() -> int:
    """Return the energy in the whole ledger (mJ)."""
    return LedgerEntry.objects.aggregate(mj=Sum("energy_mj"))["mj"] or 0


def watts(
    run: FakeRun,
    power: float,
    *,
    gpu: int = 0,
    start_ms: int = MS,
    seconds: int = 60,
    every: int = 10,
) -> None:
    """Log the power of a GPU (W) as MLflow's monitor does: one value per ten seconds."""
    points = run.metrics.setdefault(WATTS.format(gpu), [])
    points += [
        (start_ms + i * 1000, len(points) + i // every, power) for i in range(0, seconds + 1, every)
    ]


def training(
    fake: FakeMlflow, run_id: str, *, start_ms: int = MS, over: bool = True, **params: str
) -> FakeRun:
    """Add a run with all facts that a comparison needs."""
    return fake.add(
        run_id,
        start_ms=start_ms,
        status="FINISHED" if over else "RUNNING",
        end_ms=start_ms + 60_000 if over else None,
        params={"lr": "0.1", "epochs": "3", "seed": "7", **params},
        tags={
            "mlflow.user": "ada",
            "mlflow.source.name": "/home/ada/train.py",
            "mlflow.source.git.commit": COMMIT,
        },
        datasets=[("training", "cats", "d1f2")],
        metrics={"loss": [(start_ms + 1000 * i, i, 1 / (i + 1)) for i in range(5)]},
    )
