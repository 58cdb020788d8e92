"""Import of a file of 50 000 activities: upload, check, recording, the ledger, and the same file
again; time, peak memory, and size of the database.
"""

import argparse
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.environment import installation_environment
from tests.services.postgres import Postgres


def file_of_rows(number: int, bad: int) -> bytes:
    """Return a CSV of ``number`` uses of two hours of a past year, ``bad`` of them without
    energy.
    """
    dice = random.Random(50_000)
    first = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(days=400)
    wrong = set(dice.sample(range(number), bad))
    lines = ["name,project,from,to,zone,kwh"]
    for i in range(number):
        start = first + timedelta(hours=dice.randrange(390 * 24))
        end = start + timedelta(hours=2)
        kwh = "" if i in wrong else f"{dice.randrange(1, 90)}.{dice.randrange(10)}"
        zone = dice.choice(("DE", "FR"))
        lines.append(f"job {i},demo,{start:%Y-%m-%dT%H:%MZ},{end:%Y-%m-%dT%H:%MZ},{zone},{kwh}")
    return "\n".join(lines).encode()


def timed(name: str, function: Callable[[], Any]) -> Any:
    """Run and print the time and the peak memory so far."""
    begin = time.monotonic()
    result = function()
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{name}: {time.monotonic() - begin:.1f} s, peak {peak_mib} MiB", flush=True)
    return result


def run(rows: int, bad: int) -> None:
    """Import the file twice and print the figures."""
    from django.core.management import call_command
    from django.db import connection

    from apps.activity.models import Activity
    from apps.activity.services.activity_files import (
        assign_columns,
        check_rows,
        confirm,
        record_batches,
        upload,
    )
    from apps.activity.services.file_layout import Answers, columns_of_file
    from apps.core.clock import now_us
    from apps.core.jobs import run_until_idle
    from apps.energy.models import LedgerEntry
    from tests.builders import small_lab

    call_command("migrate", "--no-input", verbosity=0)
    call_command("load_data", verbosity=0)
    small = small_lab(name="Bench")
    run_until_idle(worker="bench")
    content = file_of_rows(rows, bad)
    print(f"{connection.vendor}: {rows} rows, {bad} of them bad, {len(content) >> 10} KiB")

    def uploaded() -> Any:
        file = upload(
            lab=small.lab,
            file_name="use.csv",
            content=content,
            encoding="",
            sheet="",
            by=small.owner,
            now=now_us(),
        )
        columns = {column.key: column.field for column in columns_of_file(file)}
        assign_columns(file=file, answers=Answers(columns, "file_server"), now=now_us())
        return file

    def state(file: Any) -> str:
        file.refresh_from_db()
        return f"{file.new} new, {file.known} known, {file.wrong} bad"

    for name in ("first", "second"):
        file = timed(f"{name} upload, columns", uploaded)
        timed(f"{name} check", lambda file=file: check_rows(uuid=file.uuid, now=now_us()))
        print(state(file))
        if name == "first":
            confirm(file=file, by=small.owner, now=now_us())
            timed("recording", lambda file=file: list(record_batches(uuid=file.uuid, now=now_us())))
            print(state(file))
            timed("settling the ledger, attribution", settle(run_until_idle))
    energy_mj = sum(Activity.objects.values_list("energy_mj", flat=True))
    ledger_mj = sum(LedgerEntry.objects.values_list("energy_mj", flat=True))
    print(f"{Activity.objects.count()} activities, {LedgerEntry.objects.count()} ledger entries")
    print(f"energy of activities and ledger are equal: {energy_mj == ledger_mj}")


def settle(run_until_idle: Callable[..., int]) -> Callable[[], None]:
    """Return a function that runs all jobs."""

    def everything() -> None:
        while run_until_idle(worker="bench"):
            pass

    return everything


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--postgres", action="store_true", help="on a private PostgreSQL instead of SQLite"
    )
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--bad", type=int, default=50)
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
        run(options.rows, options.bad)
        sizes = [path.stat().st_size for path in Path(folder).rglob("*.sqlite3*")]
        if sizes:
            print(f"database: {sum(sizes) >> 20} MiB")


if __name__ == "__main__":
    main()
