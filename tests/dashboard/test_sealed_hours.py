"""Pages of sealed hours: the same as before, or the problem of the archive."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import time_machine
from django.conf import settings
from django.test import Client, override_settings

from apps.carbon.coverage import device_times
from apps.ingest.models import EnergyWindow, QuarantinedWindow, SealedBlock
from apps.ingest.services.seal import cutoff_hour
from apps.runs.services.lost_runs import _newest_window_us
from labcarbon.env import ConfigurationError, read_environment
from tests.builders import MINUTE, T0, SmallLab, W, push
from tests.dashboard.support import HOUR, PERIOD, gpu, text_of, use
from tests.properties.archives import seal

EXPLAIN = f"/explain/?metric=energy_mj&subject=lab&{PERIOD}"
DAY_US = 24 * 60 * MINUTE


@pytest.fixture(autouse=True)
def archive(tmp_path: Path) -> Iterator[None]:
    with override_settings(ARCHIVE_DIR=tmp_path / "archive"):
        yield


def _part(page: str, name: str) -> str:
    match = re.search(rf'<li id="{name}">.*?</li>\s*(?=<li|</ol>)', page, re.DOTALL)
    assert match
    return match.group()


def test_the_explain_page_opens_archived_windows_as_stored_ones(
    lab: SmallLab, owner: Client
) -> None:
    use(lab, runs=3)
    before = text_of(owner.get(EXPLAIN))
    assert before.count("data-window") == 3
    assert seal(HOUR + 1).windows == 3
    assert not EnergyWindow.objects.exists()
    after = text_of(owner.get(EXPLAIN))
    for part in ("windows", "reading"):
        assert _part(after, part) == _part(before, part)


def test_the_page_of_a_run_draws_archived_windows(lab: SmallLab, owner: Client) -> None:
    run = use(lab)[0]
    before = text_of(owner.get(f"/runs/{run}/"))
    seal(HOUR + 1)
    assert (
        text_of(owner.get(f"/runs/{run}/")).count("run-timeline")
        == before.count("run-timeline")
        > 0
    )
    for path in settings.ARCHIVE_DIR.glob("*/*.windows"):
        path.unlink()
    page = text_of(owner.get(f"/runs/{run}/"))
    assert "data-archive-problem" in page
    assert "is missing" in page
    assert "No measurements yet" not in page


def test_a_damaged_archive_is_no_hour_without_windows(lab: SmallLab, owner: Client) -> None:
    use(lab)
    seal(HOUR + 1)
    [path] = settings.ARCHIVE_DIR.glob("*/*.windows")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    page = text_of(owner.get(EXPLAIN))
    assert "data-archive-problem" in page
    assert path.name in page
    assert "No windows of this device" not in page


def test_windows_that_are_not_those_of_the_record_are_a_problem(
    lab: SmallLab, owner: Client
) -> None:
    use(lab, runs=2)
    seal(HOUR + 1)
    SealedBlock.objects.all().delete()
    page = text_of(owner.get(EXPLAIN))
    assert "data-archive-problem" in page
    assert "2 windows" in page


def test_coverage_and_lost_runs_count_archived_windows(lab: SmallLab) -> None:
    use(lab, runs=2)
    now = T0 + DAY_US
    before = device_times(lab.lab, HOUR - 24, HOUR + 24, now)
    newest_us = _newest_window_us(lab.node)
    seal(HOUR + 1)
    assert device_times(lab.lab, HOUR - 24, HOUR + 24, now) == before
    assert _newest_window_us(lab.node) == newest_us == T0 + 2 * MINUTE


def test_the_quarantine_page_states_that_an_hour_is_sealed(lab: SmallLab, owner: Client) -> None:
    use(lab)
    seal(HOUR + 1)
    late = W(gpu(), 5, start_us=T0 + 9 * MINUTE, end_us=T0 + 10 * MINUTE, seq=77)
    late.counter_start, late.measurement = None, "nvml_power"
    assert push(lab.node, [late]) == [["quarantined", "sealed"]]
    row = QuarantinedWindow.objects.get()
    page = text_of(owner.get(f"/nodes/quarantine/{row.pk}/"))
    assert 'data-problem="sealed"' in page
    assert "data-nothing-counted" not in page  # archived windows of this hour count
    hour = {"action": "preview", "start": "2026-11-02T15:00:00", "end": "2026-11-02T15:01:00"}
    with time_machine.travel((T0 + DAY_US) / 1e6, tick=False):
        page = text_of(owner.get(f"/nodes/quarantine/{row.pk}/", hour))
    assert "data-nothing-counted" in page


def test_windows_are_kept_for_whole_days(monkeypatch: pytest.MonkeyPatch) -> None:
    now = T0 + 5 * 60 * MINUTE
    with override_settings(KEEP_WINDOWS_DAYS=10):
        assert cutoff_hour(now) * 60 * MINUTE == T0 // DAY_US * DAY_US - 10 * DAY_US
    monkeypatch.setenv("LABCARBON_KEEP_WINDOWS_DAYS", "31")
    assert read_environment().keep_windows_days == 31
    for text in ("0", "-3", "a year", "1.5", "99999"):
        monkeypatch.setenv("LABCARBON_KEEP_WINDOWS_DAYS", text)
        with pytest.raises(ConfigurationError, match="LABCARBON_KEEP_WINDOWS_DAYS"):
            read_environment()
