"""Loads the shipped specifications."""

import csv
from decimal import Decimal
from pathlib import Path

from django.db import transaction

from apps.catalog.calc import match_key
from apps.catalog.models import HardwareModel

DATA = Path(__file__).parent / "data"


def _thousand(text: str) -> int | None:
    return int(Decimal(text) * 1000) if text else None


def _int(text: str) -> int | None:
    return int(Decimal(text)) if text else None


@transaction.atomic
def load_catalogue() -> int:
    """Load or renew all shipped specifications; return how many rows there are. Idempotent."""
    rows: list[HardwareModel] = []
    for kind in ("gpu", "cpu"):
        with (DATA / f"{kind}.csv").open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                memory = row.get("memory_gb", "")
                rows.append(
                    HardwareModel(
                        kind=kind,
                        name=row["name"],
                        match_key=match_key(row["name"]),
                        vendor=row["vendor"],
                        architecture=row["architecture"],
                        release_year=_int(row["release_year"]),
                        tdp_mw=_thousand(row["tdp_w"]),
                        memory_mib=int(Decimal(memory) * 1024) if memory else None,
                        cores=_int(row.get("cores", "")),
                        threads=_int(row.get("threads", "")),
                        source=row["source"],
                        licence=row["licence"],
                    )
                )
    HardwareModel.objects.bulk_create(
        rows,
        batch_size=200,
        update_conflicts=True,
        unique_fields=["kind", "name"],
        update_fields=[
            "match_key", "vendor", "architecture", "release_year", "tdp_mw", "memory_mib", "cores", "threads", "source",
            "licence",
        ],
    )  # fmt: skip
    return len(rows)
