"""Data and start: manifests, digests, the cache, and the background hash process."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.files.digest_cache import FILE, DigestCache
from labcarbon_collect.files.manifests import manifest
from labcarbon_collect.files.read_limits import Budget
from labcarbon_collect.fingerprint import builder
from labcarbon_collect.fingerprint.digests import content_hashes
from labcarbon_collect.runs.background_hash import BackgroundHash

from tests.collector.collector_process import wait_for
from tests.collector.fingerprint.support import Folder

COMMAND = ("python", "train.py", "--data", "cats")


@pytest.fixture
def cats(folder: Folder) -> Folder:
    for number in range(5):
        folder.put(f"cats/train/{number}.png", b"cat %d" % number)
    return folder


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """No data is small enough to be hashed before the start."""
    monkeypatch.setattr(builder, "INLINE_HASH_BYTES", 0)


def data(folder: Folder) -> dict[str, Any]:
    return dict(folder.wire(*COMMAND)["data"])


def test_small_data_is_hashed_before_the_start(cats: Folder) -> None:
    found = cats.survey(*COMMAND)
    assert found.wire["data"]["items"] == [
        {"role": "data", "name": "cats", "files": 5, "bytes": 25, "state": "verified"}
    ]
    assert (found.data, found.notes) == ([], [])


def test_one_byte_of_data_changes_both_hashes(cats: Folder) -> None:
    before = data(cats)
    cats.put("cats/train/3.png", b"cat X")
    after = data(cats)
    assert before["weak"] != after["weak"]
    assert before["verified"] != after["verified"]


def test_a_changed_byte_with_unchanged_mtime_changes_the_content_hash(cats: Folder) -> None:
    path = cats.root / "cats/train/3.png"
    os.utime(path, ns=(1, 1))
    before = data(cats)
    path.write_bytes(b"cat X")
    os.utime(path, ns=(1, 1))
    after = data(cats)
    assert before["weak"] == after["weak"]
    assert before["verified"] != after["verified"]


def test_the_same_content_elsewhere_with_other_times_is_the_same_by_content(cats: Folder) -> None:
    before = data(cats)
    shutil.copytree(cats.root / "cats", cats.root / "copies" / "felines")
    kept = cats.wire("python", "train.py", "--data", "copies/felines")["data"]
    assert kept["weak"] == before["weak"]  # a copy with the same mtimes
    os.utime(cats.root / "copies/felines/train/3.png", ns=(1, 1))
    after = cats.wire("python", "train.py", "--data", "copies/felines")["data"]
    assert before["verified"] == after["verified"]
    assert before["weak"] != after["weak"]


def test_a_file_renamed_added_or_moved_is_other_data(cats: Folder) -> None:
    hashes = {data(cats)["verified"]}
    (cats.root / "cats/train/3.png").rename(cats.root / "cats/train/9.png")
    hashes.add(data(cats)["verified"])
    (cats.root / "cats/train/9.png").rename(cats.root / "cats/9.png")
    hashes.add(data(cats)["verified"])
    cats.put("cats/empty", b"")
    hashes.add(data(cats)["verified"])
    assert len(hashes) == 4


def test_hidden_files_caches_and_times_of_folders_do_not_count(cats: Folder) -> None:
    before = data(cats)
    for name in (".git/x", "train/.DS_Store", "__pycache__/m.pyc"):
        cats.put(f"cats/{name}", "noise")
    assert data(cats) == before


def test_roles_are_apart(cats: Folder) -> None:
    cats.put("dogs/1", "dog")
    one = cats.wire("python", "train.py", "--train_dir", "cats", "--test_dir", "dogs")["data"]
    two = cats.wire("python", "train.py", "--test_dir", "dogs", "--train_dir", "cats")["data"]
    swapped = cats.wire("python", "train.py", "--train_dir", "dogs", "--test_dir", "cats")["data"]
    assert one["verified"] == two["verified"] != swapped["verified"]


def test_large_data_is_weak_first_and_verified_later(
    cats: Folder, large: None, monkeypatch: Any
) -> None:
    found = cats.survey(*COMMAND)
    assert "verified" not in found.wire["data"]
    assert [role for role, _ in found.data] == ["data"]
    told: list[dict[str, Any]] = []
    job = BackgroundHash(found, cats.environ, told.append)
    job.wait()
    job.stop()
    monkeypatch.setattr(builder, "INLINE_HASH_BYTES", 1 << 20)
    assert told == [{"version": "lc2", "data": data(cats)}]


def test_a_checkpoint_is_hashed_by_the_child_as_well(
    cats: Folder, large: None, monkeypatch: Any
) -> None:
    cats.put("old.ckpt", b"w" * 100)
    command = ("python", "train.py", "--resume", "old.ckpt")
    told: list[dict[str, Any]] = []
    job = BackgroundHash(cats.survey(*command), cats.environ, told.append)
    job.wait()
    job.stop()
    monkeypatch.setattr(builder, "INLINE_HASH_BYTES", 1 << 20)
    assert told == [{"version": "lc2", "start": cats.wire(*command)["start"]}]


def test_the_child_works_at_the_lowest_priority_and_ends_with_us(cats: Folder, large: None) -> None:
    with (cats.root / "cats/huge").open("wb") as file:
        file.truncate(20_000_000_000)
    told: list[dict[str, Any]] = []
    job = BackgroundHash(cats.survey(*COMMAND, seconds=5), cats.environ, told.append)
    pid = job._child.pid
    deadline = time.monotonic() + 20
    while os.getpriority(os.PRIO_PROCESS, pid) != 19 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert os.getpriority(os.PRIO_PROCESS, pid) == 19
    job.stop()
    assert told == []
    assert not Path(f"/proc/{pid}").exists()


def test_the_child_ends_when_its_parent_is_killed(cats: Folder, large: None) -> None:
    with (cats.root / "cats/huge").open("wb") as file:
        file.truncate(20_000_000_000)
    job = BackgroundHash(cats.survey(*COMMAND, seconds=5), cats.environ, lambda better: None)
    assert job._child.stdin is not None
    job._child.stdin.close()  # as the kernel does when the process dies
    assert job._child.wait(20) == 0


def of_session(session: int) -> list[int]:
    """Return the processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(stat.parent.name))
    return found


