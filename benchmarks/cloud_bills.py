"""A billing export of 200 000 lines with refunds, credits and reservations, the same export again,
and a corrected month: time, peak memory, and hours and costs against sums made with the lines.
"""

import argparse
import csv
import gzip
import io
import os
import random
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.activities import settle, timed
from tests.billing.exports import AWS_COLUMNS, aws_row
from tests.environment import installation_environment
from tests.services.postgres import Postgres

TYPES = ("p3.2xlarge", "p4d.24xlarge", "m5.large", "c5.4xlarge", "g4dn.xlarge", "r5.2xlarge")
KINDS = ("Usage",) * 60 + ("DiscountedUsage",) * 20 + ("SavingsPlanCoveredUsage",) * 10
MONEY = ("Credit", "Refund", "RIFee", "Tax", "SavingsPlanNegation")


class Export:
    """An export with the sums that it must give: hours in thousandths, cost in cents."""

    def __init__(self, lines: int, corrected: bool) -> None:
        self.thousandths: Counter[tuple[str, str]] = Counter()
        self.cents = 0
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, fieldnames=AWS_COLUMNS)
        writer.writeheader()
        dice = random.Random(200_000)
        changes = random.Random(1)
        for i in range(lines):
            kind = dice.choice(MONEY if i % 20 == 0 else KINDS)
            thousandths, cents = dice.randrange(1, 1001), dice.randrange(1, 4000)
            if corrected and changes.random() < 0.02:
                thousandths = 1
            cents = -cents if kind in ("Credit", "Refund", "SavingsPlanNegation") else cents
            instance_type, project = dice.choice(TYPES), dice.choice(("demo", "", "other"))
            writer.writerow(
                aws_row(
                    day=dice.randrange(1, 31),
                    hour=dice.randrange(24),
                    LineItemType=kind,
                    instanceType=instance_type,
                    region=dice.choice(("eu-central-1", "us-east-1")),
                    project=project,
                    UsageAmount=f"{thousandths / 1000:.3f}",
                    UnblendedCost=f"{cents / 100:.2f}",
                    ResourceId=f"i-{dice.randrange(400):08x}",
                )
            )
            self.cents += cents
            if kind not in MONEY:
                slug = "demo" if project == "demo" else ""
                self.thousandths[instance_type, slug] += thousandths
        self.content = text.getvalue().encode()


def run(lines: int) -> None:
    """Record an export, the same again, and a corrected one; print the figures."""
    from django.core.management import call_command
    from django.db import connection

    from apps.activity.models import Activity
    from apps.billing.models import BillingItem
    from apps.billing.services.file_contents import read_file, scan_file
    from apps.billing.services.month_versions import confirm, record_batches
    from apps.billing.services.uploads import Assignment, UploadedFile, assign, upload
    from apps.core.clock import now_us
    from apps.core.jobs import run_until_idle
    from apps.energy.models import LedgerEntry
    from tests.builders import small_lab

    call_command("migrate", "--no-input", verbosity=0)
    call_command("load_data", verbosity=0)
    small = small_lab(name="Bench")
    run_until_idle(worker="bench")
    exports = {
        "first": Export(lines, corrected=False),
        "again": Export(lines, corrected=False),
        "corrected": Export(lines, corrected=True),
    }
    for name, export in exports.items():
        packed = gzip.compress(export.content)
        print(f"{name}: {connection.vendor}, {lines} lines, {len(export.content) >> 20} MiB")

        def uploaded(packed: bytes = packed) -> Any:
            files = [UploadedFile("export.csv.gz", [packed])]
            return upload(lab=small.lab, files=files, by=small.owner, now=now_us())

        file = timed("upload", uploaded)
        timed("finding accounts", lambda file=file: scan_file(uuid=file.uuid))
        file.refresh_from_db()
        accounts = dict.fromkeys(file.found["accounts"], (True, ""))
        assignment = Assignment(accounts, tag="project", tags={"demo": "demo"})
        assign(file=file, assignment=assignment, now=now_us())
        timed("preview", lambda file=file: read_file(uuid=file.uuid, now=now_us()))
        confirm(file=file, by=small.owner, now=now_us())
        before = set(Activity.objects.filter(withdrawn_us=None).values_list("pk", flat=True))
        timed("recording", lambda file=file: list(record_batches(uuid=file.uuid, now=now_us())))
        timed("settling the ledger, attribution", settle(run_until_idle))
        active = list(Activity.objects.filter(withdrawn_us=None).select_related("project"))
        after = {each.pk for each in active}
        print(
            f"{len(after - before)} recorded, {len(before - after)} withdrawn, {len(after)} in all"
        )
        found: Counter[tuple[str, str]] = Counter()
        for each in active:
            slug = each.project.slug if each.project else ""
            found[each.inputs["instance_type"], slug] += round(float(each.inputs["hours"]) * 1000)
        cost = sum(
            BillingItem.objects.filter(month__is_current=True).values_list(
                "cost_ucurrency", flat=True
            )
        )
        ledger_mj = sum(LedgerEntry.objects.values_list("energy_mj", flat=True))
        print(f"hours are those of the lines: {found == export.thousandths}")
        print(f"cost is that of the lines: {cost == export.cents * 10_000}")
        print(f"energy is that of the ledger: {ledger_mj == sum(x.energy_mj for x in active)}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--postgres", action="store_true", help="on a private PostgreSQL instead of SQLite"
    )
    parser.add_argument("--lines", type=int, default=200_000)
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
        run(options.lines)


if __name__ == "__main__":
    main()
