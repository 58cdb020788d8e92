"""Expired rows and completed jobs are deleted, log files are limited, and `sizes` adds up."""

import json
import subprocess
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connection

from apps.accounts.choices import CodePurpose
from apps.accounts.jobs import DAY_US, INVITATION_RETENTION_US
from apps.accounts.models import Invitation, OneTimeCode
from apps.accounts.services.labs import issue_code
from apps.budgets.jobs import START
from apps.core.clock import now_us, utc
from apps.core.database import table_sizes
from apps.core.database.statistics import STATISTICS_JOB
from apps.core.database.table_checks import CHECK_JOB
from apps.core.jobs import enqueue, enqueue_periodic_jobs, run_until_idle
from apps.core.models import Job, TableCheck
from apps.fleet.models import EnrolmentPlace
from apps.fleet.services.nodes import issue_enrolment_code
from apps.ingest.jobs import SEAL_JOB
from labcarbon.log_rotation import rotate
from tests.builders import SmallLab, small_lab

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def test_expired_rows_are_deleted_and_valid_ones_remain(lab: SmallLab) -> None:
    now = now_us()
    Session.objects.create(session_key="old", session_data="", expire_date=utc(now - DAY_US))
    Session.objects.create(session_key="new", session_data="", expire_date=utc(now + DAY_US))
    issue_code(purpose=CodePurpose.LOGIN, now=now - 3 * DAY_US)
    issue_code(purpose=CodePurpose.LOGIN, now=now)
    by = lab.lab.memberships.get().user if lab.lab.memberships.exists() else None
    if by is not None:
        issue_enrolment_code(lab=lab.lab, site=lab.site, by=by, now=now - 3 * DAY_US)
    for age_us in (INVITATION_RETENTION_US + 2 * DAY_US, 0):
        Invitation.objects.create(
            lab=lab.lab, role="member", digest=f"{age_us}", created_us=now - age_us - 1,
            expires_us=now - age_us + DAY_US,
        )  # fmt: skip
    Job.objects.all().delete()
    enqueue(kind="test", key="later", due_us=now + DAY_US)
    Job.objects.create(kind="test", key="done", requested=3, done=3)
    enqueue_periodic_jobs()
    enqueue_periodic_jobs()
    assert Job.objects.filter(kind=CHECK_JOB).count() == 1
    run_until_idle(worker="w")
    assert list(Session.objects.values_list("session_key", flat=True)) == ["new"]
    assert OneTimeCode.objects.filter(expires_us__lt=now).count() == 0
    assert OneTimeCode.objects.filter(purpose=CodePurpose.LOGIN).count() == 1
    assert EnrolmentPlace.objects.count() == 0
    assert list(Invitation.objects.values_list("digest", flat=True)) == ["0"]
    assert set(Job.objects.filter(kind="test").values_list("key", flat=True)) == {"later"}
    waiting = Job.objects.exclude(kind="test")
    assert {job.kind for job in waiting} == {
        CHECK_JOB, SEAL_JOB, STATISTICS_JOB, "core.clear_expired", "accounts.clear_expired",
        "assets.orphan_files", START, "billing.review_months",
        "activity.start_recurring", "carbon.extend_hour_prices", "planner.score",
    }  # fmt: skip
    assert all(now < job.due_us <= now_us() + DAY_US for job in waiting)


def test_every_table_is_checked(lab: SmallLab) -> None:
    enqueue_periodic_jobs()
    for _ in range(50):
        run_until_idle(worker="w")
        if TableCheck.objects.count() == len(connection.introspection.table_names()):
            break
        Job.objects.filter(kind=CHECK_JOB).update(due_us=0)
    assert TableCheck.objects.count() == len(connection.introspection.table_names())
    assert not TableCheck.objects.exclude(problem="").exists()


def test_log_files_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "web.log"
    with path.open("ab") as output:
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=output)
    assert process.stdin is not None
    process.stdin.write(b"a" * 2000)
    process.stdin.flush()
    while path.stat().st_size < 2000:
        pass
    assert not rotate(path, max_bytes=2000)
    assert rotate(path, max_bytes=1999)
    process.stdin.write(b"b" * 10)
    process.stdin.close()
    assert process.wait(10) == 0
    assert path.read_bytes() == b"b" * 10
    assert (tmp_path / "web.log.1").read_bytes() == b"a" * 2000
    assert not rotate(tmp_path / "none.log")


def _sizes() -> dict[str, object]:
    output = StringIO()
    call_command("sizes", "--json", stdout=output)
    return dict(json.loads(output.getvalue()))


def test_sizes_add_up(lab: SmallLab) -> None:
    lab.lab.created_us = now_us() - 10 * DAY_US
    lab.lab.save()
    for days in (1, 2, 3, 40):
        at = now_us() - days * DAY_US
        OneTimeCode.objects.create(
            purpose=CodePurpose.LOGIN, digest=f"{days}", created_us=at, expires_us=at + 1
        )
    size = _sizes()
    tables = {table["name"]: table for table in size["tables"]}  # type: ignore[attr-defined]
    assert tables.keys() == set(connection.introspection.table_names())
    assert all(table["total_bytes"] >= (table["index_bytes"] or 0) for table in tables.values())
    assert tables["catalog_hardwaremodel"]["rows"] > 2000
    assert tables["catalog_hardwaremodel"]["yearly_bytes"] is None, "shipped rows are no growth"
    assert tables["django_migrations"]["yearly_bytes"] is None
    codes = tables["accounts_onetimecode"]
    assert codes["rows"] == 4
    # three of the four rows in the ten days since the first lab
    assert codes["yearly_bytes"] == pytest.approx(codes["total_bytes"] * 3 / 4 * 36.5, rel=0.01)
    assert sum(t["total_bytes"] for t in tables.values()) <= size["total_bytes"]  # type: ignore[operator]
    assert size["full_in_days"] is None, "a database in memory or on a server: the disk is unknown"
    output = StringIO()
    call_command("sizes", stdout=output)
    assert "accounts_onetimecode" in output.getvalue()
    assert "unknown" in output.getvalue()


@pytest.mark.sqlite
def test_sizes_without_dbstat_are_marked_as_estimates(
    lab: SmallLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("SQLite only")
    measured = _sizes()
    monkeypatch.setattr(table_sizes, "_has_dbstat", lambda cursor: False)
    estimated = _sizes()
    assert (measured["measured"], estimated["measured"]) == (True, False)
    biggest = max(estimated["tables"], key=lambda t: t["total_bytes"])  # type: ignore[call-overload]
    assert biggest["name"] in {"catalog_hardwaremodel", "catalog_embodiedfigure"}
    assert all(t["index_bytes"] is None for t in estimated["tables"])  # type: ignore[attr-defined]
    output = StringIO()
    call_command("sizes", stdout=output)
    assert "estimated" in output.getvalue()
