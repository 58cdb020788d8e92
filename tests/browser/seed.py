"""Program of the browser tests: adds one to two hours of use to a lab, prints a session key."""

import json
import uuid
from typing import Any

import django


def main() -> None:
    """Create the lab.

    Print {session, run, other, node, site, elsewhere, asset, artifact, statement, long_run,
    long_runs, long_finding} as JSON.
    """
    django.setup()
    from django.contrib.sessions.backends.db import SessionStore

    from apps.accounts.services.labs import create_project
    from apps.core.clock import now_us
    from apps.core.jobs import run_until_idle
    from apps.core.units import US_PER_HOUR
    from apps.fleet.services import create_site, register_node, set_pue, set_static_power
    from apps.runs.metric_parsing import Point
    from apps.runs.services.fingerprints import put_fingerprint
    from apps.runs.services.metrics import add_points
    from apps.runs.services.runs import RunFacts, change_run, put_run
    from tests.browser.long_texts import add_long_texts
    from tests.builders import MINUTE, W, push, small_lab
    from tests.runs.fingerprints import parsed

    small = small_lab(name="Cell Lab")
    now = now_us()
    begin = now // US_PER_HOUR * US_PER_HOUR - 2 * US_PER_HOUR
    create_project(lab=small.lab, slug="cell-atlas", name="Cell atlas", now=begin)
    set_pue(site=small.site, pue_ppm=1_200_000, from_us=begin + US_PER_HOUR)
    set_static_power(node=small.node, static_power_mw=60_000)
    nowhere = create_site(
        lab=small.lab, name="Cluster, zone not chosen", kind="machine_room", zone=""
    )  # type: ignore[arg-type]
    far = register_node(
        lab=small.lab, uuid=uuid.uuid4(), hostname="gpu-far", facts={}, site=nowhere, now=begin
    )
    runs = [uuid.uuid4() for _ in range(3)]
    for run, project in zip(runs, ("demo", "cell-atlas", None), strict=True):
        facts = RunFacts(
            name=f"train {project}",
            started_us=begin,
            project=project,
            command=["python", "train.py"],
            params={"lr": 0.1},
            os_user="ada",
            host="ws-1",
            node_uuid=small.node.uuid,
        )
        put_run(lab=small.lab, uuid=run, facts=facts, by=small.owner, bound_node=None)

    def minutes(device: str, watts: int, measurement: str, count: int, first_run: int) -> list[W]:
        counter = 5_000_000 if measurement == "nvml_counter" else None
        windows = []
        for i in range(count):
            mj = watts * 60_000 + i
            used = mj * 2 // 3
            windows.append(
                W(
                    device,
                    mj,
                    start_us=begin + i * MINUTE,
                    end_us=begin + (i + 1) * MINUTE,
                    seq=i,
                    measurement=measurement,
                    counter_start=counter,
                    shares=((f"run:{runs[(first_run + i // 40) % 3]}", used), ("idle", mj - used)),
                )
            )
            counter = None if counter is None else counter + mj
        return windows

    facts = {"gpu:GPU-0000-1111": {"name": "NVIDIA A100-SXM4-80GB"}}
    sent = begin + 2 * US_PER_HOUR
    push(
        small.node,
        minutes("gpu:GPU-0000-1111", 250, "nvml_counter", 119, 0),
        sent_at=sent,
        device_facts=facts,
    )
    push(small.node, minutes(f"cpu:{small.node.uuid}/0", 40, "cpu_model", 119, 0), sent_at=sent)
    push(far, minutes("gpu:GPU-0000-2222", 100, "nvml_power", 30, 1), sent_at=sent)
    change_run(
        lab=small.lab,
        uuid=runs[0],
        state="finished",
        ended_us=begin + 40 * MINUTE,
        exit_code=0,  # type: ignore[arg-type]
        reported_energy_mj=1,
        bound_node=None,
    )
    for best, run in enumerate(small.lab.runs.filter(uuid__in=runs[:2]).order_by("pk"), 1):
        put_fingerprint(run=run, payload=parsed())
        curve = [Point(step, begin, best / (step + 1)) for step in range(40)]
        add_points(
            lab=small.lab, uuid=run.uuid, points={"val_loss": curve}, bound_node=None, now=None
        )
    asset = _assets(small, begin)
    run_until_idle(worker="seed")
    session = SessionStore()
    session["_auth_user_id"] = str(small.owner.pk)
    session["_auth_user_backend"] = "django.contrib.auth.backends.ModelBackend"
    session["_auth_user_hash"] = small.owner.get_session_auth_hash()
    session.create()
    _server(small, runs[0], now)
    model = _artifacts(small, runs, now)
    statement = _statement(small, now)
    long_texts = add_long_texts(small, begin)
    register_rows = {
        "session": session.session_key,
        "run": str(runs[0]),
        "other": str(runs[2]),
        "node": str(small.node.uuid),
        "site": small.site.pk,
        "elsewhere": nowhere.pk,
        "asset": asset,
        "artifact": model,
        "statement": statement,
        **long_texts,
    }
    print(json.dumps(register_rows))


