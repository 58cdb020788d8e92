"""Fifteen months of 8 GPUs, a window a minute: seals what is older than 400 days, and compares
figures, explanations and sizes before and after, and after a backup and a restore.
"""

import argparse
import hashlib
import json
import os
import random
import statistics
import subprocess
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

ROOT = Path(__file__).resolve().parent.parent
GPUS = 8
MINUTES = 1_440
MINUTE_US = 60_000_000
DAY_US = MINUTES * MINUTE_US
KEPT_DAYS = 400
SAMPLED_HOURS = 200


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--postgres", action="store_true", help="on a private PostgreSQL instead of SQLite"
    )
    parser.add_argument(
        "--months", type=float, default=15, help="months of 30.4 days (15); fewer are sealed too"
    )
    parser.add_argument("--facts", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.facts:
        os.environ.update(installation_environment(options.facts))
        os.environ["DJANGO_SETTINGS_MODULE"] = "labcarbon.settings"
        _set_up()
        print(json.dumps(facts_of_installation()))
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="labcarbon-bench-")))
        os.environ.update(_environment(folder / "old"))
        server = stack.enter_context(Postgres(durable=True)) if options.postgres else None
        if server is not None:
            os.environ["LABCARBON_DATABASE_URL"] = server.url
        measure(round(options.months * 30.4), folder, server)


def _environment(data_dir: Path) -> dict[str, str]:
    (data_dir / "static").mkdir(parents=True, mode=0o700)
    return {
        **installation_environment(str(data_dir)),
        "DJANGO_SETTINGS_MODULE": "labcarbon.settings",
    }


def _set_up() -> None:
    import django

    django.setup()


