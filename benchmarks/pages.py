"""The main pages of a large lab: hourly ledger of many nodes, daily rollups, runs and artifacts.
Response times of the server (p50, p95), and the bytes of scripts and style sheets of each page.
"""

import argparse
import gzip
import random
import re
import sys
import time
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import quantiles
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.installation import private_installation
from benchmarks.runs_table import bare_sum, parts, price_nodes, seconds, timed

OVERVIEW_MARK_MS, PAGE_MARK_MS = 150, 400
US_PER_HOUR, LAST_HOUR = 3_600_000_000, 10**7
PROJECTS, PEOPLE = 40, 30
READINGS = 20
_ASSET = re.compile(rb'(?:<script[^>]*\bsrc|<link[^>]*\brel="stylesheet"[^>]*\bhref)="([^"]+)"')


def main() -> None:
    """Fill a lab, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--postgres", action="store_true", help="on a private PostgreSQL instead of SQLite"
    )
    parser.add_argument("--nodes", type=int, default=500, help="of one GPU each")
    parser.add_argument("--days", type=int, default=417, help="of two ledger rows an hour and GPU")
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--artifacts", type=int, default=2_000)
    options = parser.parse_args()
    with private_installation(postgres=options.postgres):
        measure(options)


def measure(options: Any) -> None:
    """Fill a lab, roll its days up, and read the pages."""
    from django.core.management import call_command
    from django.db import connection

    from apps.carbon.rollups.writer import roll_up
    from apps.core.clock import now_us
    from tests.builders import small_lab

    for command in ("migrate", "load_data", "collectstatic"):
        interactive = {} if command == "load_data" else {"interactive": False}
        call_command(command, verbosity=0, **interactive)
    small, end_hour = small_lab(name="Bench"), now_us() // US_PER_HOUR
    first_hour = end_hour - options.days * 24
    price_nodes(small, (first_hour - 24) * US_PER_HOUR)
    timed("nodes, runs, their attribution (made up)", lambda: fill_runs(small, options, first_hour))
    timed("ledger (made up)", lambda: fill_ledger(small, first_hour, end_hour))
    timed("artifacts (made up)", lambda: fill_artifacts(small, options.artifacts))

    def roll_all_up() -> None:
        while not roll_up(lab=small.lab, now=now_us()):
            pass

    timed("daily rollups", roll_all_up)
    if connection.vendor == "postgresql":  # as autovacuum does
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
    else:
        from apps.core.database.statistics import update_statistics

        update_statistics()
    print_size()
    read_pages(small)


def fill_runs(small: Any, options: Any, first_hour: int) -> None:
    """Create nodes of one GPU, and runs that follow each other on each node without a pause."""
    from apps.accounts.services.labs import create_project
    from apps.attribution.models import Attribution
    from apps.carbon.services import apply_factors
    from apps.core.clock import now_us
    from apps.fleet.models import Device, Node
    from apps.fleet.services import register_node
    from apps.ingest.models import Consumer
    from apps.runs.models import Run

    lab, from_us = small.lab, (first_hour - 24) * US_PER_HOUR
    projects = [
        create_project(lab=lab, slug=f"p{i}", name=f"Project {i}", now=1) for i in range(PROJECTS)
    ]
    for i in range(options.nodes - 2):
        register_node(
            lab=lab, uuid=uuid.uuid4(), hostname=f"gpu-{i:03d}", facts={}, site=small.site,
            now=from_us,
        )  # fmt: skip
    nodes = list(Node.objects.filter(lab=lab).order_by("pk"))
    Node.objects.filter(lab=lab).update(last_push_us=now_us())
    apply_factors(lab=lab)
    Device.objects.bulk_create(
        Device(lab=lab, key=f"gpu:GPU-{node.pk}", kind="gpu", node=node, name="A100")
        for node in nodes
    )
    each = max(1, options.runs // len(nodes))
    hours = max(1, options.days * 24 // each)
    for node in nodes:
        runs = [
            Run(
                lab=lab, uuid=uuid.uuid4(), name=f"run {node.pk}-{i}",
                state="failed" if (node.pk + i) % 20 == 0 else "finished",
                started_us=(first_hour + i * hours) * US_PER_HOUR,
                ended_us=(first_hour + (i + 1) * hours) * US_PER_HOUR, node=node,
                os_user=f"user{(node.pk + i) % PEOPLE}", sweep=f"sweep-{(node.pk + i) % 4000}",
                charged_project=projects[(node.pk + i) % PROJECTS], charged_person=small.owner,
                params={"model": f"model-{i % 20}"},
            )
            for i in range(each)
        ]  # fmt: skip
        Run.objects.bulk_create(runs)
        consumers = Consumer.objects.bulk_create(
            Consumer(lab=lab, key=f"run:{run.uuid}", kind="run", run_uuid=run.uuid) for run in runs
        )
        Attribution.objects.bulk_create(
            Attribution(
                consumer=consumer, node=node, from_hour=0, to_hour=LAST_HOUR,
                project=run.charged_project, person=small.owner, way="explicit",
                os_user=run.os_user, program="python",
            )
            for consumer, run in zip(consumers, runs, strict=True)
        )  # fmt: skip
    Consumer.objects.create(lab=lab, key="idle", kind="idle")


def fill_ledger(small: Any, first_hour: int, end_hour: int, *, with_idle: bool = True) -> None:
    """Divide each hour of a GPU between its run and idle, as settling does, or give it all to its
    run.
    """
    from django.db import transaction

    from apps.core.sql import bulk_insert
    from apps.fleet.models import Device
    from apps.ingest.models import Consumer
    from apps.runs.models import Run

    draw, lab = random.Random(7), small.lab
    idle = Consumer.objects.get(lab=lab, kind="idle").pk
    consumers = dict(Consumer.objects.filter(lab=lab, kind="run").values_list("run_uuid", "pk"))
    for device in Device.objects.filter(lab=lab):
        ledger = list[tuple[int, int, int]]()
        rows = Run.objects.filter(node_id=device.node_id).values_list(
            "uuid", "started_us", "ended_us"
        )
        for run, started_us, ended_us in rows:
            stop = min(end_hour, ended_us // US_PER_HOUR)
            for hour in range(started_us // US_PER_HOUR, stop):
                ledger.append((hour, consumers[run], draw.randrange(10**6, 10**9)))
                if with_idle:
                    ledger.append((hour, idle, draw.randrange(10**6)))
        same = {"device_id": device.pk, "node_id": device.node_id, "lab_id": lab.pk}
        number = len(ledger)
        energy_mj = Counter[int]()
        for hour, _, row_mj in ledger:
            energy_mj[hour] += row_mj
        hours = sorted(energy_mj)
        with transaction.atomic():
            bulk_insert("energy_ledgerentry", {
                **{name: ("bigint", [value] * number) for name, value in same.items()},
                **{
                    name: ("smallint", [1] * number)
                    for name in ("energy_quality", "share_quality", "placement_quality")
                },
                "hour": ("bigint", [row[0] for row in ledger]),
                "consumer_id": ("bigint", [row[1] for row in ledger]),
                "energy_mj": ("bigint", [row[2] for row in ledger]),
            })  # fmt: skip
            bulk_insert("energy_devicehour", {
                **{name: ("bigint", [value] * len(hours)) for name, value in same.items()},
                "hour": ("bigint", hours),
                "covered_us": ("bigint", [US_PER_HOUR] * len(hours)),
                "windows": ("integer", [60] * len(hours)),
                "energy_mj": ("bigint", [energy_mj[hour] for hour in hours]),
            })  # fmt: skip


def fill_artifacts(small: Any, count: int) -> None:
    """Register models without copies."""
    from apps.artifacts.models import Artifact
    from apps.core.clock import now_us

    now = now_us()
    rows = [
        Artifact(
            lab=small.lab, digest=f"{i:064x}", form="file", bytes=10**9, kind="model",
            name=f"model-{i}.safetensors", start_key=f"{i:064x}", data_key=f"{i:064x}",
            registered_us=now, owner=small.owner,
        )
        for i in range(count)
    ]  # fmt: skip
    for part in parts(rows, 1_000):
        Artifact.objects.bulk_create(part)


def print_size() -> None:
    from django.db import connection

    from apps.artifacts.models import Artifact
    from apps.energy.models import LedgerEntry
    from apps.fleet.models import Node
    from apps.runs.models import Run

    sizes = (LedgerEntry, Run, Node, Artifact)
    counts = ", ".join(f"{model.objects.count()} {model.__name__}" for model in sizes)
    print(f"{connection.vendor}: {counts}")
    floor_ms = min(seconds(bare_sum) for _ in range(5)) * 1000
    print(f"sum of all totals of runs, nothing else: {floor_ms:.1f} ms", flush=True)


def read_pages(small: Any) -> None:
    """Print p50 and p95 of the response times of each page, its mean CPU time in this process, and
    the bytes it loads.
    """
    from django.db import connection
    from django.test import Client

    import labcarbon.wsgi  # noqa: F401  # as a web process begins
    from apps.runs.models import Run

    client = Client(HTTP_HOST="localhost")
    client.force_login(small.owner)
    run = Run.objects.filter(lab=small.lab).order_by("-pk").values_list("uuid", flat=True).first()
    today = datetime.now(UTC)
    month, year = (f"{today - timedelta(days=days):%Y-%m-%d}" for days in (30, 365))
    end = f"{today:%Y-%m-%d}"
    addresses = (
        "/", f"/?from={month}&to={end}", f"/?from={year}&to={end}", "/projects/",
        f"/projects/?from={year}&to={end}", "/projects/p1/",
        f"/projects/p1/?from={year}&to={end}", "/nodes/", f"/nodes/{small.node.uuid}/",
        f"/runs/{run}/", "/runs/", "/runs/?sort=-energy", "/runs/?group=project", "/artifacts/",
    )  # fmt: skip
    statements = list[str]()

    def count(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        statements.append(sql)
        return execute(sql, params, many, context)

    for address in addresses:
        statements.clear()
        with connection.execute_wrapper(count):
            response = client.get(address)
        if response.status_code != 200:
            print(f"{address:60} answered {response.status_code}")
            continue
        started_cpu_s = time.process_time()
        times = [seconds(lambda a=address: client.get(a)) * 1000 for _ in range(READINGS)]
        cpu_ms = (time.process_time() - started_cpu_s) * 1000 / READINGS
        p50, p95 = quantiles(times, n=100)[49], quantiles(times, n=100)[94]
        mark = OVERVIEW_MARK_MS if urlsplit(address).path == "/" else PAGE_MARK_MS
        print(
            f"{address:60} p50 {p50:6.0f} ms, p95 {p95:6.0f} ms ({p95 / mark:4.2f} of {mark} ms), "
            f"CPU {cpu_ms:4.0f} ms, "
            f"{len(statements):3} queries, {len(gzip.compress(response.content)) // 1024:4} KiB, "
            f"scripts {_kib(response.content, '.js'):4} KiB, styles "
            f"{_kib(response.content, '.css'):4} KiB (gzip)",
            flush=True,
        )


def _kib(page: bytes, ending: str) -> int:
    """Return the size of the scripts or style sheets of a page, each compressed with gzip."""
    from django.conf import settings

    total = 0
    for address in {match.decode() for match in _ASSET.findall(page)}:
        path = urlsplit(address).path
        if path.endswith(ending):
            file = Path(settings.STATIC_ROOT) / path.removeprefix(settings.STATIC_URL)
            total += len(gzip.compress(file.read_bytes()))
    return total // 1024


if __name__ == "__main__":
    main()