def _server(small: Any, run: uuid.UUID, now: int) -> None:
    """Add an unreachable MLflow server with one imported and one rejected run."""
    from apps.accounts.models import Project
    from apps.runs.models import Run
    from apps.trackers.mlflow.models import MlflowRun, MlflowSource
    from apps.trackers.mlflow.services.servers import SourceIn, add_source

    project = Project.objects.get(lab=small.lab, slug="demo")
    register_rows = SourceIn(
        name="MLflow of the lab",
        address="http://127.0.0.1:9",
        patterns=(("cells-*", project),),
        project=project,
        site=small.site,
    )
    source = add_source(lab=small.lab, payload=register_rows, by=small.owner, now=now)
    away = {
        "problem": "127.0.0.1:9 refuses the connection: is the server running?",
        "failures": 3,
        "version": "3.4.0",
    }
    MlflowSource.objects.filter(pk=source.pk).update(
        polled_us=now,
        succeeded_us=now,
        due_us=now,
        experiments=12,
        experiments_imported=7,
        skew_us=420_000_000,
        **away,
    )
    said = {
        "verdict": "possible duplicate: This may have been done already.",
        "last_listed_us": now,
    }
    MlflowRun.objects.create(
        source=source,
        mlflow_id="a" * 32,
        run=Run.objects.get(lab=small.lab, uuid=run),
        is_linked=True,
        **said,
        written_verdict=said["verdict"],
    )
    MlflowRun.objects.create(
        source=source,
        mlflow_id="b" * 32,
        last_listed_us=now,
        problem="MLflow tells no start of it, so it cannot be placed in time.",
    )


