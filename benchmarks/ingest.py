"""CPU time and rate of the upload endpoint and of the ledger, compared with a bare parse and insert
of the same bodies.
"""

import argparse
import gc
import gzip
import os
import re
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.environment import installation_environment
from tests.services.postgres import Postgres

GPUS = 8
WARM_UP = 4  # batches before the measurement: the first request loads the pages


def bodies_of(node: Any, run: str, batches: int, size: int) -> list[bytes]:
    """Return gzip bodies of one node's minutes, two consumers a window."""
    import msgspec

    from apps.core.clock import now_us
    from tests.builders import MINUTE, W, batch_body

    now = now_us()
    first = now - (batches * size // GPUS + 1) * MINUTE
    bodies: list[bytes] = []
    for number in range(batches):
        windows = []
        for i in range(size):
            minute = number * (size // GPUS) + i // GPUS
            start = first + minute * MINUTE
            shares = ((f"run:{run}", 40_000 + i % 7), ("idle", 20_000))
            windows.append(
                W(f"gpu:GPU-{i % GPUS:04d}", 60_000 + i % 7, start, start + MINUTE, minute, shares)
            )
        bodies.append(gzip.compress(msgspec.json.encode(batch_body(node, windows, sent_at=now)), 6))
    return bodies


@dataclass(frozen=True)
class Usage:
    """Time and CPU time of a piece of work, of this process and of the database, per window."""

    windows_per_s: float
    process_us: float
    database_us: float

    @property
    def cpu_us(self) -> float:
        return self.process_us + self.database_us

    def row(self, name: str) -> str:
        return (
            f"{name:24}{self.windows_per_s:9.0f} windows/s  {self.process_us:6.1f} + "
            f"{self.database_us:5.1f} µs CPU each"
        )


def database_cpu_s() -> float:
    """Return the CPU time of this connection's PostgreSQL process; 0 for SQLite, which has none."""
    from django.db import connection

    if connection.vendor != "postgresql":
        return 0.0
    connection.ensure_connection()
    stat = Path(f"/proc/{connection.connection.info.backend_pid}/stat").read_text()
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def measured(work: Callable[[], None], windows: int) -> Usage:
    database_s, wall, cpu = database_cpu_s(), time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    database_s = database_cpu_s() - database_s
    return Usage(windows / wall, cpu / windows * 1e6, database_s / windows * 1e6)


def stored_bytes() -> int:
    """Return the bytes of windows with their shares, indexes included."""
    from django.db import connection

    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT pg_total_relation_size('ingest_energywindow') "
                "+ pg_total_relation_size('ingest_consumerhour')"
            )
        else:
            cursor.execute(
                "SELECT SUM(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_master "
                "WHERE tbl_name IN ('ingest_energywindow', 'ingest_consumerhour'))"
            )
        return int(cursor.fetchone()[0])


def create_bare_table() -> None:
    """Create a table with the columns and indexes of ``ingest_energywindow``, without constraints
    to other tables.
    """
    from django.db import connection

    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("CREATE TABLE bare_window (LIKE ingest_energywindow INCLUDING ALL)")
            return
        cursor.execute(
            "SELECT sql FROM sqlite_master WHERE tbl_name = 'ingest_energywindow' AND sql NOT NULL "
            "ORDER BY type DESC"
        )
        for (sql,) in cursor.fetchall():
            sql = re.sub(r" REFERENCES [^,]*?DEFERRABLE INITIALLY DEFERRED", "", sql)
            sql = sql.replace('"ingest_energywindow', '"bare_window')
            cursor.execute(sql.replace("window_start_once_per_device", "bare_start_once"))


def bare(bodies: list[bytes]) -> None:
    """The limit: unpack, parse typed columns, insert the same columns with shares into a table
    with the same indexes, one commit per batch. No checks and no response per window.
    """
    import msgspec
    from django.db import transaction

    from apps.core.sql import bulk_insert
    from apps.ingest.parsing import Header, ShareColumns, WindowColumns

    header, columns, parts = (
        msgspec.json.Decoder(kind) for kind in (Header, WindowColumns, ShareColumns)
    )
    for body in bodies:
        envelope = header.decode(gzip.decompress(body))
        read, shares = columns.decode(envelope.windows), parts.decode(envelope.shares)
        count = len(read.seq)
        texts: list[list[str]] = [[] for _ in range(count)]
        for window, consumer, energy_mj in zip(
            shares.window, shares.consumer, shares.energy_mj, strict=True
        ):
            texts[window].append(f'"{consumer}":{energy_mj}')
        values = {
            "epoch_id": ("bigint", read.device),
            "sequence": ("bigint", read.seq),
            "device_id": ("bigint", read.device),
            "node_id": ("bigint", [1] * count),
            "batch_id": ("bigint", [1] * count),
            "start_us": ("bigint", read.start),
            "end_us": ("bigint", read.end),
            "energy_mj": ("bigint", read.energy_mj),
            "counter_start": ("bigint", read.counter_start),
            "counter_end": ("bigint", read.counter_end),
            "measurement": ("smallint", [1] * count),
            "energy_quality": ("smallint", [1] * count),
            "share_quality": ("smallint", [1] * count),
            "placement_quality": ("smallint", [1] * count),
            "flags": ("integer", read.flags),
            "clock_shift_us": ("bigint", [0] * count),
            "util_mean_pm": ("smallint", read.util_mean_pm),
            "util_max_pm": ("smallint", read.util_max_pm),
            "mem_mean_mib": ("integer", read.mem_mean_mib),
            "mem_max_mib": ("integer", read.mem_max_mib),
            "processes": ("integer", read.processes),
            "digest": ("bigint", read.start),
            "shares": ("text", ["{" + ",".join(text) + "}" for text in texts]),
        }
        with transaction.atomic():
            bulk_insert("bare_window", values)


def endpoint(bodies: list[bytes], token: str) -> None:
    """Upload through the real endpoint, in process."""
    from django.test import Client

    client = Client(
        SERVER_NAME="127.0.0.1",
        headers={"authorization": f"Bearer {token}", "content-encoding": "gzip"},
    )
    for body in bodies:
        answer = client.post("/api/v1/ingest/", body, content_type="application/json")
        assert answer.status_code == 200, answer.content
        assert all(result == ["accepted"] for result in answer.json()["results"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--postgres", action="store_true", help="on a private PostgreSQL instead of SQLite"
    )
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--size", type=int, default=496, help="windows a batch (a multiple of 8)")
    options = parser.parse_args()
    with ExitStack() as stack:
        data_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="labcarbon-bench-"))
        (Path(data_dir) / "static").mkdir()
        os.environ.update(
            installation_environment(data_dir), DJANGO_SETTINGS_MODULE="labcarbon.settings"
        )
        if options.postgres:
            os.environ["LABCARBON_DATABASE_URL"] = stack.enter_context(Postgres()).url
        measure(options.batches, options.size)


