"""Fills a lab with many runs, fingerprints and keys. It bypasses the services and writes the same
rows.

Runs form families: SEEDS runs of one recipe that differ in their seed, RECIPES recipes that differ
in one parameter, and FAMILY runs of one entry and data. Hashes and keys are mixed from a run's
number and as distinct as those of SHA-256.
"""

import json
import struct
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
from django.db import connection, models, transaction

from apps.accounts.models import Lab, Project
from apps.core.clock import now_us
from apps.runs.choices import RunState, Tier
from apps.runs.models import Fingerprint, Run

PARAMS, SEEDS, RECIPES, FAMILY, CHUNK = 20, 5, 4, 200, 20_000
_MINUTE_US = 60_000_000
_OWN = np.int64((1 << 32) - 1)  # bits of a left-out key that its family does not determine
_M1, _M2, _STEP = (
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
    np.uint64(0x9E3779B97F4A7C15),
)


def mixed(kind: int, numbers: Any) -> Any:
    """Return 63-bit keys of (kind, number): splitmix64, each pair another key."""
    with np.errstate(over="ignore"):
        keys = (np.asarray(numbers, dtype=np.uint64) + (np.uint64(kind) << np.uint64(48))) * _STEP
        keys = (keys ^ (keys >> np.uint64(30))) * _M1
        keys = (keys ^ (keys >> np.uint64(27))) * _M2
        return ((keys ^ (keys >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


def fill(lab: Lab, project: Project | None, count: int) -> int:
    """Add ``count`` finished runs to a lab, one per minute until now. Return the id of the first
    one.

    Indexes of the keys are built afterwards.
    """
    first = (Run.objects.aggregate(last=models.Max("pk"))["last"] or 0) + 1
    started = now_us() - count * _MINUTE_US
    indexes = _drop_indexes("runs_tierkey")
    _stage_keys()
    for start in range(0, count, CHUNK):
        numbers = np.arange(start, min(start + CHUNK, count))
        with transaction.atomic():
            _without_checks()
            _insert(Run, _runs(lab, project, numbers, first, started))
            _insert(Fingerprint, _fingerprints(numbers, first))
            _insert_keys(lab.pk, numbers, first)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET maintenance_work_mem = '1GB'")
        _keep_staged(cursor)
        for statement in indexes:
            cursor.execute(statement)
    _advance_sequences()
    return first


def keys_of(number: int) -> list[tuple[Tier, int]]:
    """Return the keys of the filler's run ``number``."""
    return [(tier, int(keys[0])) for tier, keys in _keys(np.array([number]))]


def _keys(numbers: Any) -> Iterator[tuple[Tier, Any]]:
    recipes, families = numbers // SEEDS, numbers // FAMILY
    seeds = numbers % SEEDS
    sweep = numbers // (SEEDS * RECIPES) * SEEDS + seeds
    for weak in (0, 1):
        for tier, places in (
            (Tier.F1, numbers),
            (Tier.F1_NORMAL, numbers),
            (Tier.F2, recipes),
            (Tier.F3, recipes),
            (Tier.F4, families),
        ):
            yield Tier(tier + weak), mixed(tier, places)
        left_out = Tier(Tier.LEFT_OUT + weak)
        shared = mixed(99, families * SEEDS + seeds) & ~_OWN
        yield left_out, shared | mixed(100, numbers) & _OWN  # all of them
        yield (
            left_out,
            shared | mixed(101, sweep) & _OWN,
        )  # all but the one in which a sweep differs
        for place in range(1, PARAMS):
            yield left_out, shared | mixed(101 + place, numbers) & _OWN


def _runs(
    lab: Lab, project: Project | None, numbers: Any, first: int, base_us: int
) -> Iterator[dict[str, Any]]:
    project_id = project.pk if project else None
    for number in numbers.tolist():
        started_us = base_us + number * _MINUTE_US
        yield {
            "id": first + number,
            "lab_id": lab.pk,
            "uuid": uuid.UUID(int=(1 << 100) + number),
            "name": f"run {number}",
            "started_us": started_us,
            "ended_us": started_us + _MINUTE_US,
            "last_report_us": started_us + _MINUTE_US,
            "exit_code": 0,
            "state": RunState.FINISHED.value,
            "project_id": project_id,
            "charged_project_id": project_id,
            "attributed_by": "explicit" if project_id else "",
            "os_user": f"user{number % 30}",
            "host": f"gpu-{number % 50}",
            "reported_by": "collector",
            "params": {"lr": number % 7},
        }


def _fingerprints(numbers: Any, first: int) -> Iterator[dict[str, Any]]:
    hashes = np.random.default_rng(7).bytes(16 * PARAMS * len(numbers)).hex()
    for place, number in enumerate(numbers.tolist()):
        own = hashes[place * 32 * PARAMS : (place + 1) * 32 * PARAMS]
        family = number // FAMILY
        yield {
            "run_id": first + number,
            "entry": f"{family:064x}",
            "entry_name": "train.py",
            "code": f"{family + 1:064x}",
            "code_normal": f"{family + 2:064x}",
            "commit": f"{family:040x}",
            "dirty": False,
            "params": {f"parameter_{i}": own[32 * i : 32 * i + 32] for i in range(PARAMS)},
            "told": {"lr": number % 7},
            "recipe": own[:32],
            "seeds": {"seed": f"{number % SEEDS:032x}"},
            "data": f"{family + 3:064x}",
            "data_weak": f"{family + 4:064x}",
            "start": f"{1:064x}",
            "start_weak": f"{1:064x}",
            "start_name": "scratch",
            "data_items": [
                {
                    "role": "data",
                    "name": "cats",
                    "files": 812,
                    "bytes": 91234567,
                    "state": "verified",
                }
            ],
            "environment": {"python": "3.11.7", "torch": "2.9.0"},
            "hardware": {"gpus": "1 × NVIDIA A100"},
        }


def _insert(model: type[models.Model], rows: Iterator[dict[str, Any]]) -> None:
    """Insert rows of a model. Missing fields have the model's default."""
    fields = model._meta.concrete_fields  # noqa: SLF001 - Django documents it
    blank = {field.attname: field.get_default() for field in fields}
    table = model._meta.db_table  # noqa: SLF001
    names = ", ".join(f'"{field.column}"' for field in fields)
    content = (
        [_stored(field, {**blank, **row}[field.attname]) for field in fields] for row in rows
    )
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                for row in content:
                    copy.write_row(row)
        else:
            marks = ", ".join(["%s"] * len(fields))
            cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", content)


def _stored(field: Any, value: Any) -> Any:
    if isinstance(field, models.JSONField):
        return None if value is None else json.dumps(value)
    if isinstance(value, uuid.UUID):
        return value if connection.vendor == "postgresql" else value.hex
    return value


def _stage_keys() -> None:
    """Create a staging table. Keys are later inserted in key order, so that they are appended."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMP TABLE staged (lab_id bigint, run_id bigint, tier smallint, key bigint)"
        )


def _insert_keys(lab_id: int, numbers: Any, first: int) -> None:
    """Stage the keys of runs."""
    parts = list(_keys(numbers))
    tiers = np.tile(np.array([tier.value for tier, _ in parts], dtype=np.int64), len(numbers))
    keys = np.stack([keys for _, keys in parts], axis=1).ravel()
    runs = np.repeat(numbers + first, len(parts))
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            kind = [
                ("n", ">i2"),
                ("l2", ">i4"),
                ("lab", ">i8"),
                ("l3", ">i4"),
                ("run", ">i8"),
                ("l4", ">i4"),
                ("tier", ">i2"),
                ("l5", ">i4"),
                ("key", ">i8"),
            ]
            packed = np.zeros(len(keys), dtype=kind)
            for name, value in (
                ("n", 4),
                ("l2", 8),
                ("lab", lab_id),
                ("l3", 8),
                ("run", runs),
                ("l4", 2),
                ("tier", tiers),
                ("l5", 8),
                ("key", keys),
            ):
                packed[name] = value
            header = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
            with cursor.copy(
                "COPY staged (lab_id, run_id, tier, key) FROM STDIN (FORMAT binary)"
            ) as copy:
                copy.write(header + packed.tobytes() + struct.pack("!h", -1))
        else:
            rows = zip(
                [lab_id] * len(keys), runs.tolist(), tiers.tolist(), keys.tolist(), strict=True
            )
            cursor.executemany(
                "INSERT INTO staged (lab_id, run_id, tier, key) VALUES (%s, %s, %s, %s)", rows
            )


def _keep_staged(cursor: Any) -> None:
    """Move the staged keys into their table."""
    columns = "lab_id, run_id, tier, key"
    with transaction.atomic():
        _without_checks()
        cursor.execute(
            f"INSERT INTO runs_tierkey ({columns}) SELECT {columns} FROM staged ORDER BY lab_id, "
            "tier, key, run_id"
        )
        cursor.execute("DROP TABLE staged")


def _without_checks() -> None:
    """Disable foreign key checks. They hold by construction, and 50 checks per run would take
    longer than everything else.
    """
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute("SET LOCAL synchronous_commit = off")


def _drop_indexes(table: str) -> list[str]:
    """Drop a table's indexes except the primary key. Return the statements that create them."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                (
                    "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = %s AND "
                    "indexname NOT LIKE '%%_pkey'"
                ),
                [table],
            )
        else:
            cursor.execute(
                (
                    "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = %s "
                    "AND sql <> ''"
                ),
                [table],
            )
        rows = cursor.fetchall()
        for name, _ in rows:
            cursor.execute(f'DROP INDEX "{name}"')
    return [statement for _, statement in rows]


def _advance_sequences() -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT setval(pg_get_serial_sequence('runs_run', 'id'), (SELECT MAX(id) FROM "
                "runs_run))"
            )
            cursor.execute("ANALYZE runs_run, runs_tierkey, runs_fingerprint")