def measure(days: int, folder: Path, server: Postgres | None) -> None:
    """Fill an installation, seal it, back it up, restore it; compare and print."""
    _set_up()
    from django.core.management import call_command
    from django.db import connection

    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    from apps.core.clock import now_us
    from tests.builders import small_lab

    small = small_lab()
    today = now_us() // DAY_US
    sealed_days = days - KEPT_DAYS if days > KEPT_DAYS else max(1, days // 8)
    started_s = time.perf_counter()
    _fill(small, today - days, days)
    count = days * GPUS * MINUTES
    print(f"{connection.vendor}: {days} days, {count} windows, {_since(started_s)} to insert")
    started_s = time.perf_counter()
    _settle(small, today - days, days)
    print(f"settled in {_since(started_s)}")
    before, sample = facts_of_installation(), _explained(small, today - days, sealed_days)
    print(f"stored                 {_bytes_stored() / count:8.1f} bytes a window, with indexes")
    idle = _latencies(small, 30)
    process = subprocess.Popen(
        [
            sys.executable,
            "manage.py",
            "seal_windows",
            "--before",
            _date(today - days + sealed_days),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    started_s = time.perf_counter()
    busy = _latencies(small, 100_000, is_over=lambda: process.poll() is not None)
    sealed_s = time.perf_counter() - started_s
    output = process.communicate()[0]
    assert process.returncode == 0, output
    print(output.splitlines()[-1])
    sealed = sealed_days * GPUS * MINUTES
    print(f"sealed                 {sealed / sealed_s:8.0f} windows/s, {sealed_s:.1f} s")
    for name in idle:
        print(
            f"{name:22s} p50 {_ms(idle[name], 50)}, p95 {_ms(idle[name], 95)} ms before; "
            f"p50 {_ms(busy[name], 50)}, p95 {_ms(busy[name], 95)}, max {max(busy[name]):.0f} ms "
            f"meanwhile ({len(busy[name])})"
        )
    _compare(small, before, sample, today - days, sealed_days, sealed)
    _back_up(folder, server, facts_of_installation())


def _fill(small: Any, first_day: int, days: int) -> None:
    """Insert windows as ingest stores them, with the hours of consumers."""
    from django.db import connection, transaction

    from apps.core.sql import bulk_insert
    from apps.fleet.models import Device
    from apps.ingest.models import Batch, Epoch
    from apps.ingest.services.lookups import consumer_ids

    draw = random.Random(22)
    runs = [f"run:{uuid.UUID(int=number)}" for number in range(1, 9)]
    ids = consumer_ids(small.lab.pk, {*runs, "idle"})
    devices = [
        Device.objects.create(
            lab=small.lab, node=small.node, key=f"gpu:GPU-{i:04d}", kind="gpu", name="H100"
        )
        for i in range(GPUS)
    ]
    epochs = [Epoch.objects.create(device=device, key="boot/1") for device in devices]
    counters = [10**9] * GPUS
    ends = [first_day * DAY_US + draw.randrange(MINUTE_US) for _ in devices]
    first_batch = (Batch.objects.order_by("-pk").values_list("pk", flat=True).first() or 0) + 1
    for day in range(days):
        columns: dict[str, list[Any]] = {name: [] for name, _ in _COLUMNS}
        hours: dict[tuple[int, int, int], list[int]] = {}
        for minute in range(MINUTES):
            batch = first_batch + day * MINUTES + minute
            for i, device in enumerate(devices):
                start_us = ends[i]
                end_us = ends[i] = start_us + MINUTE_US + draw.randrange(-2_000, 2_001)
                energy_mj = draw.randrange(9_000_000, 40_000_000)
                idle_mj = draw.randrange(energy_mj // 4)
                counters[i] += energy_mj
                run = ids[runs[(day * 4 + minute // 360 + i) % len(runs)]]
                shares = ((run, energy_mj - idle_mj), (ids["idle"], idle_mj))
                for consumer, part_mj in shares:
                    hour = hours.setdefault(
                        (consumer, device.pk, start_us // (60 * MINUTE_US)), [0, 0]
                    )
                    hour[0] += part_mj
                    hour[1] = end_us
                util, memory = draw.randrange(1_001), 40_000 + draw.randrange(20)
                row = (
                    epochs[i].pk, day * MINUTES + minute, device.pk, small.node.pk, batch,
                    start_us, end_us, energy_mj, counters[i] - energy_mj, counters[i],
                    1, 1, 2, 1, 0, 0, util, min(1_000, util + 50), memory, memory + 3,
                    draw.randrange(1, 5), draw.randrange(-(2**63), 2**63),
                    "{" + ",".join(f'"{consumer}":{mj}' for consumer, mj in shares) + "}",
                )  # fmt: skip
                for (name, _), value in zip(_COLUMNS, row, strict=True):
                    columns[name].append(value)
        batches = range(first_batch + day * MINUTES, first_batch + (day + 1) * MINUTES)
        with transaction.atomic():
            bulk_insert("ingest_batch", _batch_columns(small, batches, (first_day + day) * DAY_US))
            bulk_insert(
                "ingest_energywindow", {name: (kind, columns[name]) for name, kind in _COLUMNS}
            )
            bulk_insert(
                "ingest_consumerhour",
                {
                    "consumer_id": ("bigint", [key[0] for key in hours]),
                    "device_id": ("bigint", [key[1] for key in hours]),
                    "hour": ("bigint", [key[2] for key in hours]),
                    "energy_mj": ("bigint", [value[0] for value in hours.values()]),
                    "last_us": ("bigint", [value[1] for value in hours.values()]),
                },
                on_conflict="ON CONFLICT (consumer_id, device_id, hour) DO UPDATE SET energy_mj = "
                "ingest_consumerhour.energy_mj + excluded.energy_mj, last_us = excluded.last_us",
            )
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT setval(pg_get_serial_sequence('ingest_batch', 'id'), MAX(id)) "
                "FROM ingest_batch"
            )
            cursor.execute("ANALYZE")


_COLUMNS = (
    ("epoch_id", "bigint"), ("sequence", "bigint"), ("device_id", "bigint"),
    ("node_id", "bigint"), ("batch_id", "bigint"), ("start_us", "bigint"), ("end_us", "bigint"),
    ("energy_mj", "bigint"), ("counter_start", "bigint"), ("counter_end", "bigint"),
    ("measurement", "smallint"), ("energy_quality", "smallint"), ("share_quality", "smallint"),
    ("placement_quality", "smallint"), ("flags", "integer"), ("clock_shift_us", "bigint"),
    ("util_mean_pm", "smallint"), ("util_max_pm", "smallint"), ("mem_mean_mib", "integer"),
    ("mem_max_mib", "integer"), ("processes", "integer"), ("digest", "bigint"),
    ("shares", "text"),
)  # fmt: skip


def _batch_columns(small: Any, numbers: range, day_us: int) -> dict[str, tuple[str, list[Any]]]:
    from django.db import connection

    keys: list[Any] = [uuid.UUID(int=number) for number in numbers]
    if connection.vendor == "sqlite":
        keys = [key.hex for key in keys]
    times = [day_us + i * MINUTE_US for i in range(len(numbers))]
    return {
        "id": ("bigint", list(numbers)),
        "node_id": ("bigint", [small.node.pk] * len(numbers)),
        "uuid": ("uuid", keys),
        "received_us": ("bigint", times),
        "sent_us": ("bigint", times),
        "skew_us": ("bigint", [0] * len(numbers)),
        "windows": ("integer", [GPUS] * len(numbers)),
        "origin": ("text", [""] * len(numbers)),
    }


def _settle(small: Any, first_day: int, days: int) -> None:
    from django.db import transaction

    from apps.energy.services.ledger import settle_node
    from apps.fleet.models import Device
    from apps.ingest.services import mark_dirty

    hours = range(first_day * 24, (first_day + days) * 24 + 1)
    devices = Device.objects.filter(key__startswith="gpu:").values_list("pk", flat=True)
    with transaction.atomic():
        mark_dirty(small.node, {(device, hour) for device in devices for hour in hours})
    settle_node(node=small.node)


def facts_of_installation() -> dict[str, Any]:
    """Return the integers that neither sealing nor a restore may change."""
    from django.db.models import Count, Sum

    from apps.energy.models import DeviceHour, LedgerEntry
    from apps.ingest.models import ConsumerHour, EnergyWindow, SealedHour

    digest = hashlib.sha256()
    entries = LedgerEntry.objects.order_by(
        "device_id", "hour", "node_id", "consumer_id", "energy_quality", "share_quality",
        "placement_quality",
    )  # fmt: skip
    for row in entries.values_list("device_id", "hour", "consumer_id", "energy_mj").iterator():
        digest.update(repr(row).encode())

    def total(model: Any) -> list[int]:
        sums = model.objects.aggregate(mj=Sum("energy_mj"), rows=Count("*"))
        return [int(sums["mj"] or 0), sums["rows"]]

    return {
        "ledger": digest.hexdigest(),
        "ledger_mj": total(LedgerEntry),
        "device_hours_mj": total(DeviceHour),
        "consumer_hours_mj": total(ConsumerHour),
        "windows": total(EnergyWindow),
        "sealed": [
            int(SealedHour.objects.aggregate(mj=Sum("energy_mj"))["mj"] or 0),
            int(SealedHour.objects.aggregate(count=Sum("windows"))["count"] or 0),
        ],
        "explained": _sample_digest(),
    }


def _sample_digest() -> str:
    """Return the digest of the archived windows of some sealed hours as they are explained."""
    from apps.fleet.models import Device
    from apps.ingest.models import SealedHour
    from apps.ingest.selectors import windows_of_hour

    rows = list(SealedHour.objects.order_by("hour", "device_id").values_list("device_id", "hour"))
    digest = hashlib.sha256()
    for device_id, hour in rows[:: max(1, len(rows) // 50)]:
        for window in windows_of_hour(Device.objects.get(pk=device_id), hour):
            digest.update(repr(_plain(window)).encode())
    return digest.hexdigest()


def _plain(window: dict[str, Any]) -> list[tuple[str, Any]]:
    shares = json.loads(window["shares"])
    rest = {
        name: value.hex if isinstance(value, uuid.UUID) else value
        for name, value in window.items()
        if name not in {"node_id", "batch_id", "digest"}  # not explained
    }
    return sorted((rest | {"shares": sorted(shares.items())}).items())


def _explained(small: Any, first_day: int, days: int) -> dict[tuple[int, int], Any]:
    """Return the windows of sampled device-hours as the explain page gets them."""
    from apps.fleet.models import Device
    from apps.ingest.selectors import windows_of_hour

    devices = list(Device.objects.filter(key__startswith="gpu:"))
    draw = random.Random(7)
    hours = [
        (draw.choice(devices), draw.randrange(first_day * 24, (first_day + days) * 24))
        for _ in range(SAMPLED_HOURS)
    ]
    return {
        (device.pk, hour): [_plain(_as_text(row)) for row in windows_of_hour(device, hour)]
        for device, hour in hours
    }


def _as_text(row: dict[str, Any]) -> dict[str, Any]:
    """SQLite returns UUIDs of raw SQL as text."""
    return row | {name: uuid.UUID(str(row[name])) for name in ("batch", "node")}


def _bytes_stored() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_total_relation_size('ingest_energywindow')")
        else:
            cursor.execute(
                "SELECT SUM(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_master "
                "WHERE tbl_name = 'ingest_energywindow')"
            )
        return int(cursor.fetchone()[0])


def _bytes_of_seals() -> int:
    from django.db import connection

    total = 0
    with connection.cursor() as cursor:
        for table in ("ingest_sealedblock", "ingest_sealedhour"):
            if connection.vendor == "postgresql":
                cursor.execute("SELECT pg_total_relation_size(%s)", [table])
            else:
                cursor.execute(
                    "SELECT SUM(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_master "
                    "WHERE tbl_name = %s)",
                    [table],
                )
            total += int(cursor.fetchone()[0])
    return total


def _latencies(
    small: Any, samples: int, is_over: Callable[[], bool] = lambda: False
) -> dict[str, list[float]]:
    """Return the milliseconds of requests: the overview, and uploads of one minute."""
    from django.test import Client

    from apps.accounts.services.labs import issue_node_token
    from apps.core.clock import now_us
    from tests.builders import W, batch_body

    token = issue_node_token(lab=small.lab, node_uuid=small.node.uuid, now=now_us())
    page, upload = (
        Client(SERVER_NAME="127.0.0.1"),
        Client(SERVER_NAME="127.0.0.1", headers={"authorization": f"Bearer {token}"}),
    )
    page.force_login(small.owner)
    times: dict[str, list[float]] = {"overview": [], "upload of 8 windows": []}
    epoch = uuid.uuid4().hex
    for number in range(samples):
        if is_over() and number:
            break
        times["overview"].append(_timed(lambda: page.get("/")))
        now = now_us()
        windows = [
            W(f"gpu:GPU-{i:04d}", 0, now - 900_000, now - 100_000 + i, number, epoch=epoch)
            for i in range(GPUS)
        ]
        body = json.dumps(batch_body(small.node, windows, sent_at=now))
        times["upload of 8 windows"].append(
            _timed(
                lambda body=body: upload.post(  # type: ignore[misc]
                    "/api/v1/ingest/", body, content_type="application/json"
                )
            )
        )
        time.sleep(0.05)
    return times


def _timed(request: Callable[[], Any]) -> float:
    started_s = time.perf_counter()
    response = request()
    assert response.status_code == 200, response.content[:500]
    return (time.perf_counter() - started_s) * 1_000


def _compare(
    small: Any,
    before: dict[str, Any],
    sample: dict[tuple[int, int], Any],
    first_day: int,
    sealed_days: int,
    count: int,
) -> None:
    from django.conf import settings

    from apps.core.archive_copies import archive_size

    after = facts_of_installation()
    for name in ("ledger", "ledger_mj", "device_hours_mj"):
        assert after[name] == before[name], (name, before[name], after[name])
    added = after["windows"][1] + after["sealed"][1] - before["windows"][1]
    sealed = after["sealed"][1]
    assert abs(sealed - count) <= GPUS, (sealed, count)  # the first minute of a day may be partial
    started_s = time.perf_counter()
    assert _explained(small, first_day, sealed_days) == sample
    explained_ms = (time.perf_counter() - started_s) * 1_000 / SAMPLED_HOURS
    files, size = archive_size(settings.ARCHIVE_DIR)
    print(
        f"archive                {size / sealed:8.1f} bytes a window in {files} files, "
        f"{_bytes_of_seals() / sealed:.1f} in the tables of sealed hours"
    )
    print(f"explained              {explained_ms:8.1f} ms a device-hour from the archive")
    print(
        f"Σ ledger {after['ledger_mj'][0]} mJ as before; {sealed} windows sealed, "
        f"{after['windows'][1]} stored ({added} by uploads meanwhile and spanning windows)"
    )


def _back_up(folder: Path, server: Postgres | None, facts: dict[str, Any]) -> None:
    backup, archive = str(folder / "backup"), str(folder / "archive")
    started_s = time.perf_counter()
    _run(["manage.py", "backup", backup, "--archive", archive], {})
    backed_up = _since(started_s)
    environ = _environment(folder / "new")
    if server is not None:
        import psycopg

        with psycopg.connect(server.url, autocommit=True) as database:
            database.execute("CREATE DATABASE restored")
        environ["LABCARBON_DATABASE_URL"] = server.url_of("restored")
    started_s = time.perf_counter()
    _run(["manage.py", "restore", backup, "--archive", archive], environ)
    restored = json.loads(
        _run([__file__, "--facts", str(folder / "new")], environ).splitlines()[-1]
    )
    assert restored == facts, (restored, facts)
    print(f"backup {backed_up}, restore {_since(started_s)}: the same integers and explanations")


def _run(arguments: list[str], environ: dict[str, str]) -> str:
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr + result.stdout
    return result.stdout


def _since(started_s: float) -> str:
    return f"{time.perf_counter() - started_s:.1f} s"


def _ms(values: list[float], percent: int) -> str:
    return f"{statistics.quantiles(values, n=100)[percent - 1]:.0f}" if len(values) > 1 else "?"


def _date(day: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(day * 86_400))


if __name__ == "__main__":
    main()
