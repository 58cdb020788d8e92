"""Runs at a million: what registering one with a fingerprint costs, how large one is, how fast
one alike is found.
"""

import argparse
import gc
import http.client
import json
import os
import random
import socket
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
from tests.services.process import free_port

TABLES = ("runs_run", "runs_fingerprint", "runs_tierkey")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--postgres", action="store_true", help="on a private PostgreSQL instead of SQLite"
    )
    parser.add_argument("--runs", type=int, default=1_000_000, help="how many there are before")
    parser.add_argument("--samples", type=int, default=300)
    options = parser.parse_args()
    with ExitStack() as stack:
        data_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="labcarbon-bench-"))
        (Path(data_dir) / "static").mkdir()
        os.environ.update(
            installation_environment(data_dir), DJANGO_SETTINGS_MODULE="labcarbon.settings"
        )
        if options.postgres:
            os.environ["LABCARBON_DATABASE_URL"] = stack.enter_context(Postgres(durable=True)).url
        measure(options.runs, options.samples)


def measure(runs: int, samples: int) -> None:
    """Fill a lab, register more runs, look some up; print."""
    import django
    from django.core.management import call_command
    from django.db import connection

    django.setup()
    call_command("migrate", verbosity=0)
    from apps.accounts.services.labs import issue_user_token
    from apps.core.clock import now_us
    from benchmarks.run_filler import fill, keys_of
    from tests.builders import small_lab

    small = small_lab()
    token = issue_user_token(lab=small.lab, user=small.owner, now=now_us())
    before = size()
    started_s = time.perf_counter()
    fill(small.lab, small.lab.projects.get(slug="demo"), runs)
    print(
        f"{connection.vendor}, {runs} runs of 20 parameters, filled in "
        f"{time.perf_counter() - started_s:.0f} s"
    )
    print(f"bytes a run, all tables and indexes   {(size() - before) / runs:9.0f}")
    for name, each in parts(runs):
        print(f"  {name:36}{each:9.0f}")
    times_ms = bodies(samples)
    gc.collect()
    gc.freeze()  # as labcarbon/wsgi.py does
    cpu = time.process_time()
    print_times(
        "registering, in the service",
        [timed(lambda body=body: register(small, body)) for body in times_ms],
    )
    print(
        "  of it CPU of this process (mean)    "
        f"{(time.process_time() - cpu) / samples * 1000:9.2f} ms"
    )
    with serving() as port:
        link = http.client.HTTPConnection("127.0.0.1", port)
        times_ms = [timed(lambda body=body: put(link, token, body)) for body in bodies(samples)]
        print_times("registering, over HTTP", times_ms[5:])
        bare = [
            timed(lambda body=body: put(link, token, {**body, "fingerprint": None}))
            for body in bodies(samples)
        ]
        print_times("the same without a fingerprint", bare[5:])
    dice = random.Random(3)
    keys = [dict(keys_of(dice.randrange(runs))) for _ in range(samples)]
    print_times(
        "looking up the same work",
        [timed(lambda each=each: exact(small.lab.pk, each)) for each in keys],
    )
    left = [left_out_keys(dice.randrange(runs)) for _ in range(samples)]
    print_times(
        "looking up all but one parameter",
        [timed(lambda each=each: left_out(small.lab.pk, each)) for each in left],
    )


