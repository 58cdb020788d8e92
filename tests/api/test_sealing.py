"""Windows that arrive for sealed hours, decisions about them, and the archive when it is damaged,
missing or interrupted.
"""

import pkgutil
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import time_machine
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import override_settings

from apps.core.errors import Conflict
from apps.core.jobs import enqueue, run_until_idle
from apps.core.models import Job
from apps.energy.models import LedgerEntry
from apps.energy.services.ledger import rebuild_ledger
from apps.fleet.models import Device
from apps.fleet.services import set_static_power
from apps.ingest.archive_files import ArchiveProblem, write_file
from apps.ingest.jobs import SEAL_JOB
from apps.ingest.models import EnergyWindow, QuarantinedWindow, SealedBlock, SealedHour
from apps.ingest.selectors import windows_of_hour
from apps.ingest.services.decisions import (
    accept_windows,
    discard_windows,
    preview_acceptance,
    undo_decision,
)
from apps.ingest.services.reexamine import reexamine
from tests.builders import BOOT, MINUTE, T0, SmallLab, W, push, small_lab
from tests.properties.archives import all_energy, archived, seal
from tests.properties.histories import HOUR_US, all_rows

pytestmark = pytest.mark.django_db

GPU = "gpu:GPU-aaaa"
HOUR = T0 // HOUR_US
SENT = T0 + 90 * 24 * HOUR_US
SEALED = ["quarantined", "sealed"]


@pytest.fixture(autouse=True)
def archive(tmp_path: Path) -> Iterator[None]:
    with override_settings(ARCHIVE_DIR=tmp_path / "archive"):
        yield


