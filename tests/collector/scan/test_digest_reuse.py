"""What scans hashed is known to runs: neither at their beginning nor beside them is it read
again.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.files.digest_cache import DigestCache
from labcarbon_collect.files.manifests import manifest
from labcarbon_collect.files.read_limits import Budget
from labcarbon_collect.fingerprint import builder, survey
from labcarbon_collect.fingerprint.digests import content_hashes, open_digest_cache
from labcarbon_collect.lineage.artifact_reader import (
    AdjustableRateLimiter,
    DeclarationError,
    Inspector,
)
from labcarbon_collect.runs.background_hash import BackgroundHash
from labcarbon_collect.scan.database import FILE

from tests.collector.scan.support import NPY, PARQUET, Disk, safetensors


@pytest.fixture
def scanned(disk: Disk, here: Any) -> Disk:
    """A loose file, a file in a folder, a model's folder with a folder and a link in it, all
    scanned.
    """
    disk.put("a.npy", NPY)
    disk.put("cats/train/b.npy", NPY + b"b")
    disk.put("model/config.json", b"{}")
    disk.put("model/model.safetensors", safetensors())
    disk.put("model/onnx/model.onnx", b"of another format")
    (disk.root / "model/linked.json").symlink_to("config.json")
    assert here()[0] == 0
    return disk


def home() -> Path:
    return Path(os.environ["LABCARBON_DATA"]) / "collector"


def bytes_read(path: Path) -> int:
    """How many bytes are read to know ``path`` by content, which comes to what it is without
    scans.
    """
    counts: list[int] = []
    listed = manifest("data", str(path), Budget(10))
    cache = open_digest_cache(home())
    found = content_hashes([listed], cache, on_hashed=counts.append)
    cache.close()
    assert found == content_hashes([listed], DigestCache(None), on_hashed=lambda _: None)
    return sum(counts)


@pytest.mark.parametrize("name", ["a.npy", "cats", "cats/train", "model", "model/onnx", "."])
def test_what_was_scanned_is_not_read_again(scanned: Disk, name: str) -> None:
    assert bytes_read(scanned.root / name) == 0


def test_files_behind_a_link_are_hashed_again(scanned: Disk, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(scanned.root)
    assert bytes_read(tmp_path / "linked" / "cats") == 0


def test_what_a_scan_never_saw_is_read(scanned: Disk) -> None:
    scanned.put("cats/later.npy", NPY)
    assert bytes_read(scanned.root / "cats") == len(NPY)


def test_what_changed_since_is_read(scanned: Disk) -> None:
    path = scanned.root / "a.npy"
    before = path.stat()
    path.write_bytes(NPY[:-1] + b"x")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert bytes_read(path) == len(NPY)


def test_corrupt_files_are_hashed_again(scanned: Disk, here: Any) -> None:
    path = scanned.root / "a.npy"
    before = path.stat()
    path.write_bytes(NPY[:-1] + b"x")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert here("--verify")[0] == 1
    assert bytes_read(path) == len(NPY)


def test_what_may_have_changed_while_it_was_scanned_is_read(
    disk: Disk, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labcarbon_collect.scan.file_reader._SETTLED_NS", 10**15)
    path = disk.put("a.npy", NPY)
    assert here()[0] == 0
    assert bytes_read(path) == len(NPY)


def test_stored_digests_are_available_during_a_scan(scanned: Disk) -> None:
    with closing(sqlite3.connect(home() / FILE, isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        busy.execute("DELETE FROM entry")
        assert bytes_read(scanned.root) == 0


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100])
def test_with_a_damaged_file_of_scans_all_is_read(scanned: Disk, content: bytes) -> None:
    for suffix in ("-wal", "-shm"):
        (home() / (FILE + suffix)).unlink(missing_ok=True)
    (home() / FILE).write_bytes(content)
    assert bytes_read(scanned.root / "a.npy") == len(NPY)
    assert (home() / FILE).read_bytes() == content


def test_scanned_data_of_any_size_is_identified_immediately(
    scanned: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "INLINE_HASH_BYTES", 0)
    command = ["python", "train.py", "--data", "cats"]
    found = survey(command, cwd=str(scanned.root), environ=os.environ, seconds=10)
    assert found.wire["data"]["items"][0]["state"] == "verified"
    assert found.data == []
    scanned.put("cats/later.parquet", PARQUET)
    assert survey(command, cwd=str(scanned.root), environ=os.environ, seconds=10).data != []


@pytest.mark.parametrize("most_bytes", [len(PARQUET), len(PARQUET) - 1])
def test_beside_the_work_only_what_no_scan_has_read_counts_as_much(
    scanned: Disk, monkeypatch: pytest.MonkeyPatch, most_bytes: int
) -> None:
    monkeypatch.setattr(builder, "INLINE_HASH_BYTES", 0)
    monkeypatch.setattr("labcarbon_collect.runs.background_hash.MAX_BYTES", most_bytes)
    scanned.put("cats/later.parquet", PARQUET)
    command = ["python", "train.py", "--data", "cats"]
    told: list[dict[str, Any]] = []
    job = BackgroundHash(
        survey(command, cwd=str(scanned.root), environ=os.environ, seconds=10),
        os.environ,
        told.append,
    )
    job.wait()
    job.stop()
    if most_bytes < len(PARQUET):
        assert (told, job.error) == (
            [],
            f"more than {most_bytes} bytes of data have no stored digest",
        )
    else:
        assert [set(each["data"]) for each in told] == [{"weak", "verified", "items"}]


def test_what_a_run_declares_counts_only_as_far_as_no_scan_has_read_it(scanned: Disk) -> None:
    told = {"path": str(scanned.root / "cats"), "role": "used"}
    assert (
        Inspector("a run", AdjustableRateLimiter(None), home(), max_bytes=0).inspect(told)["files"]
        == 1
    )
    scanned.put("cats/later.parquet", PARQUET)
    with pytest.raises(DeclarationError, match="too large"):
        Inspector("a run", AdjustableRateLimiter(None), home(), max_bytes=len(PARQUET) - 1).inspect(
            told
        )