def measure(batches: int, size: int) -> None:
    """Prepare a lab, run the limit and the endpoint, print rates and ratios."""
    import django
    from django.core.management import call_command
    from django.db import connection

    django.setup()
    call_command("migrate", verbosity=0)
    from apps.accounts.services.labs import issue_node_token
    from apps.core.clock import now_us
    from apps.energy.services.ledger import settle_node
    from tests.builders import small_lab

    small = small_lab()
    token = issue_node_token(lab=small.lab, node_uuid=small.node.uuid, now=now_us())
    bodies = bodies_of(small.node, str(uuid.uuid4()), WARM_UP + batches, size)
    windows = batches * size
    create_bare_table()
    warm_up, bodies = bodies[:WARM_UP], bodies[WARM_UP:]
    bare(warm_up)
    endpoint(warm_up, token)
    gc.freeze()  # as the web server does after its start
    limit = measured(lambda: bare(bodies), windows)
    upload = measured(lambda: endpoint(bodies, token), windows)
    settle = measured(lambda: settle_node(node=small.node) and None, windows)
    print(f"{connection.vendor}, {batches} batches of {size} windows")
    print(limit.row("bare parse and insert"))
    print(upload.row("upload endpoint") + f"   {upload.cpu_us:.1f} µs together (mark 40)")
    print(settle.row("settling the ledger"))
    print(
        f"upload / bare           {upload.windows_per_s / limit.windows_per_s:9.3f} by time, "
        f"{limit.cpu_us / upload.cpu_us:.3f} by CPU (mark 0.125)"
    )
    stored = (WARM_UP + batches) * size
    mark = 400 if connection.vendor == "postgresql" else 300
    print(f"bytes per stored window {stored_bytes() / stored:9.0f} with two shares (mark {mark})")


if __name__ == "__main__":
    main()
