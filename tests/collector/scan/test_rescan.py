"""Scanning again: only what is new is read and told; moved, missing, corrupt and what is well
again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from labcarbon_collect.scan.medium import MediumDetector

from tests.collector.scan.support import NPY, PARQUET, Disk, rewritten, safetensors, torch
from tests.fakes.labcarbon_server import FakeServer, error_response


def _mediums(server: FakeServer) -> dict[str, str]:
    """What was told last of each file's medium."""
    rows = [
        row
        for each in server.requests
        if each.path.endswith("/artifacts/")
        for row in each.body["artifacts"]
    ]
    return {
        copy["path"].rsplit("/", 1)[-1]: copy["medium"] for row in rows for copy in row["copies"]
    }


def first_line(out: str) -> str:
    return out.splitlines()[0]


@pytest.fixture
def three(disk: Disk, here: Any) -> Disk:
    """Two files and a folder, scanned once."""
    disk.put("a.pt", torch())
    disk.put("sub/b.npy", NPY)
    disk.put("model/config.json", b"{}")
    disk.put("model/model.safetensors", safetensors())
    assert here()[0] == 0
    return disk


def test_a_second_scan_reads_and_sends_nothing(three: Disk, here: Any, server: FakeServer) -> None:
    asked = len(server.requests)
    code, out, _ = here()
    assert code == 0
    assert "0 new, 0 changed, 3 unchanged, 0 moved, 0 missing, 0 corrupt, 0 refused" in first_line(
        out
    )
    assert "0 read (0 B)" in out
    assert len(server.requests) == asked


def test_moved_changed_and_missing(three: Disk, here: Any, server: FakeServer) -> None:
    (three.root / "a.pt").rename(three.root / "sub/c.pt")
    three.put("sub/b.npy", NPY + b"more")
    shutil.rmtree(three.root / "model")
    three.put("new.parquet", PARQUET)
    code, out, _ = here()
    assert code == 0
    assert "1 new, 1 changed, 0 unchanged, 1 moved, 1 missing, 0 corrupt" in first_line(out)
    assert set(server.present()) == {
        str(three.root / name) for name in ("sub/c.pt", "sub/b.npy", "new.parquet")
    }
    gone = {path for (_, path), (_, state) in server.copies.items() if state == "missing"}
    assert gone == {str(three.root / "a.pt"), str(three.root / "model")}
    assert "0 missing" in first_line(here()[1])


