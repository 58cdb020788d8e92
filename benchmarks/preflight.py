"""Preflight over HTTP in a lab of a million runs, with the worst families there are: how long an
answer takes.
"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.environment import installation_environment
from tests.services.postgres import Postgres
from tests.services.process import answers, end_process, free_port, wait_until

MARK_MS = 100.0
ROOT = Path(__file__).resolve().parent.parent
PARAMS, CHUNK, HOURS = 20, 5_000, 10


def values(lr: float) -> dict[str, Any]:
    """Return the parameters of one run of the large family of similar runs."""
    return {"lr": lr, **{f"p{i}": i / 7 for i in range(PARAMS - 1)}}


def wire(
    lr: float = 0.1, *, seed: int = 0, code: str = "code", data: str = "content", **more: Any
) -> dict[str, Any]:
    """Return a fingerprint of the large family. Other ``data``: a fingerprint outside the
    family.
    """
    from labcarbon_collect.lc1 import param_hash

    from tests.runs.fingerprints import hex64, told

    named = values(lr)
    return told(
        params={name: param_hash(name, value) for name, value in named.items()},
        told=named,
        code={"state": "verified", "hash": hex64(code), "normal": hex64(f"normal {code}")},
        data={"weak": hex64(f"stat {data}"), "verified": hex64(data)},
        seeds={"seed": param_hash("seed", seed)},
        **more,
    )


def family(small: Any, size: int, now: int) -> None:
    """Add ``size`` runs with the same entry, data and start.

    The oldest 100 are duplicates. Runs up to 1 000 have other seeds, runs up to 10 000 other code,
    the rest other recipes. So the newest runs of each key differ, and the maximum number of runs
    is compared in full. The first 10 000 have energy. Only the first 100 have leave-one-out keys,
    because they are duplicates of each other.
    """
    from dataclasses import replace

    from labcarbon_collect.lc1 import param_hash

    from apps.runs.fingerprint_parsing import parse_fingerprint
    from apps.runs.match_keys import tier_keys
    from apps.runs.models import Fingerprint, Run, TierKey
    from apps.runs.services.fingerprints import parts_of, recipe_of, row_from_payload

    base, started_s = parse_fingerprint(wire()), now - (size + 10) * 60_000_000
    for start in range(0, size, CHUNK):
        numbers = range(start, min(start + CHUNK, size))
        runs = Run.objects.bulk_create(
            [
                Run(
                    lab=small.lab,
                    uuid=uuid.uuid4(),
                    name="train.py",
                    started_us=started_s + i * 60_000_000,
                    ended_us=started_s + i * 60_000_000 + 1,
                    state="finished",
                    node=small.node,
                    user=small.owner,
                    host="ws-1",
                )
                for i in numbers
            ],
            batch_size=1000,
        )
        rows, keys = [], []
        for i, run in zip(numbers, runs, strict=True):
            row = row_from_payload(base)
            row.run = run
            if i >= 10_000:
                row.params = {**(row.params or {}), "lr": param_hash("lr", 1 + i / 1e5)}
                row.told = {**row.told, "lr": 1 + i / 1e5}
                row.recipe = recipe_of(row.params, ())
            elif i >= 1_000:
                row.code = row.code_normal = f"{i:064x}"
            elif i >= 100:
                row.seeds = {"seed": f"{i:032x}"}
            rows.append(row)
            parts = parts_of(row, ignored=())
            if i >= 100:
                parts = replace(parts, left_out=None)
            keys += [
                TierKey(lab=small.lab, run=run, tier=tier, key=key)
                for tier, key in tier_keys(parts)
            ]
        Fingerprint.objects.bulk_create(rows, batch_size=1000)
        TierKey.objects.bulk_create(keys, batch_size=5000)
        if start < 10_000:
            energy(small, runs, now)


def energy(small: Any, runs: list[Any], now: int) -> None:
    """Write ten hours of ledger for each run, without the collector."""
    from apps.energy.models import LedgerEntry
    from apps.fleet.models import Device
    from apps.ingest.models import Consumer

    device, _ = Device.objects.get_or_create(
        lab=small.lab, key="gpu:GPU-bench", defaults={"node": small.node, "name": "GPU"}
    )
    consumers = Consumer.objects.bulk_create(
        [
            Consumer(lab=small.lab, key=f"run:{run.uuid}", kind="run", run_uuid=run.uuid)
            for run in runs
        ],
        batch_size=1000,
    )
    first = now // 3_600_000_000 - HOURS
    LedgerEntry.objects.bulk_create(
        [
            LedgerEntry(
                lab=small.lab,
                device=device,
                node=small.node,
                hour=first + hour,
                consumer=consumer,
                energy_quality=0,
                share_quality=0,
                placement_quality=0,
                energy_mj=3_600_000,
            )
            for consumer in consumers
            for hour in range(HOURS)
        ],
        batch_size=1000,
    )


def questions() -> dict[str, dict[str, Any]]:
    """Return the fingerprints to check, by name."""
    return {
        "nothing like it": wire(data="new"),
        "done already, 100 times": wire(),
        "another seed, 900 were run": wire(seed=10**9),
        "comments changed": {
            **wire(),
            "code": {**wire(code="new")["code"], "normal": wire()["code"]["normal"]},
        },
        "another number in the family": wire(lr=77.5),
        "a number within the tolerance": wire(lr=0.1 + 1e-9),
    }


@contextmanager
def serving(folder: str) -> Iterator[int]:
    """Run the real web server."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "gunicorn",
        "labcarbon.wsgi",
        "--bind",
        f"127.0.0.1:{port}",
        "--threads",
        "2",
    ]
    with (Path(folder) / "web.log").open("wb") as log:
        web = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        try:
            wait_until(
                lambda: answers(f"http://127.0.0.1:{port}/livez"),
                what="the web server's first answer",
                seconds=60,
            )
            yield port
        finally:
            end_process(web)


