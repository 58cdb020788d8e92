"""A register of 20 000 assets with 100 000 entries: charging it, charging a day, and its pages,
against their marks.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.environment import installation_environment
from tests.services.postgres import Postgres

DAY_MARK_S, PAGE_MARK_S = 30.0, 0.4
PAGES = (
    "/",
    "/?period=year",
    "/projects/",
    "/projects/p1/",
    "/nodes/",
    "/scopes/",
    "/unattributed/",
    "/assets/",
    "/assets/?sort=-balance&page=7",
    "/assets/?kind=gpu&text=A100",
    "/assets/fleet/",
    "/assets.csv",
    "/assets/ranking/",
)


def register(small: Any, assets: int, metered: int, now: int) -> None:
    """Five entries a life on average: bought, put to use, and three of what happens."""
    from apps.accounts.services.labs import create_project
    from apps.assets.services import Draft, Embodied, Entry, Facts, register_many
    from apps.core.units import UG_PER_KG, US_PER_HOUR
    from apps.fleet.models import Device

    dice = random.Random(20_000)
    projects = [
        create_project(lab=small.lab, slug=f"p{i}", name=f"Project {i}", now=now) for i in range(40)
    ]
    devices = list(Device.objects.filter(lab=small.lab, kind="gpu").order_by("pk"))[:metered]
    kinds = ["gpu", "cpu", "server", "workstation", "laptop", "storage", "network", "monitor"]
    drafts = []
    for number in range(assets):
        started_s = now - dice.randrange(200, 50_000) * US_PER_HOUR
        later = [
            started_s + dice.randrange(1, max(2, (now - started_s) // US_PER_HOUR)) * US_PER_HOUR
            for _ in range(3)
        ]
        entries = tuple(
            dice.choice(
                [
                    Entry("transfer", at, project=dice.choice(projects)),
                    Entry("move", at, site=small.site),
                    Entry("repair", at, embodied=Embodied(dice.randrange(30) * UG_PER_KG)),
                    Entry(
                        "life_change", at, life_end_us=at + dice.randrange(1, 40_000) * US_PER_HOUR
                    ),
                ]
            )
            for at in sorted(later)
        )
        opening = Entry(
            "purchase",
            started_s,
            embodied=Embodied(dice.randrange(10, 2_000) * UG_PER_KG),
            life_hours=8_760 * dice.randrange(2, 7),
        )
        device = devices[number] if number < len(devices) else None
        facts = Facts(
            f"Thing {number}",
            "gpu" if device else dice.choice(kinds),
            serial=f"S{number}",
            tag=f"T{number}",
        )
        drafts.append(Draft(facts, opening, started_s, device=device, entries=entries))
    for start in range(0, assets, 2_000):
        register_many(lab=small.lab, drafts=drafts[start : start + 2_000], by=small.owner, now=now)


def measure_a_month(small: Any, metered: int, now: int) -> None:
    """The ledger of ``metered`` GPUs over a month: each hour one user, in the background idle
    energy.
    """
    from apps.attribution.services.derive import attribute_new
    from apps.core.units import hour_of
    from apps.energy.models import DeviceHour, LedgerEntry
    from apps.fleet.models import Device
    from apps.ingest.models import Consumer

    dice = random.Random(31)
    lab, node = small.lab, small.node
    devices = Device.objects.bulk_create(
        [
            Device(lab=lab, key=f"gpu:GPU-{i:05}", kind="gpu", node=node, name="A100")
            for i in range(metered)
        ]
    )
    keys = [("idle", "idle"), *((f"proc:user{i}/python", "proc") for i in range(40))]
    consumers = Consumer.objects.bulk_create(
        [Consumer(lab=lab, key=key, kind=kind) for key, kind in keys]
    )
    hours = range(hour_of(now) - 31 * 24, hour_of(now))
    quality = {"energy_quality": 1, "share_quality": 1, "placement_quality": 1}
    for device in devices:
        entries, measured = [], []
        for hour in hours:
            who = dice.choice(consumers)
            entries += [
                LedgerEntry(
                    lab=lab,
                    device=device,
                    node=node,
                    hour=hour,
                    consumer=consumer,
                    energy_mj=dice.randrange(10**8, 10**9),
                    **quality,
                )
                for consumer in {consumers[0], who}
            ]
            measured.append(
                DeviceHour(
                    device=device,
                    hour=hour,
                    node=node,
                    lab=lab,
                    covered_us=3_600_000_000,
                    windows=60,
                    energy_mj=0,
                )
            )
        LedgerEntry.objects.bulk_create(entries, batch_size=500)
        DeviceHour.objects.bulk_create(measured, batch_size=500)
    attribute_new(lab=lab, node_id=node.pk, consumer_ids=[consumer.pk for consumer in consumers])


def timed(what: str, work: Callable[[], object], mark_s: float | None = None) -> None:
    started_s = time.perf_counter()
    work()
    took = time.perf_counter() - started_s
    print(
        f"{what:44}{took:8.2f} s"
        + (f"   {took / mark_s:5.2f} of the mark ({mark_s:g} s)" if mark_s else ""),
        flush=True,
    )


def sum_days(lab: Any) -> None:
    """Sum days until none is left."""
    from apps.carbon.rollups.writer import roll_up
    from apps.core.clock import now_us

    while not roll_up(lab=lab, now=now_us()):
        pass


def sum_a_day(lab: Any) -> None:
    """Sum one day again, of use and of hardware."""
    from apps.carbon.choices import RollupKind
    from apps.carbon.rollups.writer import mark_stale
    from apps.core.clock import now_us
    from apps.core.units import hour_of

    for what in RollupKind:
        mark_stale(
            lab=lab, what=what, from_hour=hour_of(now_us()) - 48, to_hour=hour_of(now_us()) - 47
        )
    sum_days(lab)


def pages(small: Any, state: str) -> None:
    """Print the median and the slowest of five readings of each page."""
    import labcarbon.wsgi  # noqa: F401  # as a web process begins

    print(f"pages, {state}")
    from django.test import Client

    client = Client(HTTP_HOST="localhost")
    client.force_login(small.owner)
    for address in PAGES:
        took = []
        for _ in range(5):
            started_s = time.perf_counter()
            answer = client.get(address)
            if answer.status_code != 200:
                print(f"{address:44}  answered {answer.status_code}")
                break
            b"".join(answer.streaming_content) if answer.streaming else answer.content
            took.append(time.perf_counter() - started_s)
        else:
            middle = statistics.median(took)
            print(
                f"{address:44}{middle:8.3f} s, slowest {max(took):.3f} s   "
                f"{middle / PAGE_MARK_S:5.2f} of the mark (0.4 s)"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--postgres", action="store_true", help="on a private PostgreSQL instead of SQLite"
    )
    parser.add_argument("--assets", type=int, default=20_000)
    parser.add_argument("--metered", type=int, default=500)
    parser.add_argument(
        "--before",
        action="store_true",
        help="measure the pages before days are summed, too (minutes)",
    )
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
        run(options.assets, options.metered, options.before)


def run(assets: int, metered: int, before: bool) -> None:
    """Build the lab and measure it."""
    from django.core.management import call_command
    from django.db import connection

    from apps.assets.device_usage import roll_up
    from apps.assets.models import EmbodiedCharge, LifecycleEvent
    from apps.assets.services.charges import assets_metered_by, recharge, recharge_lab
    from apps.core.clock import now_us
    from apps.core.units import hour_of
    from apps.fleet.models import Device
    from tests.builders import small_lab

    call_command("migrate", "--no-input", verbosity=0)
    call_command("collectstatic", "--no-input", verbosity=0)
    small, now = small_lab(name=f"Bench {uuid.uuid4().hex[:6]}"), now_us()
    hour = hour_of(now)
    print(f"{connection.vendor}: {assets} assets, {metered} of them metered for a month")
    timed("the ledger of a month (made up)", lambda: measure_a_month(small, metered, now))
    timed("registering", lambda: register(small, assets, metered, now))
    timed(
        "summing the use of a month",
        lambda: roll_up(lab=small.lab, from_hour=hour - 31 * 24, to_hour=hour),
    )
    timed("charging all lives, first", lambda: recharge_lab(lab=small.lab))
    print(f"{LifecycleEvent.objects.count()} entries, {EmbodiedCharge.objects.count()} charges")
    ids = list(Device.objects.filter(lab=small.lab).values_list("pk", flat=True))

    def day() -> None:
        roll_up(lab=small.lab, from_hour=hour - 24, to_hour=hour)
        metered_ids = assets_metered_by(small.lab, ids)
        for start in range(0, len(metered_ids), 100):
            recharge(lab=small.lab, asset_ids=metered_ids[start : start + 100])

    timed("a day: its use, and the metered assets", day, DAY_MARK_S)
    timed("charging all lives again", lambda: recharge_lab(lab=small.lab), DAY_MARK_S)
    if before:
        pages(small, "nothing summed")
    timed("summing the days, first", lambda: sum_days(small.lab))
    timed("a day, summed", lambda: sum_a_day(small.lab), DAY_MARK_S)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")
    pages(small, "days summed")


if __name__ == "__main__":
    main()