def test_missing_copies_are_reported_in_bounded_requests(
    three: Disk, here: Any, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labcarbon_collect.scan.uploader._MAX_REQUEST_BYTES", 100)
    shutil.rmtree(three.root / "model")
    (three.root / "a.pt").unlink()
    assert here()[0] == 0
    told = [request.body["copies"] for request in server.sent("POST", "artifacts/copies/")]
    assert [len(copies) for copies in told] == [1, 1]
    assert {copies[0]["path"] for copies in told} == {
        str(three.root / name) for name in ("model", "a.pt")
    }


def test_a_folder_moved_as_a_whole(three: Disk, here: Any, server: FakeServer) -> None:
    (three.root / "model").rename(three.root / "sub/other")
    assert "1 moved, 0 missing" in first_line(here()[1])
    assert str(three.root / "sub/other") in server.present()
    assert str(three.root / "model") not in server.present()


def test_a_file_in_a_folder_counts_as_the_folder(
    three: Disk, here: Any, server: FakeServer
) -> None:
    before = server.present()[str(three.root / "model")]
    three.put("model/tokenizer.json", b"{}")
    assert "0 new, 1 changed" in first_line(here()[1])
    added = server.present()[str(three.root / "model")]
    assert added != before
    (three.root / "model/tokenizer.json").unlink()
    assert "0 new, 1 changed" in first_line(here()[1])
    assert server.present()[str(three.root / "model")] == before


def test_a_folder_that_is_one_artifact_no_more(three: Disk, here: Any, server: FakeServer) -> None:
    (three.root / "model/config.json").unlink()
    here()
    assert str(three.root / "model/model.safetensors") in server.present()
    assert str(three.root / "model") not in server.present()
    three.put("model/config.json", b"{}")
    here()
    assert str(three.root / "model/model.safetensors") not in server.present()
    assert str(three.root / "model") in server.present()


@pytest.mark.parametrize("name", ["a.pt", "model/model.safetensors"])
def test_other_content_under_unchanged_times_is_corrupt_until_it_is_touched(
    three: Disk, here: Any, server: FakeServer, name: str
) -> None:
    path, known = three.root / name, dict(server.present())
    printable = str(three.root / name.split("/")[0])
    content = path.read_bytes()
    rewritten(path, content[:-40] + b"Z" + content[-39:])
    code, out, _ = here("--verify")
    assert code == 1
    assert "1 corrupt" in first_line(out)
    assert printable in out
    assert server.copies[(three.machine.node_id, printable)] == (known[printable], "corrupt")
    assert here()[0] == 1, "it stays corrupt"
    assert here("--verify")[0] == 1
    assert printable not in server.present()
    rewritten(path, content)
    assert here("--verify")[0] == 0, "a disk may read well again"
    assert server.present() == known
    rewritten(path, content[:-40] + b"Z" + content[-39:])
    here("--verify")
    os.utime(path)
    code, out, _ = here()
    assert (code, "1 changed" in first_line(out)) == (0, True), out
    assert server.present()[printable] != known[printable]


def test_verify_detects_changes_without_a_new_mtime(
    three: Disk, here: Any, server: FakeServer
) -> None:
    """As when a disk forgets: neither time changes. What was hashed is changed instead of the
    disk.
    """
    with closing(sqlite3.connect(three.state)) as database, database:
        database.execute("UPDATE entry SET digest=zeroblob(32) WHERE name=CAST('a.pt' AS BLOB)")
    assert here()[0] == 0
    code, out, _ = here("--verify")
    assert (code, "1 corrupt" in first_line(out)) == (1, True)
    assert len(server.sent("POST", "artifacts/copies/")) == 1


def test_one_identical_copy_is_no_copies(disk: Disk, here: Any) -> None:
    for name in ("a.npy", "b.npy"):
        disk.put(name, NPY)
    assert f"{len(NPY)} B in 1 identical copy of 1 artifact\n" in here()[1]


def test_identical_copies_are_counted_and_a_hard_link_is_none(disk: Disk, here: Any) -> None:
    for name in ("a.npy", "b.npy", "c/d.npy"):
        disk.put(name, NPY)
    os.link(disk.root / "a.npy", disk.root / "e.npy")
    out = here()[1]
    assert f"{2 * len(NPY)} B in 2 identical copies of 1 artifact" in out
    assert str(disk.root / "c/d.npy") in out


def test_an_empty_folder_may_not_be_mounted(three: Disk, here: Any, server: FakeServer) -> None:
    known = dict(server.present())
    away = three.root.with_name("away")
    three.root.rename(away)
    three.root.mkdir()
    code, out, _ = here()
    assert (code, "is it mounted?" in out) == (1, True)
    assert server.present() == known
    three.root.rmdir()
    away.rename(three.root)
    assert here()[0] == 0


def test_projects_and_mediums_are_sent_only_after_changes(
    three: Disk, here: Any, server: FakeServer
) -> None:
    assert here("--project", "demo", "--medium", "tape")[0] == 0
    rows = server.requests[-1].body["artifacts"]
    assert {(row["project"], row["copies"][0]["medium"]) for row in rows} == {("demo", "tape")}
    asked = len(server.requests)
    assert here("--project", "demo", "--medium", "tape")[0] == 0
    assert len(server.requests) == asked
    _, out, _ = here("--project", "nope", "--medium", "tape")
    assert "There is no project 'nope'. (3 times)" in out
    assert here("--resend")[0] == 0
    assert len(server.requests[-1].body["artifacts"]) == 3


def test_a_named_medium_is_remembered(
    three: Disk, here: Any, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual disk does not tell what it is, and whoever scans every night does not name it
    every night.
    """
    monkeypatch.setattr(MediumDetector, "medium_of", lambda self, path: "unknown")
    assert here("--medium", "hdd")[0] == 0
    three.put("a.pt", torch(2))
    three.put("model/model.safetensors", safetensors(2))
    three.put("sub/new.npy", NPY + b"new")
    _, out, _ = here()
    assert "2 changed" in first_line(out)
    assert "the medium of 1 artifact is unknown" in out
    assert _mediums(server) == {"a.pt": "hdd", "b.npy": "hdd", "model": "hdd", "new.npy": "unknown"}
    assert here("--medium", "ssd")[0] == 0
    assert set(_mediums(server).values()) == {"ssd"}


def test_two_servers_are_tracked_separately(
    three: Disk, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.fakes import labcarbon_server as fakes

    with fakes.running() as other, monkeypatch.context() as patch:
        patch.setenv("LABCARBON_URL", other.url)
        patch.setenv("LABCARBON_TOKEN", "lc_user_other")
        code, out, _ = here()
        assert (code, "0 read (0 B)" in out) == (0, True)
        assert len(other.present()) == 3


def test_a_dry_run_prints_and_changes_nothing(disk: Disk, here: Any, server: FakeServer) -> None:
    disk.put("a.pt", torch())
    code, out, _ = here("--dry-run")
    assert (code, out.splitlines()) == (
        0,
        [
            f"new {disk.root}/a.pt (model torch, {len(torch())} B)",
            "1 new, 0 changed, 0 missing; nothing was hashed or registered",
        ],
    )
    assert server.requests == []
    assert here()[0] == 0
    (disk.root / "a.pt").unlink()
    disk.put("model/config.json", b"{}")
    disk.put("model/model.safetensors", safetensors())
    assert [line.split(" ")[0] for line in here("--dry-run")[1].splitlines()[:2]] == [
        "missing",
        "new",
    ]
    assert list(server.present()) == [str(disk.root / "a.pt")]
    assert here("--dry-run")[1].splitlines()[0].startswith("missing"), (
        "the first dry run kept nothing"
    )


def test_artifacts_are_uploaded_after_an_outage(
    disk: Disk, here: Any, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labcarbon_collect.api.bulk_uploader.full_jitter", lambda failures: 0.0)
    disk.put("a.pt", torch())
    server.faults = [error_response(503)] * 20
    code, _, said = here()
    assert code == 1
    assert "run the same command to continue" in said
    server.faults = []
    code, out, _ = here()
    assert (code, "0 read (0 B)" in out, len(server.present())) == (0, True, 1)


def test_a_rejected_upload_is_not_retried(disk: Disk, here: Any, server: FakeServer) -> None:
    disk.put("a.pt", torch())
    server.faults = [error_response(401, "This token is not known.")]
    code, _, said = here()
    assert (code, len(server.requests)) == (1, 1)
    assert "This token is not known." in said


def test_refused_rows_are_listed_and_retried(disk: Disk, here: Any, server: FakeServer) -> None:
    path = disk.put("a.pt", torch())
    assert here()[0] == 0
    (row,) = server.artifacts.values()
    row["bytes"] += 1
    server.copies.clear()
    code, out, _ = here("--resend")
    assert (code, "This digest is known as" in out) == (1, True)
    row["bytes"] -= 1
    assert here()[0] == 0
    assert list(server.present()) == [str(path)]
