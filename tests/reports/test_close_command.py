"""``manage.py close_period`` prints the checklist, closes, restates and exports a period."""

import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import time_machine
from django.core.management import call_command
from django.core.management.base import CommandError

from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from apps.reports.models import Statement
from tests.builders import T0, SmallLab
from tests.reports.support import DECEMBER_US, full_lab, use

pytestmark = pytest.mark.django_db
DAYS = ("2026-11-01", "2026-11-30")


@pytest.fixture
def small() -> Iterator[SmallLab]:
    with time_machine.travel(datetime.fromtimestamp(DECEMBER_US // 10**6, tz=UTC), tick=False):
        yield full_lab()


def run(*arguments: str) -> str:
    output = io.StringIO()
    call_command("close_period", *arguments, stdout=output)
    return output.getvalue()


def test_without_confirmation_the_checklist_is_printed(small: SmallLab) -> None:
    output = run(*DAYS)
    assert "done   the period is over" in output
    assert re.search(r"open   coverage: [0-9.e-]+ % of the device time has data", output)
    assert re.search(r"open   unattributed energy: .*Wh", output)
    assert not Statement.objects.exists()


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_a_closed_period_is_exported_and_verified(
    small: SmallLab, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"november.{suffix}"
    assert "stored revision 1" in run(*DAYS, "--confirm", "--file", str(path))
    statement = Statement.objects.get()
    output = io.StringIO()
    call_command("verify", str(path), "--expect", statement.sha256, stdout=output)
    assert "all valid" in output.getvalue()
    first = path.read_bytes()
    assert "no change since revision 1" in run(*DAYS, "--confirm", "--file", str(path))
    assert path.read_bytes() == first
    assert Statement.objects.count() == 1


def test_a_restatement_needs_a_difference(small: SmallLab) -> None:
    run(*DAYS, "--confirm")
    assert "no change since revision 1" in run(*DAYS, "--restate", "Late data")
    use(small, at_us=T0 + 5 * US_PER_HOUR, seq=900)
    run_until_idle(worker="test")
    assert "stored revision 2" in run(*DAYS, "--restate", "Late data")
    assert Statement.objects.get(revision=2).reason == "Late data"


@pytest.mark.parametrize(
    "arguments",
    [
        ("2026-11-01", "November", "--confirm"),
        ("2026-11-30", "2026-11-01", "--confirm"),
        ("2026-12-01", "2026-12-31", "--confirm"),
        (*DAYS, "--confirm", "--file", "november.txt"),
        (*DAYS, "--confirm", "--file", "/nonexistent/november.csv"),
        (*DAYS, "--confirm", "--lab", "unknown"),
    ],
)
def test_what_is_refused(small: SmallLab, arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        run(*arguments)