def bodies(count: int) -> list[dict[str, Any]]:
    """Return PUT bodies with different recipes and data, so that index pages are cold.

    Ten bodies share one code state.
    """
    from labcarbon_collect.lc1 import param_hash

    from tests.runs.fingerprints import hex64, told

    dice = random.Random()
    codes = [f"{dice.random()}" for _ in range(count // 10 + 1)]
    payloads = []
    for number in range(count):
        values = {f"parameter_{i}": dice.random() for i in range(20)}
        code = codes[number // 10]
        lines = random.Random(code)
        payloads.append(
            {
                "name": "train.py",
                "started_at": "2026-11-02T08:00:00Z",
                "project": "demo",
                "params": values,
                "user": "ada",
                "host": "gpu-3",
                "command": ["python", "train.py"],
                "fingerprint": told(
                    params={name: param_hash(name, value) for name, value in values.items()},
                    data={"weak": hex64(f"stat {values}"), "verified": hex64(f"content {values}")},
                    code={
                        "state": "verified",
                        "hash": hex64(code),
                        "normal": hex64(code + "n"),
                        "shingles": [f"{lines.getrandbits(32):08x}" for _ in range(300)],
                    },
                ),
            }
        )
    return payloads


def register(small: Any, body: dict[str, Any]) -> None:
    """Register a run through the service."""
    from apps.core.clock import now_us
    from apps.runs.fingerprint_parsing import parse_fingerprint
    from apps.runs.services.runs import RunFacts, put_run
    from apps.runs.services.updates import RunUpdate

    known = RunUpdate(fingerprint=parse_fingerprint(body["fingerprint"]))
    facts = RunFacts(
        name="train.py", started_us=now_us(), project="demo", params=body["params"], known=known
    )
    put_run(
        lab=small.lab, uuid=uuid.uuid4(), facts=facts, by=small.owner, bound_node=None, now=now_us()
    )


def put(link: http.client.HTTPConnection, token: str, body: dict[str, Any]) -> None:
    """Register a run over a persistent connection."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    link.request("PUT", f"/api/v1/runs/{uuid.uuid4()}/", json.dumps(body), headers)
    answer = link.getresponse()
    content = answer.read()
    assert answer.status == 200, content


class serving:  # noqa: N801 - used like a function
    """One gunicorn worker on the current database."""

    def __enter__(self) -> int:
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
            "--worker-class",
            "gthread",
            "--log-level",
            "error",
        ]
        self._process = subprocess.Popen(command, cwd=Path(__file__).resolve().parent.parent)
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return port
        raise SystemExit("The web server did not start.")

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait()


def exact(lab_id: int, keys: dict[Any, int]) -> None:
    """Query the newest duplicates by both kinds of key."""
    from apps.runs.choices import Tier
    from apps.runs.models import TierKey

    tiers = (Tier.F1, Tier.F1_WEAK)  # two lists: with OR over pairs, SQLite scans the whole index
    keys_ = TierKey.objects.filter(
        lab_id=lab_id, tier__in=tiers, key__in=[keys[tier] for tier in tiers]
    )
    assert list(keys_.order_by("-run_id").values_list("run_id", "tier")[:50])


def left_out_keys(number: int) -> list[int]:
    """Return the leave-one-out keys of a filled run."""
    from apps.runs.choices import Tier
    from benchmarks.run_filler import keys_of

    return [key for tier, key in keys_of(number) if tier == Tier.LEFT_OUT]


def left_out(lab_id: int, keys: list[int]) -> None:
    """Query the newest runs that differ in at most one parameter."""
    from apps.runs.choices import Tier
    from apps.runs.models import TierKey

    rows = TierKey.objects.filter(lab_id=lab_id, tier=Tier.LEFT_OUT, key__in=keys).order_by(
        "-run_id"
    )
    assert len({run for run, _ in rows.values_list("run_id", "key")[:200]}) >= 4


def timed(work: Callable[[], None]) -> float:
    """Return the duration of a call in ms."""
    started_s = time.perf_counter()
    work()
    return (time.perf_counter() - started_s) * 1000


def print_times(what: str, took_ms: list[float]) -> None:
    """Print median, p95 and p99."""
    cut = statistics.quantiles(took_ms, n=100)
    print(
        f"{what:36}  median {cut[49]:7.2f} ms   p95 {cut[94]:7.2f} ms   p99 {cut[98]:7.2f} ms",
        flush=True,
    )


def size() -> int:
    """Return the bytes of the run tables with indexes (SQLite: of the whole file)."""
    return (
        sum(each for _, each in parts(1))
        if os.environ.get("LABCARBON_DATABASE_URL")
        else file_size()
    )


def file_size() -> int:
    """Return the size of SQLite's file after a checkpoint of the write-ahead log."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(connection.settings_dict["NAME"]).stat().st_size


def parts(runs: int) -> list[tuple[str, float]]:
    """Return (table or index, bytes per run); on SQLite [], as not every build reports table
    sizes.
    """
    from django.db import connection

    if connection.vendor != "postgresql":
        return []
    rows = []
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(
                "SELECT relname, pg_table_size(oid) FROM pg_class WHERE oid = %s::regclass OR oid "
                "IN "
                "(SELECT indexrelid FROM pg_index WHERE indrelid = %s::regclass) ORDER BY relname",
                [table, table],
            )
            rows += [(name, each / runs) for name, each in cursor.fetchall()]
    return rows


if __name__ == "__main__":
    main()
