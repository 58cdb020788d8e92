"""50 000 artifacts in 100 000 copies, made by 17 000 runs, a lineage of 2 000 nodes, a plan of
20 000 lines: pages and lists against the mark."""

import argparse
import hashlib
import os
import random
import statistics
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.environment import installation_environment
from tests.services.postgres import Postgres

PAGE_MARK_S = 0.4
KINDS = ("checkpoint", "checkpoint", "checkpoint", "model", "dataset", "log")
FORMATS = {"checkpoint": "torch", "model": "safetensors", "dataset": "parquet", "log": ""}
MEDIA = ("hdd", "ssd", "object", "unknown")
BOARD = (
    "/artifacts/",
    "/artifacts/?page=700",
    "/artifacts/?sort=name",
    "/artifacts/?sort=-bytes&page=20",
    "/artifacts/?sort=-copies",
    "/artifacts/?text=best&kind=model",
    "/artifacts/?text=data/2/step",
    "/artifacts/?copies=twice",
    "/artifacts/?copies=missing&project=p1",
    "/artifacts.csv",
    "/artifacts/?architecture=resnet50",
    "/artifacts/?architecture=bert",
    "/artifacts/?base_model=base-7",
    "/artifacts/?data=atlas",
    "/artifacts/?metric=val_acc",
    "/artifacts/?metric=val_loss&page=200",
    "/artifacts/?metric=val_acc&metric_min=0.9&architecture=bert&data=atlas&licence=mit",
    "/artifacts/?licence=apache&bytes_min=1+GB&bytes_max=20+GB&kind=model",
    "/artifacts/?medium=unknown",
    "/artifacts/?data=atlas&architecture=bert&licence=nobody",
    "/artifacts.csv?metric=val_acc&data=atlas",
    "/artifacts/storage/",
    "/artifacts/storage.csv",
    "/api/v1/artifacts/",
    "/api/v1/artifacts/?architecture=bert&data=atlas",
    "/api/v1/artifacts/?metric=val_acc",
    "/api/v1/artifacts/?metric=val_loss&metric_max=0.5&base_model=base-7",
)
ARCHITECTURES = ("resnet50", "bert-base", "vit-large", "unet", "llama-7b")
SUBJECTS = ("atlas", "cell", "galaxy", "street", "weather", "protein", "speech", "leaf")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def fill(small: Any, number: int, now: int) -> list[Any]:
    """Add artifacts of 40 projects with two copies each on average; pin one in fifty."""
    from apps.accounts.services.labs import create_project
    from apps.artifacts.models import Artifact, Copy, Pin

    dice = random.Random(50_000)
    projects = [
        create_project(lab=small.lab, slug=f"p{i}", name=f"Project {i}", now=now) for i in range(40)
    ]
    artifacts = []
    for i in range(number):
        kind = dice.choice(KINDS)
        name = f"{dice.choice(('best', 'last', 'step'))}-{i}.{FORMATS[kind] or 'txt'}"
        facts = {
            "parameters": dice.randrange(10**6, 10**10),
            "architecture": dice.choice(ARCHITECTURES),
            "tensors": 161,
        }
        if i % 10 == 0:
            facts["base_model"] = f"lab/base-{i // 10 % 40}"
        artifacts.append(
            Artifact(
                lab=small.lab,
                digest=digest(f"artifact {i}"),
                form="file",
                bytes=dice.randrange(10**6, 10**11),
                kind=kind,
                licence=dice.choice(("MIT", "Apache-2.0", "CC-BY-4.0", "")),
                format=FORMATS[kind],
                name=name,
                facts=facts,
                tags={"task": "cats"},
                state="stored",
                project=dice.choice([*projects, None]),
                owner=small.owner,
                registered_us=now - i * 10**9,
                start_key=digest(f"start {i}"),
                data_key=digest(f"data {i}"),
                is_linked=True,
            )
        )
    artifacts = Artifact.objects.bulk_create(artifacts, batch_size=1000)
    copies = [
        Copy(
            lab=small.lab,
            artifact=each,
            node=small.node,
            path=f"/data/{i}/{each.name}",
            location_key=digest(f"{i} {each.pk}"),
            medium=dice.choice(MEDIA),
            state=dice.choice(["present"] * 20 + ["missing", "corrupt"]),
            first_observed_us=now,
            last_observed_us=now,
            hashed_us=now,
        )
        for each in artifacts
        for i in range(dice.choice((1, 2, 3)))
    ]
    Copy.objects.bulk_create(copies, batch_size=1000)
    pinned = dice.sample(artifacts, number // 50)
    Pin.objects.bulk_create(
        Pin(artifact=each, by=small.owner, reason="Cited", from_us=now) for each in pinned
    )
    return artifacts


def works(small: Any, artifacts: list[Any], now: int) -> None:
    """Add runs with fingerprints and metrics, each the producer of two models or checkpoints.

    Also add the index terms of each model for the reuse search.
    """
    from apps.artifacts.models import LineageEdge, ReuseTerm
    from apps.artifacts.reuse.similarity import TermKind, significant_words
    from apps.runs.models import Fingerprint, Metric, Run

    dice = random.Random(18_000)
    models = [each for each in artifacts if each.kind in ("model", "checkpoint")]
    pairs = [models[i : i + 2] for i in range(0, len(models), 2)]
    runs = Run.objects.bulk_create(
        [
            Run(
                lab=small.lab,
                uuid=uuid.uuid4(),
                name=f"work {i}",
                started_us=now - 10**12,
                state="finished",
                ended_us=now,
            )
            for i in range(len(pairs))
        ],
        batch_size=1000,
    )
    prints, metrics, edges, terms = [], [], [], []
    for i, (run, pair) in enumerate(zip(runs, pairs, strict=True)):
        subject = f"{dice.choice(SUBJECTS)}-{i % 50}"
        prints.append(
            Fingerprint(
                run=run,
                params={f"p{j}": digest(f"{i} {j}")[:32] for j in range(20)},
                start_name=f"base-{i % 40}",
                start=digest(f"start {i % 40}"),
                data=digest(f"data {i % 400}"),
                data_items=[
                    {"role": "data", "name": subject, "files": 1, "bytes": 1, "state": "verified"}
                ],
            )
        )
        for name in ("val_acc", "val_loss", "loss"):
            value = dice.random()
            metrics.append(
                Metric(
                    run=run,
                    name=name,
                    count=40,
                    last_step=40,
                    last_value=value,
                    min_value=value,
                    max_value=value,
                )
            )
        for each in pair:
            edges.append(
                LineageEdge(lab=small.lab, run=run, artifact=each, role="produced", recorded_us=now)
            )
            known = [(TermKind.DATA_WORD, word) for word in significant_words(subject)] + [
                (TermKind.PURPOSE_WORD, "cat")
            ]
            known += [
                (TermKind.MODEL_WORD, word)
                for word in significant_words(each.facts["architecture"])
            ]
            known.append((TermKind.SAME_DATA, digest(f"data {i % 400}")[:40]))
            terms += [
                ReuseTerm(lab=small.lab, artifact=each, kind=kind, term=term)
                for kind, term in known
            ]
    Fingerprint.objects.bulk_create(prints, batch_size=1000)
    Metric.objects.bulk_create(metrics, batch_size=1000)
    LineageEdge.objects.bulk_create(edges, batch_size=1000)
    ReuseTerm.objects.bulk_create(terms, batch_size=1000)


def family(small: Any, nodes: int, wide: int, name: str, now: int, *, measured: bool) -> str:
    """Add a lineage of ``nodes`` runs and artifacts in generations of ``wide`` runs.

    Return the digest of the last artifact. Each run reads three artifacts of the previous
    generation and produces one. ``measured``: each run has five hours of measured energy.
    """
    from apps.artifacts.models import Artifact, LineageEdge
    from apps.core.units import hour_of
    from apps.energy.models import LedgerEntry
    from apps.fleet.models import Device
    from apps.ingest.models import Consumer
    from apps.runs.models import Run

    dice = random.Random(nodes)
    number = nodes // 2
    artifacts = Artifact.objects.bulk_create(
        [
            Artifact(
                lab=small.lab,
                digest=digest(f"{name} {i}"),
                form="file",
                bytes=10**9,
                kind="model",
                name=f"{name}-{i}",
                registered_us=now,
                start_key=digest(f"s {name} {i}"),
                data_key=digest(f"d {name} {i}"),
                is_linked=True,
            )
            for i in range(number)
        ],
        batch_size=1000,
    )
    started = now - 10**12
    runs = Run.objects.bulk_create(
        [
            Run(
                lab=small.lab,
                uuid=uuid.uuid4(),
                name=f"{name} {i}",
                started_us=started,
                state="finished",
                ended_us=now,
            )
            for i in range(number)
        ],
        batch_size=1000,
    )
    edges = [
        LineageEdge(lab=small.lab, run=run, artifact=each, role="produced", recorded_us=now)
        for run, each in zip(runs, artifacts, strict=True)
    ]
    for i, run in enumerate(runs):
        before = range(max(0, (i // wide - 1) * wide), i // wide * wide)
        read = {i - wide, *dice.sample(before, min(2, len(before)))} if before else set[int]()
        edges += [
            LineageEdge(lab=small.lab, run=run, artifact=artifacts[j], role="used", recorded_us=now)
            for j in sorted(read)
        ]
    LineageEdge.objects.bulk_create(edges, batch_size=1000)
    if measured:
        device, _ = Device.objects.get_or_create(
            lab=small.lab, key="gpu:GPU-1", kind="gpu", node=small.node, name="A100"
        )
        users = Consumer.objects.bulk_create(
            [
                Consumer(lab=small.lab, key=f"run:{run.uuid}", kind="run", run_uuid=run.uuid)
                for run in runs
            ],
            batch_size=1000,
        )
        quality = {"energy_quality": 1, "share_quality": 1, "placement_quality": 1}
        LedgerEntry.objects.bulk_create(
            [
                LedgerEntry(
                    lab=small.lab,
                    device=device,
                    node=small.node,
                    hour=hour_of(started) + hour,
                    consumer=user,
                    energy_mj=dice.randrange(10**8, 10**9),
                    **quality,
                )
                for user in users
                for hour in range(5)
            ],
            batch_size=1000,
        )
    return artifacts[-1].digest


def a_plan(small: Any, number: int, now: int) -> Any:
    """Return a draft cleanup plan of ``number`` copies of checkpoints and models on the lab's node.

    The node has about five times as many copies. Half of the largest fifty are folders.
    Each folder contains five items of the plan and one copy outside the plan.
    """
    from apps.artifacts.models import Artifact, CleanupItem, CleanupPlan, Copy, LineageEdge
    from apps.artifacts.storage_model import MEDIUM_POWER, storage_mj

    dice = random.Random(20_000)
    present = Copy.objects.filter(
        lab=small.lab, state="present", artifact__kind__in=("checkpoint", "model")
    )
    copies = list(
        present.exclude(artifact__pins__ended_us=None, artifact__pins__isnull=False).select_related(
            "artifact"
        )
    )
    copies = sorted(
        dice.sample(copies, min(number, len(copies))), key=lambda copy: -copy.artifact.bytes
    )
    for i, folder in enumerate(copies[:50:2]):
        Artifact.objects.filter(pk=folder.artifact_id).update(form="folder")
        for j, inner in enumerate(copies[100 + 5 * i :][:5]):
            Copy.objects.filter(pk=inner.pk).update(path=f"{folder.path}/{j}")
    runs = dict(
        LineageEdge.objects.filter(lab=small.lab, role="produced").values_list(
            "artifact_id", "run_id"
        )
    )
    took = {run: dice.randrange(10**8, 10**11) for run in runs.values()}
    plan = CleanupPlan.objects.create(
        lab=small.lab, node=small.node, created_by=small.owner, created_us=now
    )
    CleanupItem.objects.bulk_create(
        [
            CleanupItem(
                plan=plan,
                copy=copy,
                artifact=copy.artifact,
                retention_class="intermediate",
                is_last_copy=False,
                due_us=now,
                storage_mj=storage_mj(copy.artifact.bytes, 8760, MEDIUM_POWER[copy.medium].uwh)
                if copy.medium in MEDIUM_POWER
                else None,
                storage_ug=dice.randrange(10**9),
                retrain_run_id=runs.get(copy.artifact_id),
                retrain_mj=took.get(runs.get(copy.artifact_id)),
                retrain_ug=dice.randrange(10**10),
                selected=True,
            )
            for copy in copies
        ],
        batch_size=1000,
    )
    return plan


def plan_pages(small: Any, number: int, now: int) -> None:
    """Measure the pages of a plan as a draft, after notification of owners and after approval."""
    from apps.artifacts.cleanup.plans import approve, notify_owners
    from apps.artifacts.cleanup.retention import DAY_US

    plan = a_plan(small, number, now)
    path = f"/artifacts/cleanup/{plan.uuid}"

    def measure(what: str, *more: str) -> None:
        settle()
        label = f"{what} of {number} lines"
        listed = [(f"{label}: {query or 'page'}", f"{path}/{query}") for query in ("", *more)]
        pages(small, [*listed, (f"{label}: the list of plans", "/artifacts/cleanup/")])

    measure("a draft", "?page=200")
    notify_owners(plan=plan, grace_days=1, trash_days=14, by=small.owner, now=now)
    measure("told", "?page=200", "?mine=1")
    approve(plan=plan, by=small.owner, now=now + DAY_US)
    measure("approved", "?page=200", "?mine=1")


def pages(small: Any, addresses: list[tuple[str, str]]) -> None:
    """Print the median and the maximum of five response times of each page."""
    from django.test import Client

    import labcarbon.wsgi  # noqa: F401  # same start as a web process
    from apps.accounts.services.labs import issue_user_token
    from apps.core.clock import now_us

    client = Client(HTTP_HOST="localhost")
    client.force_login(small.owner)
    token = {
        "Authorization": f"Bearer {issue_user_token(lab=small.lab, user=small.owner, now=now_us())}"
    }
    for label, address in addresses:
        took = []
        for _ in range(5):
            start = time.perf_counter()
            answer = client.get(address, headers=token if address.startswith("/api/") else {})
            assert answer.status_code == 200, (address, answer.status_code)
            b"".join(answer.streaming_content) if answer.streaming else answer.content
            took.append(time.perf_counter() - start)
        middle = statistics.median(took)
        print(
            f"{label:84}{middle:8.3f} s, slowest {max(took):.3f} s   {middle / PAGE_MARK_S:5.2f} "
            "of the mark (0.4 s)"
        )


def settle() -> None:
    """Update the statistics of the database, as autovacuum does about a minute after a change."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")


def run(artifact_count: int, nodes: int, lines: int) -> None:
    """Build the lab and measure it."""
    from django.core.management import call_command
    from django.db import connection

    from apps.core.clock import now_us
    from tests.builders import small_lab

    call_command("migrate", "--no-input", verbosity=0)
    call_command("collectstatic", "--no-input", verbosity=0)
    small, now = small_lab(name=f"Bench {uuid.uuid4().hex[:6]}"), now_us()
    print(f"{connection.vendor}: {artifact_count} artifacts, lineages of {nodes} nodes")
    artifacts = fill(small, artifact_count, now)
    works(small, artifacts, now)
    deep = family(small, nodes, 1, "deep", now, measured=True)
    wide = family(small, nodes, nodes // 20, "wide", now, measured=True)
    settle()
    listed = [(address, address) for address in BOARD]
    model = next(each for each in artifacts if each.kind == "model").digest
    listed.append(("one model that shares something with thousands", f"/artifacts/{model}/"))
    listed.append(
        ("its candidates over the API", f"/api/v1/artifacts/{model}/candidates/?by=metric")
    )
    for label, it in (
        (f"{nodes} nodes one after the other", deep),
        (f"{nodes} nodes in ten generations", wide),
    ):
        listed += [
            (f"{label}: {what or 'page'}", f"/artifacts/{it}/{what}")
            for what in ("", "card.md", "lineage.csv")
        ]
    pages(small, listed)
    plan_pages(small, lines, now)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--postgres", action="store_true", help="on a private PostgreSQL instead of SQLite"
    )
    parser.add_argument("--artifacts", type=int, default=50_000)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--lines", type=int, default=20_000)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="labcarbon-bench-"))
        database = stack.enter_context(Postgres(durable=True)).url if options.postgres else ""
        os.environ.update(
            installation_environment(folder), DJANGO_SETTINGS_MODULE="labcarbon.settings"
        )
        if database:
            os.environ["LABCARBON_DATABASE_URL"] = database
        import django

        django.setup()
        run(options.artifacts, options.nodes, options.lines)


if __name__ == "__main__":
    main()
