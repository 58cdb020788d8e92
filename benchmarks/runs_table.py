"""The list of runs with 100 000 runs: order, groups and sums, against the mark of a page and
against the smallest possible query of the same run.
"""

import argparse
import random
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.installation import private_installation

PAGE_MARK_S = 0.4
READINGS = 7
HOURS, DEVICES = 2, 2  # of the ledger of a run
PRICES = {"Room 1": ("EUR", 310_000), "Room 2": ("CHF", 270_000)}  # millionths per kWh
SUMS = "sums=1&largest=1000000000,1000000000"  # as the page requests them, without rows
PAGES = (
    "/runs/",
    f"/runs/?{SUMS}",
    "/runs/?sort=-energy",
    "/runs/?sort=-cost&show=energy&show=cost",
    f"/runs/?sort=-cost&show=energy&show=cost&{SUMS}",
    "/runs/?sort=-cost&show=energy&show=cost&sums=1",
    "/runs/?sort=emission&page=1500",
    "/runs/?sort=-duration",
    "/runs/?sort=-metric:val_acc&columns=val_acc",
    "/runs/?sort=name&page=1999",
    "/runs/?sweep=sweep-7&sort=-energy",
    "/runs/?text=run+99&sort=-energy",
    "/runs/?group=project",
    "/runs/?group=person",
    "/runs/?group=sweep&open=sweep-7",
    "/runs/?group=model",
    "/runs/?from={month}&clip=1&sort=-energy",
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--postgres", action="store_true", help="on a private PostgreSQL instead of SQLite"
    )
    parser.add_argument("--runs", type=int, default=100_000)
    options = parser.parse_args()
    with private_installation(postgres=options.postgres):
        measure(options.runs)


def measure(runs: int) -> None:
    """Fill a lab, roll its days up, and read the pages."""
    from django.core.management import call_command
    from django.db import connection

    from apps.carbon.rollups.writer import roll_up
    from apps.core.clock import now_us
    from tests.builders import small_lab

    call_command("migrate", "--no-input", verbosity=0)
    call_command("load_data", verbosity=0)
    call_command("collectstatic", "--no-input", verbosity=0)
    small = small_lab(name=f"Bench {uuid.uuid4().hex[:6]}")
    nodes = price_nodes(small, now_us() - (runs + 1) * 60_000_000)
    print(f"{connection.vendor}: {runs} runs")
    timed("runs (made up)", lambda: fill_runs(small, runs))
    timed("their ledger (made up)", lambda: fill_ledger(small, nodes))

    def roll_all_up() -> None:
        while not roll_up(lab=small.lab, now=now_us()):
            pass

    timed("daily rollups", roll_all_up)
    if connection.vendor == "postgresql":  # as autovacuum does; SQLite has no statistics
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
    floor_s = statistics.median(seconds(bare_sum) for _ in range(READINGS))
    print(f"{'sum of all totals of runs, nothing else':72}{floor_s:8.3f} s")
    read_pages(small, floor_s)


def price_nodes(small: Any, from_us: int) -> list[Any]:
    """Give the lab a second node, abroad, and both sites a price in their currency."""
    from apps.carbon.services import apply_factors
    from apps.core.clock import now_us
    from apps.fleet.services import create_site, register_node, set_price

    site = create_site(lab=small.lab, name="Room 2", kind=small.site.kind, zone="CH", now=from_us)
    node = register_node(
        lab=small.lab, uuid=uuid.uuid4(), hostname="ws-2", facts={}, site=site, now=from_us
    )
    for priced in (small.site, site):
        currency, ucurrency = PRICES[priced.name]
        set_price(
            site=priced, ucurrency_per_kwh=ucurrency, currency=currency,
            from_us=from_us // 3_600_000_000 * 3_600_000_000, by=small.owner, now=now_us(),
        )  # fmt: skip
    apply_factors(lab=small.lab)
    small.lab.refresh_from_db()
    return [small.node, node]