def _artifacts(small: Any, runs: list[uuid.UUID], now: int) -> str:
    """Register a data set, a model trained from it in two steps, checkpoints, and a plan.

    Return the digest of the model.
    """
    from apps.artifacts.cleanup.plans import create_plan, notify_owners, object_to_items
    from apps.artifacts.cleanup.retention import DAY_US
    from apps.artifacts.models import Artifact, Copy
    from apps.artifacts.services.curation import pin, promote
    from apps.artifacts.services.holds import place_hold
    from apps.artifacts.services.lineage import link_new_artifacts
    from tests.artifacts.support import digest, edge, register_rows, row

    def at(*paths: str, medium: str = "ssd") -> list[dict[str, str]]:
        return [{"path": path, "medium": medium} for path in paths]

    first, second, third = runs
    cells = row(
        "cells-2026",
        kind="dataset",
        format="webdataset",
        bytes=2_400_000_000_000,
        form="folder",
        files=812,
        project="cell-atlas",
        copies=at("/data/cells", "/backup/cells", medium="hdd"),
        runs=[edge(first, "used"), edge(second, "used")],
    )
    base = row(
        "base.safetensors",
        kind="model",
        format="safetensors",
        bytes=91_234_567,
        payload=digest("tensors"),
        licence="MIT",
        facts={"parameters": 22_700_000, "architecture": "resnet50"},
        tags={"task": "cells"},
        aliases={"md5": "0" * 32},
        copies=[*at("/m/base.safetensors"), *at("s3://lab/base.safetensors", medium="object")],
        runs=[edge(first), edge(second, "initialised_from")],
    )
    tuned = row(
        "tuned-on-a-rather-long-name-of-cells.safetensors",
        kind="model",
        format="safetensors",
        bytes=91_234_999,
        copies=at("/m/tuned.safetensors", "/m/copy.safetensors"),
        runs=[edge(second), edge(third, "distilled_from")],
    )
    steps = [
        row(
            f"step-{i}.ckpt",
            kind="checkpoint",
            format="torch",
            bytes=10_000_000 * i,
            runs=[edge(first)],
            copies=at(f"/c/{i}", medium="unknown"),
        )
        for i in range(1, 61)
    ]
    register_rows(small, *steps, now=now - 60 * DAY_US, by=small.owner)
    register_rows(
        small, cells, base, tuned, row("log.txt", kind="log", bytes=12), now=now, by=small.owner
    )
    link_new_artifacts(lab=small.lab, now=now)
    Copy.objects.filter(path="/m/copy.safetensors").update(state="corrupt")
    Copy.objects.filter(path="/backup/cells").update(state="missing")
    pin(
        artifact=Artifact.objects.get(name="cells-2026"),
        reason="Cited in the paper of May",
        by=small.owner,
        now=now,
    )
    made = Artifact.objects.get(name=tuned["name"])
    promote(artifact=made, by=small.owner, now=now)
    plan = create_plan(lab=small.lab, node=small.node, project=None, by=small.owner, now=now)
    notify_owners(plan=plan, grace_days=14, trash_days=14, by=small.owner, now=now)
    seventh, until_hour = Artifact.objects.get(name="step-7.ckpt"), now // 3_600_000_000 + 2_000
    place_hold(
        on=seventh,
        reason="Paper under review",
        until_hour=until_hour,
        by=small.owner,
        is_manager=True,
        now=now,
    )
    object_to_items(
        plan=plan,
        items=[plan.items.order_by("-pk")[0].pk],
        reason="In the thesis",
        by=small.owner,
        now=now,
    )
    return made.digest


def _statement(small: Any, now: int) -> int:
    """Close the day before yesterday; return its statement. It has hardware and no energy."""
    from datetime import UTC, datetime, timedelta

    from apps.core.jobs import run_until_idle
    from apps.reports.services import close_period

    run_until_idle(worker="seed")
    day = datetime.fromtimestamp(now // 10**6, tz=UTC).date() - timedelta(days=2)
    closed = close_period(lab=small.lab, first_day=day, last_day=day, by=small.owner, now=now)
    return int(closed.statement.pk)


def _assets(small: Any, begin: int) -> int:
    """Register a server with a metered card, a disposed card and a switch of unknown carbon.

    Return the id of the metered card.
    """
    from apps.accounts.models import Project
    from apps.assets.services import Entry, record
    from apps.core.clock import now_us
    from apps.core.units import US_PER_HOUR
    from apps.fleet.models import Device
    from tests.assets.support import YEAR, bought

    now, bought_us = now_us(), begin - 2 * YEAR * US_PER_HOUR
    server = bought(
        small, kind="server", name="gpu-01", kg=1_300, at_us=bought_us, now=now, serial="SRV-1"
    )
    device = Device.objects.get(lab=small.lab, key="gpu:GPU-0000-1111")
    card = bought(small, at_us=bought_us, now=now, device=device)
    atlas = Project.objects.get(lab=small.lab, slug="cell-atlas")
    for entry in (
        Entry("move", bought_us, parent=server, site=small.site),
        Entry("transfer", begin - YEAR * US_PER_HOUR, project=atlas, evidence="Minutes of May"),
        Entry("life_change", begin - 48 * US_PER_HOUR, life_end_us=begin + 3 * YEAR * US_PER_HOUR),
    ):
        record(asset=card, entry=entry, by=small.owner, now=now)
    gone = bought(small, name="A100 no. 2", at_us=bought_us, now=now)
    record(
        asset=gone, entry=Entry("dispose", begin, counterpart="Recycler"), by=small.owner, now=now
    )
    bought(small, name="Switch", kind="network", kg=None, at_us=bought_us, years=1, now=now)
    return card.pk


if __name__ == "__main__":
    main()
