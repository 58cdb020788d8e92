"""A year of 1 000 devices restated for factors by hour: hours are recorded, applied, and all daily
rollups are summed again, while pages are read.
"""

import argparse
import random
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.installation import private_installation
from benchmarks.pages import US_PER_HOUR, fill_ledger, fill_runs
from benchmarks.runs_table import price_nodes, seconds, timed

LIMIT_S = 20
ZONE = "DE"  # of the first site of small_lab


def main() -> None:
    """Fill a lab, restate it and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--postgres", action="store_true", help="on a private PostgreSQL instead of SQLite"
    )
    parser.add_argument("--nodes", type=int, default=1_000, help="of one GPU each")
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--runs", type=int, default=100_000)
    options = parser.parse_args()
    with private_installation(postgres=options.postgres):
        measure(options)


def measure(options: Any) -> None:
    """Fill a lab, roll it up, record a factor for each hour, and roll it up again."""
    from django.core.management import call_command
    from django.db import connection

    from apps.carbon.hourly_factors import record_hours
    from apps.carbon.models import LabDay
    from apps.carbon.rollups.writer import roll_up
    from apps.carbon.services import apply_factors
    from apps.core.clock import now_us
    from apps.energy.models import LedgerEntry
    from tests.builders import small_lab

    for command in ("migrate", "load_data", "collectstatic"):
        interactive = {} if command == "load_data" else {"interactive": False}
        call_command(command, verbosity=0, **interactive)
    small, end_hour = small_lab(name="Bench"), now_us() // US_PER_HOUR
    first_hour = end_hour - options.days * 24
    price_nodes(small, (first_hour - 24) * US_PER_HOUR)
    timed("nodes, runs, their attribution (made up)", lambda: fill_runs(small, options, first_hour))
    timed("ledger (made up)", lambda: fill_ledger(small, first_hour, end_hour, with_idle=False))
    print(f"{connection.vendor}: {LedgerEntry.objects.count()} entries", flush=True)

    def roll_all_up() -> None:
        while not roll_up(lab=small.lab, now=now_us()):
            pass

    timed("daily rollups from nothing", roll_all_up)
    if connection.vendor == "postgresql":  # as autovacuum does
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
    draw = random.Random(11)
    hours = {hour: draw.randrange(10**8, 6 * 10**8) for hour in range(first_hour, end_hour)}

    def record() -> None:
        record_hours(
            lab=small.lab, zone=ZONE, basis=small.lab.basis, is_actual=True, source="made up",
            licence="made up", hours=hours, now=now_us(),
        )  # fmt: skip
        apply_factors(lab=small.lab)

    before_ug = sum(LabDay.objects.values_list("emission_ug", flat=True))
    timed("hours recorded and applied", record)
    reader = PageReader(small)
    reader.start()
    restated_s = seconds(roll_all_up)
    reader.stop()
    total = sum(LabDay.objects.values_list("emission_ug", flat=True))
    assert total != before_ug, "the days have the factors of before"
    print(f"restated in {restated_s:.1f} s ({restated_s / LIMIT_S:.2f} of {LIMIT_S} s)")
    print(f"{reader.text()}; emission of the days {total} µg", flush=True)


class PageReader:
    """Reads the Overview again and again beside the restatement."""

    def __init__(self, small: Any) -> None:
        from django.test import Client

        self._client = Client(HTTP_HOST="localhost")
        self._client.force_login(small.owner)
        self._times_s = list[float]()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def text(self) -> str:
        if not self._times_s:
            return "no page was read"
        return (
            f"{len(self._times_s)} readings of the Overview meanwhile: median "
            f"{statistics.median(self._times_s):.2f} s, longest {max(self._times_s):.2f} s"
        )

    def _read(self) -> None:
        from django.db import connection

        client = self._client
        while not self._over.wait(0.2):
            started_s = time.monotonic()
            status = client.get("/").status_code
            if status == 200:
                self._times_s.append(time.monotonic() - started_s)
            else:
                print(f"the Overview answered {status}", flush=True)
        connection.close()


if __name__ == "__main__":
    main()