def _minute(number: int, *, device: str = GPU, energy_mj: int = 1_000) -> W:
    start_us = T0 + number * MINUTE
    return W(
        device,
        energy_mj + number,
        start_us=start_us,
        end_us=start_us + MINUTE,
        seq=number,
        counter_start=10**9 + 10**6 * number,
        shares=(("idle", energy_mj // 2), ("unknown", energy_mj + number - energy_mj // 2)),
    )


def _sealed_lab(minutes: int = 130) -> SmallLab:
    small = small_lab()
    push(small.node, [_minute(number) for number in range(minutes)], sent_at=SENT)
    seal(HOUR + 2)
    return small


def test_a_window_that_spans_hours_stays_until_all_its_hours_are_sealed() -> None:
    small = small_lab()
    set_static_power(node=small.node, static_power_mw=50_000)
    spanning = W(GPU, 900, start_us=T0 + 50 * MINUTE, end_us=T0 + 70 * MINUTE, seq=1)
    later = W(GPU, 50, start_us=T0 + 80 * MINUTE, end_us=T0 + 81 * MINUTE, seq=2)
    push(small.node, [_minute(0), spanning, later], sent_at=SENT)
    before, energy = all_rows(), all_energy()
    seal(HOUR + 1)
    assert set(EnergyWindow.objects.values_list("sequence", flat=True)) == {1, 2}
    assert {window.sequence for window in archived()} == {0, 1}
    rebuild_ledger(lab=small.lab)
    run_until_idle(worker="test")
    assert all_rows() == before
    gpu = Device.objects.get(key=GPU)
    assert [row["sequence"] for row in windows_of_hour(gpu, HOUR)] == [0, 1]
    assert [row["sequence"] for row in windows_of_hour(gpu, HOUR + 1)] == [1, 2]
    seal(HOUR + 2)
    assert not EnergyWindow.objects.exists()
    assert all_energy() == energy
    assert all_rows() == before
    assert [row["sequence"] for row in windows_of_hour(gpu, HOUR + 1)] == [1, 2]


def test_responses_for_windows_of_sealed_hours() -> None:
    small = _sealed_lab()
    before = all_rows()
    same, other = _minute(5), replace(_minute(6), energy_mj=7_000, shares=(("idle", 7_000),))
    new = replace(_minute(7), epoch=f"{BOOT}/2")
    assert push(small.node, [same, other, new], sent_at=SENT) == [
        ["duplicate"],
        ["quarantined", "conflict"],
        SEALED,
    ]
    assert push(small.node, [new], sent_at=SENT) == [SEALED], "a repetition has the same response"
    assert all_rows() == before


def test_the_same_key_two_months_later_is_a_conflict() -> None:
    small = _sealed_lab()
    late = replace(
        _minute(5), start_us=T0 + 61 * 24 * HOUR_US, end_us=T0 + 61 * 24 * HOUR_US + MINUTE
    )
    assert push(small.node, [late], sent_at=SENT) == [["quarantined", "conflict"]]
    following = replace(late, seq=5_000)
    assert push(small.node, [following], sent_at=SENT) == [["accepted"]]


def test_another_device_of_the_node_adds_nothing_to_a_sealed_hour() -> None:
    small = _sealed_lab()
    assert push(small.node, [_minute(5, device="gpu:GPU-bbbb")], sent_at=SENT) == [SEALED]


@pytest.mark.parametrize("damage", ["missing", "changed", "cut", "no folder"])
def test_a_damaged_archive_is_reported_and_loses_nothing(damage: str) -> None:
    small = _sealed_lab()
    gpu = Device.objects.get(key=GPU)
    [path] = settings.ARCHIVE_DIR.glob("*/*.windows")
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "changed":
        at = SealedBlock.objects.order_by("pk")[0].offset + 200
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    elif damage == "cut":
        path.write_bytes(content[: SealedBlock.objects.order_by("pk")[0].offset + 10])
    else:
        settings.ARCHIVE_DIR.rename(settings.ARCHIVE_DIR.with_name("elsewhere"))
    with pytest.raises(ArchiveProblem, match=path.name):
        windows_of_hour(gpu, HOUR)
    assert push(small.node, [_minute(5)], sent_at=SENT) == [SEALED]
    if damage == "no folder":
        settings.ARCHIVE_DIR.with_name("elsewhere").rename(settings.ARCHIVE_DIR)
    else:
        path.write_bytes(content)
    assert len(windows_of_hour(gpu, HOUR)) == 60
    reexamine(lab=small.lab)
    assert not QuarantinedWindow.objects.exists(), "it is a duplicate, as the archive shows now"
    assert push(small.node, [_minute(5)], sent_at=SENT) == [["duplicate"]]


def test_a_machine_without_the_archive_does_not_seal() -> None:
    small = _sealed_lab()
    push(small.node, [_minute(200)], sent_at=SENT)
    with override_settings(ARCHIVE_DIR=settings.ARCHIVE_DIR / "empty"):
        with pytest.raises(ArchiveProblem, match="not readable"):
            seal(HOUR + 10)
    assert EnergyWindow.objects.filter(sequence=200).exists()


def test_an_hour_with_an_unsettled_ledger_waits() -> None:
    small = small_lab()
    push(small.node, [_minute(0), _minute(60)], sent_at=SENT)
    push(small.node, [_minute(1)], sent_at=SENT, settle=False)
    progress = seal(HOUR + 2)
    assert (progress.windows, progress.waiting_hours) == (1, 1)
    assert not SealedHour.objects.filter(hour=HOUR).exists()
    run_until_idle(worker="test")
    assert seal(HOUR + 2).windows == 2


def test_an_hour_with_an_undecided_window_waits_for_the_decision() -> None:
    small = small_lab()
    push(small.node, [_minute(0), _minute(60)], sent_at=SENT)
    impossible = replace(_minute(3), energy_mj=10**12, shares=(("idle", 10**12),))
    assert push(small.node, [impossible], sent_at=SENT) == [["quarantined", "impossible"]]
    assert seal(HOUR + 2).waiting_hours == 1
    [row] = QuarantinedWindow.objects.all()
    discard_windows(lab=small.lab, pks=[row.pk], reason="broken", by=small.owner, now=SENT)
    assert seal(HOUR + 2).waiting_hours == 0
    assert not EnergyWindow.objects.exists()


def test_a_decision_adds_nothing_to_a_sealed_hour_and_removes_nothing_from_it() -> None:
    small = small_lab()
    push(small.node, [_minute(0)], sent_at=SENT)
    large = replace(_minute(3), energy_mj=10**12, shares=(("idle", 10**12),))
    push(small.node, [large], sent_at=SENT)
    [row] = QuarantinedWindow.objects.all()
    accept_windows(lab=small.lab, pks=[row.pk], reason="right", by=small.owner, now=SENT)
    run_until_idle(worker="test")
    seal(HOUR + 1)
    before = all_rows()
    with pytest.raises(Conflict, match="archived"):
        undo_decision(lab=small.lab, pk=row.pk, by=small.owner, now=SENT)
    new = replace(_minute(7), epoch=f"{BOOT}/2")
    assert push(small.node, [new], sent_at=SENT) == [SEALED]
    [row] = QuarantinedWindow.objects.filter(reason="sealed")
    outcome = accept_windows(lab=small.lab, pks=[row.pk], reason="late", by=small.owner, now=SENT)
    assert (outcome.windows, list(outcome.problems)) == (0, [row.pk])
    assert all_rows() == before


def test_energy_that_is_counted_in_the_archive_is_not_accepted_at_another_time() -> None:
    small = _sealed_lab()
    again = replace(_minute(7), epoch=f"{BOOT}/1#2")
    assert push(small.node, [again], sent_at=SENT) == [SEALED]
    [row] = QuarantinedWindow.objects.all()
    later = (SENT - HOUR_US, SENT - HOUR_US + MINUTE)
    assert preview_acceptance(row, start_us=later[0], end_us=later[1], now=SENT).problem == (
        "counted"
    )
    for path in settings.ARCHIVE_DIR.glob("*/*.windows"):
        path.unlink()
    assert preview_acceptance(row, start_us=later[0], end_us=later[1], now=SENT).problem == (
        "archive"
    )


def test_a_changed_static_power_leaves_sealed_overhead_as_it_is() -> None:
    small = small_lab()
    set_static_power(node=small.node, static_power_mw=50_000)
    push(small.node, [_minute(number) for number in range(130)], sent_at=SENT)
    seal(HOUR + 2)
    overhead = LedgerEntry.objects.filter(device__kind="host").order_by("hour")
    before = list(overhead.values_list("hour", "energy_mj"))
    set_static_power(node=small.node, static_power_mw=80_000)
    run_until_idle(worker="test")
    after = list(overhead.values_list("hour", "energy_mj"))
    assert after[:2] == before[:2]
    assert after[2] != before[2]


def test_files_are_private_and_contain_no_names() -> None:
    small = small_lab()
    user = W(GPU, 10, shares=(("proc:ada/python", 10),))
    push(small.node, [user], sent_at=SENT)
    seal(HOUR + 1)
    [path] = settings.ARCHIVE_DIR.glob("*/*")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    [block] = SealedBlock.objects.all()
    raw = path.read_bytes()[block.offset :]
    header_bytes, body_bytes = struct.unpack_from("<II", raw, 4)
    at = 12 + header_bytes
    plain = path.read_bytes() + zlib.decompress(raw[at : at + body_bytes])
    assert b"ada" not in plain
    assert small.node.hostname.encode() not in plain
    assert b"GPU-aaaa" not in plain


class _Killed(BaseException):
    """Ends a process without any handler of it."""


STEPS = (
    "apps.ingest.archive_files.os.open",
    "apps.ingest.archive_files.os.fsync",
    "apps.ingest.archive_files.Path.rename",
    "apps.ingest.archive_files._sync_folder",
    "apps.ingest.archive_files.Path.read_bytes",
    "apps.ingest.services.seal._is_unchanged",
    "apps.ingest.services.seal.bulk_insert",
    "apps.ingest.services.seal._delete_windows",
    "apps.ingest.services.seal.transaction.Atomic.__exit__",
)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("count", [1, 2])
def test_nothing_is_lost_or_twice_after_a_kill(step: str, count: int) -> None:
    small = small_lab()
    windows = [_minute(number) for number in range(0, 60 * 60, 10)]
    push(small.node, windows[:200], sent_at=SENT)
    push(small.node, windows[200:], sent_at=SENT)
    before, energy = all_rows(), all_energy()
    module, _, name = step.rpartition(".")
    target: Any = pkgutil.resolve_name(module)
    original, calls = getattr(target, name), 0

    def killed(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            if name == "__exit__":
                original(args[0], _Killed, _Killed(), None)
            raise _Killed
        return original(*args, **options)

    with patch("apps.ingest.services.seal.PART_WINDOWS", 100), transaction.atomic():
        with patch.object(target, name, killed), pytest.raises(_Killed):
            seal(HOUR + 60)
        assert calls >= count
        assert all_energy() == energy
        seal(HOUR + 60)
    assert not EnergyWindow.objects.exists()
    assert all_energy() == energy
    assert all_rows() == before
    names = {path.name for path in settings.ARCHIVE_DIR.glob("*/*")}
    assert names == {Path(file).name for file in SealedBlock.objects.values_list("file", flat=True)}


def test_windows_that_arrive_during_sealing_are_not_lost() -> None:
    small = small_lab()
    push(small.node, [_minute(0)], sent_at=SENT)
    late = [_minute(1)]

    def write(*args: Any) -> Any:
        push(small.node, [late.pop()], sent_at=SENT, settle=False)
        return write_file(*args)

    with patch("apps.ingest.services.seal.write_file", write):
        assert seal(HOUR + 1).windows == 0
    assert EnergyWindow.objects.count() == 2
    run_until_idle(worker="test")
    assert seal(HOUR + 1).windows == 2


def test_the_job_seals_by_the_setting_once_a_day() -> None:
    small = small_lab()
    push(small.node, [_minute(0)], sent_at=SENT)
    day_us = 24 * HOUR_US
    for days, stored in ((400, 1), (401, 0)):
        now = T0 + days * day_us
        with time_machine.travel(now / 1_000_000, tick=False):
            if days == 400:
                enqueue(kind=SEAL_JOB, key="")
            run_until_idle(worker="test")
            assert Job.objects.get(kind=SEAL_JOB).due_us == now + day_us
        assert EnergyWindow.objects.count() == stored


def test_the_job_works_in_slices() -> None:
    small = small_lab()
    push(small.node, [_minute(number) for number in range(0, 3 * 24 * 60, 60)], sent_at=SENT)
    with time_machine.travel((T0 + 500 * 24 * HOUR_US) / 1_000_000):
        enqueue(kind=SEAL_JOB, key="")
        with patch("apps.ingest.jobs.SEAL_SLICE_S", 0.0):
            assert run_until_idle(worker="test", limit=1) == 1
        assert EnergyWindow.objects.exists()
        run_until_idle(worker="test")
    assert not EnergyWindow.objects.exists()


def test_the_command_counts_then_seals() -> None:
    small = small_lab()
    push(small.node, [_minute(0)], sent_at=SENT)
    output = StringIO()
    call_command("seal_windows", "--before", "2026-11-03", "--dry-run", stdout=output)
    assert "1 windows in 1 device-hours" in output.getvalue()
    assert EnergyWindow.objects.count() == 1
    with time_machine.travel(SENT / 1_000_000):
        call_command("seal_windows", "--before", "2026-11-03", stdout=output)
    assert not EnergyWindow.objects.exists()
    with pytest.raises(CommandError, match="future"):
        call_command("seal_windows", "--before", "2999-01-01")