def ask(
    port: int, token: str, fingerprint: dict[str, Any], samples: int
) -> tuple[list[float], dict[str, Any]]:
    """Return the response times (ms) and the last response. The first three are warm-up."""
    link = http.client.HTTPConnection("127.0.0.1", port)
    body = json.dumps({"fingerprint": fingerprint, "project": "demo", "name": "train.py"})
    took, response = [], {}
    for _ in range(samples):
        started_s = time.perf_counter()
        head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        link.request("POST", "/api/v1/preflight/", body, head)
        reply = link.getresponse()
        response = json.loads(reply.read())
        took.append((time.perf_counter() - started_s) * 1000)
        assert reply.status == 200, response
    return took[3:], response


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--postgres", action="store_true", help="on a private PostgreSQL instead of SQLite"
    )
    parser.add_argument("--runs", type=int, default=1_000_000, help="runs of other work")
    parser.add_argument("--family", type=int, default=100_000, help="runs of one family")
    parser.add_argument("--samples", type=int, default=200)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="labcarbon-bench-"))
        (Path(folder) / "static").mkdir()
        os.environ.update(
            installation_environment(folder), DJANGO_SETTINGS_MODULE="labcarbon.settings"
        )
        if options.postgres:
            os.environ["LABCARBON_DATABASE_URL"] = stack.enter_context(Postgres(durable=True)).url
        measure(options, folder)


def measure(options: argparse.Namespace, folder: str) -> None:
    """Fill a lab, send the preflight requests, print the times."""
    import django
    from django.core.management import call_command
    from django.db import connection

    django.setup()
    call_command("migrate", verbosity=0)
    from apps.accounts.services.labs import issue_user_token
    from apps.core.clock import now_us
    from benchmarks.run_filler import fill
    from tests.builders import small_lab

    small, now = small_lab(), now_us()
    token = issue_user_token(lab=small.lab, user=small.owner, now=now)
    started_s = time.perf_counter()
    family(small, options.family, now)
    fill(small.lab, small.lab.projects.get(slug="demo"), options.runs)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")
    took_s = time.perf_counter() - started_s
    print(
        f"{connection.vendor}: {options.runs} runs and a family of {options.family}, filled in "
        f"{took_s:.0f} s"
    )
    with serving(folder) as port:
        for name, fingerprint in questions().items():
            took, response = ask(port, token, fingerprint, options.samples)
            p50, p95 = statistics.median(took), sorted(took)[len(took) * 95 // 100]
            print(
                f"{name:32}{response['verdict']:>12}  p50 {p50:6.1f} ms  p95 {p95:6.1f} ms  "
                f"slowest {max(took):6.1f} ms"
                f"   p95 / mark {p95 / MARK_MS:5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
