"""The spool: a window is deleted only after its result, whatever happens in between."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from labcarbon_collect.energy.windows import Anchor
from labcarbon_collect.node_identity import ConfigurationError
from labcarbon_collect.sources.base import FLAG_MERGED, Gap
from labcarbon_collect.spool.capacity import SpoolCapacity, recover_acknowledged, save_acknowledged
from labcarbon_collect.spool.compaction import BUCKETS_US, merge_windows
from labcarbon_collect.spool.schema import FILE, SpoolFull
from labcarbon_collect.spool.store import Batch, Spool

from tests.collector.readings import GPU, MINUTE, T0, check, minute, total_mj

BOOT = "11111111-2222-4333-8444-555555555555"
RESULTS = st.sampled_from(
    ["accepted", "duplicate", "quarantined", "rejected", "retry", "something new"]
)


def anchor(seq: int, counter_mj: int, wall_us: int = T0) -> Anchor:
    return Anchor(GPU, "e1", seq, wall_us, 1000, counter_mj, BOOT, "nvml_counter")


class SpoolMachine(RuleBasedStateMachine):
    """Appends, batches, results, kills, merges in any order: appended = acknowledged + dead +
    waiting, in mJ.
    """

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.spool = Spool(self.home)
        self.batch: Batch | None = None
        self.appended_mj = 0
        self.seq = 0

    @initialize()
    def begin_batch(self) -> None:
        self.incarnation = self.spool.get_value("incarnation")

    @rule(energies=st.lists(st.integers(0, 10**9), min_size=1, max_size=8))
    def append(self, energies: list[int]) -> None:
        windows = []
        for energy_mj in energies:
            windows.append(
                minute(
                    self.seq,
                    energy_mj,
                    counter_start_mj=self.appended_mj,
                    counter_end_mj=self.appended_mj + energy_mj,
                )
            )
            self.seq += 1
            self.appended_mj += energy_mj
        self.spool.append(boot=BOOT, windows=windows, anchors=[anchor(self.seq, self.appended_mj)])

    @rule(limit=st.integers(1, 6), live=st.integers(0, 10))
    def save_message(self, limit: int, live: int) -> None:
        self.batch = self.spool.begin_batch(
            live_from_us=T0 + (self.seq - live) * MINUTE, limit=limit
        )
        if self.batch:
            assert 0 < len(self.batch.ids) <= limit

    @precondition(lambda self: self.batch is not None)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        assert self.batch is not None
        count = len(self.batch.ids)
        results = data.draw(
            st.lists(st.tuples(RESULTS, st.just("why")), min_size=count, max_size=count)
        )
        self.spool.end_batch(self.batch, results, now_us=T0)
        self.batch = None

    @rule()
    def kill(self) -> None:
        self.spool.close()
        self.spool = Spool(self.home, check=True)
        self.batch = None
        assert self.spool.damaged_file is None
        assert self.spool.get_value("incarnation") == self.incarnation

    @precondition(lambda self: self.batch is None)
    @rule(level=st.sampled_from(BUCKETS_US))
    def merge(self, level: int) -> None:
        before = self.spool.depth().rows
        freed = self.spool.merge(bucket_us=level, before_us=T0 + self.seq * MINUTE)
        assert self.spool.depth().rows == before - freed

    @invariant()
    def nothing_is_lost(self) -> None:
        tally = self.spool.result_totals()
        assert sum(mj for _, mj in tally.values()) + self.spool.spooled_mj() == self.appended_mj
        waiting = list(self.spool.windows())
        check(waiting)
        assert total_mj(waiting) == self.spool.spooled_mj()
        assert self.spool.depth().dead == tally.get("rejected", (0, 0))[0]

    def teardown(self) -> None:
        self.spool.close()
        shutil.rmtree(self.home)


SpoolMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestSpoolMachine = SpoolMachine.TestCase


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "collector"
    folder.mkdir(mode=0o700)
    return folder


def filled(home: Path, count: int = 20) -> Spool:
    spool = Spool(home)
    spool.append(
        boot=BOOT,
        windows=[minute(seq) for seq in range(count)],
        anchors=[anchor(count, 10_000 + 600 * count)],
    )
    return spool


def test_live_windows_are_sent_before_the_oldest(home: Path) -> None:
    batch = filled(home).begin_batch(live_from_us=T0 + 19 * MINUTE, limit=5)
    assert batch is not None
    assert [window.seq for window in batch.windows] == [19, 18, 0, 1, 2]


def test_epoch_on_the_wire_contains_boot_and_spool(home: Path) -> None:
    batch = filled(home, 1).begin_batch(live_from_us=0)
    assert batch is not None
    assert batch.windows[0].epoch.startswith(f"{BOOT}/e1#")
    (home / FILE).unlink()
    second = filled(home, 1).begin_batch(live_from_us=0)
    assert second is not None
    assert second.windows[0].epoch != batch.windows[0].epoch


def test_ten_minutes_become_one_window_and_keep_their_energy(home: Path) -> None:
    spool = filled(home, 25)
    assert spool.merge(bucket_us=10 * MINUTE, before_us=T0 + 20 * MINUTE) == 18
    waiting = list(spool.windows())
    check(waiting)
    assert [(w.end_us - w.start_us) // MINUTE for w in waiting] == [10, 10, 1, 1, 1, 1, 1]
    assert total_mj(waiting) == 25 * 600
    assert waiting[0].flags == FLAG_MERGED


def test_a_window_that_was_sent_is_never_merged(home: Path) -> None:
    spool = filled(home, 20)
    batch = spool.begin_batch(live_from_us=T0 + 99 * MINUTE, limit=3)
    assert batch is not None
    spool.merge(bucket_us=10 * MINUTE, before_us=T0 + 20 * MINUTE)
    assert [w.seq for w in spool.windows()] == [0, 1, 2, 3, 10]
    spool.mark_unsent(batch)
    spool.merge(bucket_us=10 * MINUTE, before_us=T0 + 20 * MINUTE)
    assert [w.seq for w in spool.windows()] == [0, 10]


def test_merging_weighs_means_by_time() -> None:
    merged = merge_windows(
        [minute(0, util_mean_pm=100), minute(1, util_mean_pm=None), minute(2, util_mean_pm=300)]
    )
    assert (merged.util_mean_pm, merged.util_max_pm, merged.seq, merged.energy_mj) == (
        200,
        900,
        0,
        1800,
    )


def test_spool_over_its_limit_merges_and_then_is_full(home: Path) -> None:
    spool = filled(home, 2000)
    size = spool.used_bytes()
    room = SpoolCapacity(spool, max_bytes=size // 2)
    assert room.is_over_limit()
    assert room.free_space(now_us=T0 + 2000 * MINUTE)
    assert total_mj(spool.windows()) == 2000 * 600
    assert not SpoolCapacity(spool, max_bytes=8192).free_space(now_us=T0 + 2000 * MINUTE)


def test_full_disk_is_not_damage(home: Path) -> None:
    spool = filled(home, 1)
    spool._database.execute("PRAGMA max_page_count = 1")
    with pytest.raises(SpoolFull, match="full"):
        spool.append(boot=BOOT, windows=[minute(seq) for seq in range(1, 5000)])
    assert total_mj(spool.windows()) == 600


def test_a_spool_that_cannot_be_written_is_not_damage(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of another owner, or on a read-only disk, was renamed as damaged: its windows were
    never uploaded.
    """
    filled(home, 3).close()
    before = {path.name for path in home.iterdir()} - {f"{FILE}-wal", f"{FILE}-shm"}
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda path, **options: connect(f"file:{path}?mode=ro", uri=True)
    )
    with pytest.raises(ConfigurationError, match=r"cannot be written .*readonly.*owner"):
        Spool(home, check=True)
    monkeypatch.undo()
    assert {path.name for path in home.iterdir()} - {f"{FILE}-wal", f"{FILE}-shm"} == before
    assert Spool(home, check=True).depth().rows == 3


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty-header", "zeros"])
def test_damaged_spool_is_renamed_and_counters_recover_the_energy(home: Path, damage: str) -> None:
    spool = filled(home, 300)
    batch = spool.begin_batch(live_from_us=T0 + 999 * MINUTE, limit=100)
    assert batch is not None
    spool.end_batch(batch, [("accepted", "")] * 100, now_us=T0)
    save_acknowledged(spool)
    spool.close()
    content = bytearray((home / FILE).read_bytes())
    if damage == "truncated":
        content = content[: len(content) // 2 + 7]
    elif damage == "flipped":
        for at in range(4096, len(content), 512):
            content[at] ^= 0xFF
    elif damage == "empty-header":
        content[:100] = bytes(100)
    else:
        content = bytearray(len(content))
    (home / FILE).write_bytes(bytes(content))
    fresh = Spool(home, check=True)
    assert fresh.damaged_file is not None
    assert (home / fresh.damaged_file).exists()
    assert recover_acknowledged(fresh, boot=BOOT) == 1
    recovered = fresh.anchors()[GPU]
    assert (recovered.counter_mj, recovered.wall_us, recovered.seq) == (
        10_000 + 100 * 600,
        T0 + 100 * MINUTE,
        0,
    )


def test_empty_file_is_a_new_spool(home: Path) -> None:
    filled(home, 3).close()
    for path in home.iterdir():
        path.write_bytes(b"")
    assert Spool(home, check=True).depth().rows == 0


def test_every_truncation_of_the_journal_opens(home: Path, tmp_path: Path) -> None:
    spool = filled(home, 5)
    journal = (home / f"{FILE}-wal").read_bytes()
    for size in range(0, len(journal), 997):
        copy = tmp_path / f"cut-{size}"
        copy.mkdir()
        shutil.copy(home / FILE, copy / FILE)
        (copy / f"{FILE}-wal").write_bytes(journal[:size])
        opened = Spool(copy, check=True)
        check(list(opened.windows()))
        opened.close()
    spool.close()


def test_gaps_are_deleted_with_their_batch(home: Path) -> None:
    spool = filled(home, 2)
    spool.append(boot=BOOT, gaps=[Gap(GPU, "e1", T0, T0 + 5, "driver")])
    batch = spool.begin_batch(live_from_us=0, limit=1)
    assert batch is not None
    assert [gap.reason for gap in batch.gaps] == ["driver"]
    spool.end_batch(batch, [("retry", "")], now_us=T0)
    assert spool.begin_batch(live_from_us=0) is not None
    assert spool._database.execute("SELECT COUNT(*) FROM gap").fetchone() == (0,)


def test_second_reader_does_not_remove_the_journal(home: Path) -> None:
    """As in a daemon: two connections in one process while another process opens and closes the
    spool.
    """
    spool, second = filled(home, 1), Spool(home)
    imports = (
        "import sys; from pathlib import Path; from labcarbon_collect.spool.store import Spool"
    )
    script = f"{imports}; s = Spool(Path(sys.argv[1])); "
    command = [sys.executable, "-c", script + "print(s.depth().rows); s.close()", str(home)]
    for expected in (1, 2, 3):
        assert (
            int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            == expected
        )
        spool.append(boot=BOOT, windows=[minute(expected)])
    spool.close()
    second.close()


def test_failed_transaction_is_rolled_back(home: Path) -> None:
    spool = filled(home, 1)
    with pytest.raises(sqlite3.IntegrityError):
        spool.append(boot=BOOT, windows=[minute(1), minute(0)])
    assert [w.seq for w in spool.windows()] == [0]


def test_thirty_days_of_eight_gpus_fit_in_the_limit(home: Path) -> None:
    """A sample of 20 000 windows, scaled to 345 600: at most 200 MB."""
    spool = Spool(home)
    shares = tuple((f"run:00000000-0000-4000-8000-{n:012d}", 300_000) for n in range(2))
    windows = [
        minute(seq, 600_000, counter_start_mj=10**12 + seq * 600_000, shares=shares)
        for seq in range(20_000)
    ]
    spool.append(boot=BOOT, windows=windows)
    assert spool.used_bytes() / 20_000 * 345_600 < 200e6
    assert (home / FILE).stat().st_mode & 0o077 == 0
