"""How many windows a second the push endpoint and the ledger take, against a bare parse and
insert of the same bodies.
"""

import argparse
import gzip
import os
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

GPUS = 8


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


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Return (wall seconds, CPU seconds of this process)."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def bare(bodies: list[bytes]) -> None:
    """The limit: unpack, parse typed columns, insert numbers into one table; no checks, no
    shares, no answer.
    """
    import msgspec
    from django.db import connection, transaction

    from apps.core.sql import bulk_insert
    from apps.ingest.parsing import Header, WindowColumns

    header, columns = msgspec.json.Decoder(Header), msgspec.json.Decoder(WindowColumns)
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE bare_window (device_id bigint, sequence bigint, start_us bigint, end_us "
            "bigint, energy_mj bigint, "
            "PRIMARY KEY (device_id, sequence))"
        )
    for body in bodies:
        read = columns.decode(header.decode(gzip.decompress(body)).windows)
        values = {
            "device_id": read.device,
            "sequence": read.seq,
            "start_us": read.start,
            "end_us": read.end,
            "energy_mj": read.energy_mj,
        }
        with transaction.atomic():
            bulk_insert(
                "bare_window", {name: ("bigint", column) for name, column in values.items()}
            )


def endpoint(bodies: list[bytes], token: str) -> None:
    """Push through the real endpoint, in process."""
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
    bodies = bodies_of(small.node, str(uuid.uuid4()), batches, size)
    windows = batches * size
    limit_s, limit_cpu = timed(lambda: bare(bodies))
    push_s, push_cpu = timed(lambda: endpoint(bodies, token))
    settle_s, _ = timed(lambda: settle_node(node=small.node) and None)
    print(f"{connection.vendor}, {batches} batches of {size} windows")
    print(
        f"bare parse and insert   {windows / limit_s:9.0f} windows/s  "
        f"{limit_cpu / windows * 1e6:6.1f} µs CPU each"
    )
    print(
        f"push endpoint           {windows / push_s:9.0f} windows/s  "
        f"{push_cpu / windows * 1e6:6.1f} µs CPU each"
    )
    print(f"settling the ledger     {windows / settle_s:9.0f} windows/s")
    print(f"push / bare             {limit_s / push_s:9.2f}")
    print(
        f"push and ledger         {windows / (push_s + settle_s):9.0f} windows/s, one after the "
        "other"
    )


if __name__ == "__main__":
    main()