def fill_runs(small: Any, runs: int) -> None:
    """Create a finished run a minute until now, of 40 projects and 4 000 sweeps."""
    from apps.accounts.services.labs import create_project
    from apps.core.clock import now_us
    from apps.runs.models import Run

    lab, minute_us = small.lab, 60_000_000
    first_us = now_us() - runs * minute_us
    projects = [
        create_project(lab=lab, slug=f"p{i}", name=f"Project {i}", now=1) for i in range(40)
    ]
    made = [
        Run(
            lab=lab,
            uuid=uuid.uuid4(),
            name=f"run {number}",
            started_us=first_us + number * minute_us,
            ended_us=first_us + (number + 1 + number % 90) * minute_us,
            state="finished",
            node=small.node,
            os_user=f"user{number % 30}",
            charged_project=projects[number % 40],
            charged_person=small.owner,
            sweep=f"sweep-{number % 4000}",
            params={"model": f"model-{number % 20}", "lr": number % 7},
        )
        for number in range(runs)
    ]
    for part in parts(made, 5_000):
        Run.objects.bulk_create(part, batch_size=500)


def fill_ledger(small: Any, nodes: list[Any]) -> None:
    """Give all runs but each tenth a ledger, one of ten abroad, and each a metric."""
    from apps.core.units import US_PER_HOUR
    from apps.energy.models import LedgerEntry
    from apps.fleet.models import Device
    from apps.ingest.models import Consumer
    from apps.runs.models import Metric, Run

    dice, lab = random.Random(7), small.lab
    devices = Device.objects.bulk_create(
        [
            Device(lab=lab, key=f"gpu:GPU-{node.pk}-{i}", kind="gpu", node=node, name="A100")
            for node in nodes
            for i in range(DEVICES)
        ]
    )
    of_node = [devices[i * DEVICES : (i + 1) * DEVICES] for i in range(len(nodes))]
    rows = Run.objects.filter(lab=lab).order_by("pk").values_list("pk", "uuid", "started_us")
    for part in parts(list(rows), 5_000):
        Metric.objects.bulk_create(
            [
                Metric(run_id=pk, name="val_acc", count=1, last_value=dice.random())
                for pk, *_ in part
            ]
        )
        measured = [row for row in part if row[0] % 10]
        consumers = Consumer.objects.bulk_create(
            [
                Consumer(lab=lab, key=f"run:{run_uuid}", kind="run", run_uuid=run_uuid)
                for _, run_uuid, _ in measured
            ]
        )
        LedgerEntry.objects.bulk_create(
            [
                LedgerEntry(
                    lab=lab,
                    device=device,
                    node=device.node,
                    hour=started_us // US_PER_HOUR + hour,
                    consumer=consumer,
                    energy_quality=1,
                    share_quality=1,
                    placement_quality=1,
                    energy_mj=dice.randrange(10**6, 10**9),
                )
                for consumer, (pk, _, started_us) in zip(consumers, measured, strict=True)
                for device in of_node[pk % 10 == 1]
                for hour in range(HOURS)
            ],
            batch_size=1_000,
        )


def parts(rows: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def bare_sum() -> None:
    from apps.core.sql import fetch_tuples

    fetch_tuples("SELECT COUNT(*), SUM(energy_mj), SUM(emission_ug) FROM carbon_runtotal", [])


def seconds(work: Callable[[], object]) -> float:
    """Return the duration of a call."""
    started_s = time.perf_counter()
    work()
    return time.perf_counter() - started_s


def timed(what: str, work: Callable[[], object]) -> None:
    print(f"{what:72}{seconds(work):8.2f} s", flush=True)


def read_pages(small: Any, floor_s: float) -> None:
    """Print the median of several readings of each page, its part of the mark, and its multiple
    of the bare sum.
    """

    from django.test import Client

    import labcarbon.wsgi  # noqa: F401  # as a web process begins

    client = Client(HTTP_HOST="localhost")
    client.force_login(small.owner)
    month = f"{datetime.now(UTC) - timedelta(days=30):%Y-%m-%d}"
    for page in PAGES:
        address = page.format(month=month)
        answer = client.get(address)
        if answer.status_code != 200:
            print(f"{address:72}  answered {answer.status_code}")
            continue
        middle = statistics.median(
            seconds(lambda address=address: client.get(address)) for _ in range(READINGS)
        )
        print(
            f"{address:72}{middle:8.3f} s  {middle / PAGE_MARK_S:5.2f} of the mark (0.4 s)  "
            f"{middle / floor_s:6.1f} × the bare sum",
            flush=True,
        )


if __name__ == "__main__":
    main()