def test_one_that_is_apart_is_no_child_and_ends_with_us_as_well(cats: Folder, large: None) -> None:
    with (cats.root / "cats/huge").open("wb") as file:
        file.truncate(20_000_000_000)
    job = BackgroundHash(
        cats.survey(*COMMAND, seconds=5), cats.environ, lambda better: None, is_detached=True
    )
    (pid,) = wait_for(lambda: of_session(job._child.pid))
    assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] != str(os.getpid())
    job.stop()
    assert wait_for(lambda: not of_session(job._child.pid))


def test_more_than_the_cap_is_not_read(cats: Folder, large: None, monkeypatch: Any) -> None:
    monkeypatch.setattr("labcarbon_collect.runs.background_hash.MAX_BYTES", 10)
    told: list[dict[str, Any]] = []
    job = BackgroundHash(cats.survey(*COMMAND), cats.environ, told.append)
    job.wait()
    job.stop()
    assert told == []
    assert job.error == "more than 10 bytes of data have no stored digest"


def test_the_child_reads_no_faster_than_it_may(tmp_path: Path) -> None:
    from labcarbon_collect.fingerprint.hash_worker import ReadRate

    begun = time.monotonic()
    pace = ReadRate(1_000_000, 1_000_000)
    for _ in range(3):
        pace(100_000)
    assert 0.29 <= time.monotonic() - begun < 2


def test_what_was_hashed_is_not_read_again(cats: Folder, tmp_path: Path) -> None:
    for path in (cats.root / "cats/train").iterdir():
        os.utime(path, ns=(1, 1))
    cache = DigestCache(tmp_path)
    listed = manifest("data", str(cats.root / "cats"), Budget(5))
    settled = [
        type(file)(file.name, file.path, file.size, file.mtime_ns, file.device, file.inode, 1)
        for file in listed.files
    ]  # as if they were old
    listed.files[:] = settled
    read: list[int] = []
    first = content_hashes([listed], cache, on_hashed=read.append)
    assert sum(read) == 25
    read.clear()
    assert content_hashes([listed], DigestCache(tmp_path), on_hashed=read.append) == first
    assert sum(read) == 0


def test_a_file_that_has_just_changed_is_not_remembered(
    cats: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labcarbon_collect.files.digest_cache._SETTLED_NS", 10**15)
    cache = DigestCache(tmp_path)
    listed = manifest("data", str(cats.root / "cats"), Budget(5))
    content_hashes([listed], cache, on_hashed=lambda count: None)
    assert [cache.lookup(file) for file in listed.files] == [None] * 5


@pytest.mark.parametrize(
    "content", [b"", b"no database at all, but longer than a header of one hundred bytes" * 9]
)
def test_a_damaged_cache_is_recreated(cats: Folder, content: bytes) -> None:
    expected = data(cats)
    home = cats.home / "collector"
    for path in home.iterdir():
        path.unlink()
    (home / FILE).write_bytes(content)
    assert data(cats) == expected
    assert DigestCache(home)._database is not None


def test_a_home_that_cannot_be_written_is_no_reason_to_know_less(cats: Folder) -> None:
    expected = cats.wire(*COMMAND)
    found = cats.wire(*COMMAND, environ={"LABCARBON_DATA": "/proc/nowhere"})
    assert found == expected
