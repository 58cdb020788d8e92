"""Killed and gone on with, any changes between scans, threads, pace, mediums, object stores, the
real server.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from labcarbon_collect.scan.medium import MediumDetector
from labcarbon_collect.scan.rate_limit import RateLimiter

from apps.accounts.models import Project
from apps.accounts.services.labs import issue_user_token
from apps.artifacts.models import Artifact, Copy
from apps.core.clock import now_us
from tests.builders import small_lab
from tests.collector.collector_process import Collector, wait_for
from tests.collector.scan.support import NPY, PARQUET, Disk, safetensors, torch
from tests.collector.test_sent_data import documented, keys
from tests.fakes import labcarbon_server as fakes
from tests.fakes.labcarbon_server import FakeServer


def hashed(disk: Disk) -> dict[bytes, int]:
    """Name → bytes of what the state holds a digest of."""
    if not disk.state.exists():
        return {}
    with (
        closing(sqlite3.connect(disk.state, timeout=20)) as database,
        suppress(sqlite3.OperationalError),
    ):
        return dict(database.execute("SELECT name, size FROM entry WHERE digest IS NOT NULL"))
    return {}  # its tables are not made yet


def test_a_killed_scan_continues_without_hashing_again(disk: Disk, server: FakeServer) -> None:
    for number in range(160):  # in 16 s, of which the first two are waited for
        disk.put(f"{number // 8}/{number}.npy", NPY + bytes([number]) * 200_000)
    disk.settle()
    process = disk.machine.popen("scan", "--limit-mb-s", "2", "--threads", "1", str(disk.root))
    try:
        wait_for(lambda: len(hashed(disk)) >= 8)
    finally:
        process.kill()
        process.wait()
    kept = hashed(disk)
    assert 8 <= len(kept) < 160
    done = disk.scan()
    assert done.returncode == 0, done.stderr
    assert f"{160 - len(kept)} read" in done.stdout
    assert len(server.present()) == 160


def test_concurrent_scans_are_refused(disk: Disk, server: FakeServer) -> None:
    register, over = server.register, threading.Event()

    def held(body: dict[str, Any]) -> dict[str, Any]:
        over.wait(30)
        return register(body)

    server.register = held  # type: ignore[method-assign] - the first goes on until the second has ended
    disk.put("a.npy", NPY + bytes(3_000_000))
    first = disk.machine.popen("scan", "--limit-mb-s", "1", str(disk.root))
    try:
        wait_for(disk.state.exists)
        second = disk.scan()
    finally:
        over.set()
        ended = first.wait(30)
    assert (second.returncode, "another scan" in second.stderr, ended) == (1, True, 0)


NAMES = st.sampled_from(["a", "b", "c/d", "c/e", "m/model", "m/x"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES, st.integers(0, 3)),
        st.tuples(st.just("drop"), NAMES, st.just(0)),
        st.tuples(st.just("move"), NAMES, st.integers(0, 5)),
        st.tuples(
            st.sampled_from(["card", "no card", "scan", "away", "rmtree"]), st.just("m"), st.just(0)
        ),
    ),
    max_size=12,
)


def act(root: Path, step: str, name: str, number: int) -> None:
    """One change of the tree."""
    path = root / f"{name}.safetensors"
    if step == "put":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(safetensors(number))
    elif step == "drop":
        path.unlink(missing_ok=True)
    elif step == "move" and path.exists():
        aim = root / f"to{number}/{path.name}"
        aim.parent.mkdir(exist_ok=True)
        path.rename(aim)
    elif step == "card":
        (root / "m").mkdir(exist_ok=True)
        (root / "m/config.json").write_text("{}")
    elif step == "no card":
        (root / "m/config.json").unlink(missing_ok=True)
    elif step == "rmtree":
        shutil.rmtree(root / "c", ignore_errors=True)


def expected(root: Path) -> set[str]:
    """What lies there: files, and the folder m as one if it has a card and weights."""
    whole = (root / "m/config.json").exists() and (root / "m/model.safetensors").exists()
    files = {
        str(path)
        for path in root.rglob("*.safetensors")
        if not (whole and path.parent == root / "m")
    }
    return files | {str(root / "m")} if whole else files


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_the_server_follows_any_sequence_of_changes(
    steps: list[tuple[str, str, int]],
    disk: Disk,
    here: Any,
    server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("labcarbon_collect.api.bulk_uploader.full_jitter", lambda failures: 0.0)
    for path in list(disk.root.iterdir()):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    disk.put("stays.safetensors", safetensors(9))
    for step, name, number in steps:
        if step == "scan":
            here()
        elif step == "away":
            server.faults = [fakes.error_response(503)] * 8
            here()
            server.faults = []
        else:
            act(disk.root, step, name, number)
    here()
    assert set(server.present()) == expected(disk.root)
    from hashlib import sha256

    for path, digest in server.present().items():
        if path.endswith(".safetensors"):
            assert digest == sha256(Path(path).read_bytes()).hexdigest()
    asked = len(server.requests)
    here()
    assert len(server.requests) == asked


def test_many_rows_are_sent_a_thousand_at_a_time(disk: Disk, here: Any, server: FakeServer) -> None:
    for number in range(2100):
        disk.put(f"{number % 7}/{number}.npy", NPY + number.to_bytes(4, "big"))
    assert here("--threads", "3")[0] == 0
    sizes = [len(request.body["artifacts"]) for request in server.sent("POST", "artifacts/")]
    assert (sum(sizes), max(sizes), len(server.present())) == (2100, 1000, 2100)


def test_pace_is_shared() -> None:
    now, slept = [0.0], []
    pace = RateLimiter(100.0, now=lambda: now[0], sleep=slept.append)
    now[0] = 0.2
    for _ in range(3):
        pace.acquire(100)
    assert slept == pytest.approx([0.8, 1.8])
    RateLimiter(None, sleep=slept.append).acquire(10**9)
    assert len(slept) == 2


def test_the_limit_holds_for_all_threads_together(disk: Disk, here: Any) -> None:
    for number in range(8):
        disk.put(f"{number}.npy", NPY + bytes([number]) * 250_000)
    begun = time.monotonic()
    assert here("--threads", "4", "--limit-mb-s", "2")[0] == 0
    assert 0.6 <= time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("major", "turns", "expected"),
    [(8, "1", "hdd"), (8, "0", "ssd"), (8, "", "unknown"), (9, "1", "unknown")],
)
def test_mediums_of_disks_and_partitions(
    tmp_path: Path, major: int, turns: str, expected: str
) -> None:
    disk = tmp_path / "devices/sda"
    (disk / "sda1").mkdir(parents=True)
    (disk / "queue").mkdir()
    (disk / "queue/rotational").write_text(turns)
    (tmp_path / "dev/block").mkdir(parents=True)
    for number, place in ((0, disk), (1, disk / "sda1")):
        (tmp_path / f"dev/block/8:{number}").symlink_to(place)
    mediums = MediumDetector(sys=tmp_path)
    assert {mediums.device_medium(major, number, "/data") for number in (0, 1)} == {expected}


def test_mediums_that_cannot_be_known(tmp_path: Path) -> None:
    virtual = tmp_path / "devices/vda"
    (virtual / "queue").mkdir(parents=True)
    (virtual / "queue/rotational").write_text("1")
    (tmp_path / "dev/block").mkdir(parents=True)
    (tmp_path / "dev/block/254:0").symlink_to(virtual)
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "29 1 0:27 / /home rw - nfs4 server:/home rw\n30 1 0:28 / /home/b\\040c rw - btrfs "
        "/dev/nope rw\n"
    )
    mediums = MediumDetector(sys=tmp_path, mountinfo=mounts)
    assert mediums.device_medium(254, 0, "/data") == "unknown", (
        "a virtual disk tells its hypervisor's default"
    )
    assert mediums.device_medium(0, 27, "/home/ana") == "unknown"
    assert mediums.device_medium(0, 28, "/home/b c/x") == "unknown"


def test_an_object_store(here: Any, server: FakeServer) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    store = MemoryFileSystem()
    store.store.clear()
    store.pipe("/bucket/runs/a.safetensors", safetensors())
    store.pipe("/bucket/model/config.json", b'{"model_type": "bert"}')
    store.pipe("/bucket/model/model.safetensors", safetensors(2))
    store.pipe("/bucket/photo.png", b"x")
    dirs = ("memory://bucket",)
    code, _, said = here(dirs=dirs)
    assert code == 0, said
    assert set(server.present()) == {"memory://bucket/runs/a.safetensors", "memory://bucket/model"}
    assert {place[0] for place in server.copies} == {""}
    assert {row["copies"][0]["medium"] for row in server.artifacts.values()} == {"object"}
    assert "0 read (0 B)" in here(dirs=dirs)[1]
    store.rm("/bucket/runs/a.safetensors")
    store.pipe("/bucket/late.parquet", PARQUET)
    assert "1 new, 0 changed, 1 unchanged, 0 moved, 1 missing" in here(dirs=dirs)[1]
    assert set(server.present()) == {"memory://bucket/late.parquet", "memory://bucket/model"}


def test_a_missing_fsspec_is_reported_with_the_package(
    here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    code, _, said = here(dirs=("s3://bucket/x",))
    assert (code, "pip install 'labcarbon-collect[s3]'" in said) == (1, True)


@pytest.mark.parametrize(
    ("title", "path"),
    [("### `POST artifacts/`", "artifacts/"), ("### `POST artifacts/copies/`", "copies/")],
)
def test_what_leaves_is_what_the_page_lists(
    disk: Disk,
    here: Any,
    server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    title: str,
    path: str,
) -> None:
    monkeypatch.setitem(
        __import__("tests.collector.test_sent_data", fromlist=["x"]).VARYING,
        "artifacts[].facts",
        "<name>",
    )
    monkeypatch.setattr(
        "labcarbon_collect.scan.uploader._is_own_file", lambda owner: True
    )  # root's is nobody's own
    disk.put("a.safetensors", safetensors(license="mit"))
    disk.put("b.npy", NPY)
    here("--project", "demo")
    (disk.root / "b.npy").unlink()
    here("--project", "demo")
    bodies = [request.body for request in server.requests if request.path.endswith(path)]
    assert {key for body in bodies for key in keys(body)} == documented(title)


@pytest.mark.django_db(transaction=True)
def test_the_real_server_is_told(live_server: Any, tmp_path: Path) -> None:
    small = small_lab()
    project = Project.objects.get(lab=small.lab, slug="demo")
    token = issue_user_token(lab=small.lab, user=small.owner, now=now_us())
    machine = Collector(tmp_path, {"LABCARBON_URL": live_server.url, "LABCARBON_TOKEN": token})
    machine.settings["LABCARBON_NODE_ID"] = str(small.node.uuid)
    disk = Disk(tmp_path / "disk", machine)
    disk.put("epoch=1.ckpt", torch())
    disk.put("copy/epoch=1.ckpt", torch())
    disk.put("bert/config.json", json.dumps({"model_type": "bert"}).encode())
    disk.put("bert/model.safetensors", safetensors())
    disk.settle()
    done = disk.scan("--project", "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 created, 1 changed" in done.stdout
    model = Artifact.objects.get(name="bert")
    assert (model.kind, model.form, model.files, model.facts, model.project) == (
        "model",
        "folder",
        2,
        {"model_type": "bert"},
        project,
    )
    assert set(Copy.objects.values_list("path", "state", "node")) == {
        (str(disk.root / name), "present", small.node.pk)
        for name in ("epoch=1.ckpt", "copy/epoch=1.ckpt", "bert")
    }
    (disk.root / "bert").rename(disk.root / "moved")
    (disk.root / "copy/epoch=1.ckpt").unlink()
    done = disk.scan()
    assert "1 moved, 1 missing" in done.stdout
    states = dict(Copy.objects.values_list("path", "state"))
    assert states == {
        str(disk.root / "epoch=1.ckpt"): "present",
        str(disk.root / "copy/epoch=1.ckpt"): "missing",
        str(disk.root / "bert"): "missing",
        str(disk.root / "moved"): "present",
    }
    assert "0 created, 0 changed, 0 unchanged, 0 refused; 0 copies" in disk.scan().stdout


def test_former_options_are_aliases(disk: Disk, here: Any) -> None:
    disk.put("notes.bin", b"x")
    code, out, messages = here("--dry-run", "--all", "--tell-again")
    assert (code, "new " in out) == (0, True)
    assert messages.count("is deprecated: use --include-unknown") == 1
    assert messages.count("is deprecated: use --resend") == 1
