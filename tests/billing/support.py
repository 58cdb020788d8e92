"""Billing exports that are uploaded, assigned and recorded."""

from fractions import Fraction
from typing import Any

from apps.activity.models import Activity
from apps.billing.models import BillingFile
from apps.billing.services.month_versions import confirm
from apps.billing.services.uploads import Assignment, UploadedFile, assign, upload
from apps.core.clock import now_us
from apps.core.jobs import enqueue, run_until_idle
from apps.energy.models import LedgerEntry
from tests.builders import SmallLab


def uploaded(lab: SmallLab, *contents: bytes, name: str = "export.csv") -> BillingFile:
    """Upload the files of one export and find its accounts."""
    files = [
        UploadedFile(name if not i else f"{i}-{name}", [content])
        for i, content in enumerate(contents)
    ]
    file = upload(lab=lab.lab, files=files, by=lab.owner, now=now_us())
    run_until_idle(worker="test")
    file.refresh_from_db()
    return file


def checked(lab: SmallLab, *contents: bytes, tag: str = "project", **options: Any) -> BillingFile:
    """Upload an export and assign all its accounts; tag values are names of projects."""
    file = uploaded(lab, *contents)
    if file.state == "refused":
        return file
    accounts = options.pop("accounts", None) or dict.fromkeys(file.found["accounts"], (True, ""))
    values = file.found["tags"].get(tag, {})
    slugs = set(lab.lab.projects.values_list("slug", flat=True))
    assign(
        file=file,
        assignment=Assignment(
            accounts=accounts,
            tag=tag if values else "",
            tags={value: value for value in values if value in slugs},
            **options,
        ),
        now=now_us(),
    )
    run_until_idle(worker="test")
    file.refresh_from_db()
    return file


def recorded(lab: SmallLab, *contents: bytes, **options: Any) -> BillingFile:
    """Upload an export and record it."""
    file = checked(lab, *contents, **options)
    assert file.state == "checked", file.problem
    confirm(file=file, by=lab.owner, now=now_us())
    run_until_idle(worker="test")
    file.refresh_from_db()
    assert file.state == "done"
    return file


def active() -> list[Activity]:
    return list(Activity.objects.filter(withdrawn_us=None).order_by("start_us", "pk"))


def review() -> None:
    """Run the daily review."""
    enqueue(kind="billing.review_months", key="")
    run_until_idle(worker="test")


def ledger_mj() -> int:
    return sum(LedgerEntry.objects.values_list("energy_mj", flat=True))


def hours(activity: Activity) -> Fraction:
    return Fraction(activity.inputs["hours"])
