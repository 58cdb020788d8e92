"""Copies that share files: revisions of a hub cache, hard links, targets of links."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from labcarbon_collect.scan.shared_bytes import copy_spaces

from tests.collector.scan.hub_cache import counted_bytes, revision, used_bytes
from tests.collector.scan.support import Disk, safetensors
from tests.collector.test_sent_data import documented
from tests.collector.test_sent_data import keys as sent_keys
from tests.fakes.labcarbon_server import FakeServer

MODEL = "models--org--m"
SHARED, CARD = b"s" * 1000, b"card"


def spaces(server: FakeServer) -> dict[str, tuple[int | None, list[tuple[int, int | None]]]]:
    """Return own bytes and groups of each copy, by the last part of its path."""
    assert server.spaces is not None
    return {
        Path(path).name: (
            row["own_bytes"],
            sorted((group["bytes"], group["copies"]) for group in row["shared"]),
        )
        for path, row in server.spaces.items()
    }


def present_sizes(server: FakeServer) -> dict[str, int]:
    return {path: server.artifacts[digest]["bytes"] for path, digest in server.present().items()}


def test_two_revisions_share_a_blob_once(disk: Disk, here: Any, server: FakeServer) -> None:
    first = revision(disk.root, MODEL, "aaa", {"w.safetensors": SHARED, "config.json": b"1"})
    second = revision(disk.root, MODEL, "bbb", {"w.safetensors": SHARED, "config.json": b"22"})
    code, out, _ = here()
    assert code == 0
    assert spaces(server) == {"aaa": (1, [(1000, 2)]), "bbb": (2, [(1000, 2)])}
    keys = {group["key"] for row in (server.spaces or {}).values() for group in row["shared"]}
    assert len(keys) == 1
    (request,) = server.sent("POST", "copies/space/")
    assert set(sent_keys(request.body)) == documented("### `POST artifacts/copies/space/`")
    total, _ = counted_bytes(server.spaces or {}, present_sizes(server))
    assert total == used_bytes([first, second]) == 1003
    assert "2 artifacts, 1 kB" in out  # 1003 bytes, not 2003


def test_three_revisions_have_a_group_for_each_set_that_shares(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    pair, triple = b"p" * 10, b"t" * 100
    tops = [
        revision(disk.root, MODEL, "aaa", {"t": triple, "p": pair, "own": b"a"}),
        revision(disk.root, MODEL, "bbb", {"t": triple, "p": pair, "again": pair}),
        revision(disk.root, MODEL, "ccc", {"t": triple, "deep/own": b"ccc", "also": b"ccc"}),
    ]
    assert here()[0] == 0
    assert spaces(server) == {
        "aaa": (1, [(10, 2), (100, 3)]),
        "bbb": (0, [(10, 2), (100, 3)]),
        "ccc": (3, [(100, 3)]),
    }
    total, _ = counted_bytes(server.spaces or {}, present_sizes(server))
    assert total == used_bytes(tops) == 114


def test_after_a_revision_was_deleted_the_others_are_sent_again(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    revision(disk.root, MODEL, "aaa", {"w": SHARED, "c": b"1"})
    second = revision(disk.root, MODEL, "bbb", {"w": SHARED, "c": b"22"})
    assert here()[0] == 0
    requests = len(server.sent("POST", "copies/space/"))
    assert here()[0] == 0
    assert len(server.sent("POST", "copies/space/")) == requests, "nothing changed"
    shutil.rmtree(second)
    (disk.root / MODEL / "blobs" / next(iter(_blobs(disk, b"22")))).unlink()
    assert here()[0] == 0
    assert spaces(server)["aaa"] == (1001, [])
    revision(disk.root, MODEL, "bbb", {"w": SHARED, "c": b"22"})
    assert here()[0] == 0
    assert spaces(server) == {"aaa": (1, [(1000, 2)]), "bbb": (2, [(1000, 2)])}


def _blobs(disk: Disk, content: bytes) -> set[str]:
    blobs = (disk.root / MODEL / "blobs").iterdir()
    return {blob.name for blob in blobs if blob.read_bytes() == content}


def test_hard_links_are_counted_once_and_free_nothing(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    disk.put("a.safetensors", safetensors())
    size = (disk.root / "a.safetensors").stat().st_size
    os.link(disk.root / "a.safetensors", disk.root / "b.safetensors")
    assert here()[0] == 0
    assert spaces(server) == {
        "a.safetensors": (0, [(size, None)]),
        "b.safetensors": (0, [(size, None)]),
    }
    (disk.root / "b.safetensors").unlink()
    assert here()[0] == 0
    assert spaces(server)["a.safetensors"] == (None, [])


def test_the_target_of_a_link_belongs_to_two_copies(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    weights = disk.put("weights.safetensors", safetensors())
    disk.put("model/config.json", b'{"architectures": ["A"]}')
    (disk.root / "model/model.safetensors").symlink_to(weights)
    (disk.root / "model/linked.json").symlink_to("config.json")
    assert here()[0] == 0
    size = weights.stat().st_size
    assert spaces(server) == {
        "weights.safetensors": (0, [(size, None)]),
        "model": (0, sorted([(24, None), (size, None)])),
    }
    total, _ = counted_bytes(server.spaces or {}, present_sizes(server))
    assert total == used_bytes([weights, disk.root / "model"])


def test_a_blob_that_another_folder_uses_cannot_be_freed(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    first = revision(disk.root / "hub", MODEL, "aaa", {"w": SHARED, "c": b"1"})
    disk.put("mine/config.json", b'{"architectures": ["A"]}')
    (disk.root / "mine/model.safetensors").symlink_to(os.path.realpath(first / "w"))
    assert here()[0] == 0
    assert spaces(server) == {"aaa": (1, [(1000, None)]), "mine": (24, [(1000, None)])}


def test_a_database_of_an_earlier_version_learns_what_is_shared(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    revision(disk.root, MODEL, "aaa", {"w": SHARED, "c": b"1"})
    revision(disk.root, MODEL, "bbb", {"w": SHARED, "c": b"22"})
    assert here()[0] == 0
    with sqlite3.connect(disk.state) as database:
        database.executescript(
            "UPDATE entry SET link=NULL; DROP TABLE space; DROP INDEX entry_link"
        )
    database.close()
    server.spaces = {}
    code, out, _ = here()
    assert (code, re.search(r"(\d+) read", out)[1]) == (0, "0")  # type: ignore[index]
    assert spaces(server) == {"aaa": (1, [(1000, 2)]), "bbb": (2, [(1000, 2)])}


def test_a_server_of_an_earlier_version_is_no_error(
    disk: Disk, here: Any, server: FakeServer
) -> None:
    server.spaces = None
    revision(disk.root, MODEL, "aaa", {"w": SHARED})
    revision(disk.root, MODEL, "bbb", {"w": SHARED, "c": b"22"})
    assert here()[0] == 0
    server.spaces = {}
    assert here()[0] == 0
    assert spaces(server) == {"aaa": (0, [(1000, 2)]), "bbb": (2, [(1000, 2)])}


CONTENTS = st.integers(1, 6)
FILES = st.dictionaries(st.sampled_from(["w", "v", "sub/w", "x/y/z"]), CONTENTS, min_size=1)
CACHES = st.dictionaries(
    st.tuples(st.sampled_from("mn"), st.sampled_from(["aaa", "bbb", "ccc", "ddd"])),
    FILES,
    min_size=1,
    max_size=7,
)
LINKS = st.lists(st.tuples(CONTENTS, st.booleans()), max_size=4)


@settings(max_examples=60, deadline=None)
@given(caches=CACHES, links=LINKS)
def test_counted_bytes_are_the_bytes_on_disk(
    caches: dict[tuple[str, str], dict[str, int]], links: list[tuple[int, bool]]
) -> None:
    """In random caches, with hard links and a folder that links to blobs. The bytes that one
    revision frees are those that no other path uses.
    """
    from tests.collector.scan.in_process import scan_folder

    with tempfile.TemporaryDirectory() as name:
        root = Path(os.path.realpath(name)) / "disk"
        for (repository, commit), files in caches.items():
            contents = {file: bytes([65 + size]) * size**3 for file, size in files.items()}
            revision(root, f"models--org--{repository}", commit, contents)
        for number, (size, is_hard) in enumerate(links):
            _link(root, number, size, is_hard=is_hard)
        state = scan_folder(root, Path(name) / "data")
        found, sizes, paths = copy_spaces(state.database), dict[str, int](), dict[str, Any]()
        rows = state.database.execute("SELECT folder, name, size FROM entry WHERE what IN (1, 3)")
        folders = dict(_folder_paths(state.database))
        for folder, name_, size in rows.fetchall():
            path = os.fsdecode(folders[folder] + b"/" + name_)
            sizes[path] = size
            if (folder, name_) in found:
                paths[path] = found[folder, name_].wire()
        state.close()
        total, _ = counted_bytes(paths, dict(sorted(sizes.items())))
        assert total == used_bytes(map(Path, sizes))
        for path, space in paths.items():
            assert (
                space["own_bytes"] + sum(each["bytes"] for each in space["shared"]) <= sizes[path]
            )
            freed = space["own_bytes"] + sum(
                each["bytes"] for each in space["shared"] if each["copies"] == 1
            )
            others = used_bytes(Path(other) for other in sizes if other != path)
            assert freed <= total - others


def _link(root: Path, number: int, size: int, *, is_hard: bool) -> None:
    """A model folder whose weights are a blob of the cache, by hard link or by link."""
    blobs = sorted(root.glob("*/blobs/*"))
    target = blobs[size % len(blobs)]
    folder = root / f"model{number}"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    if is_hard:
        os.link(target, folder / "model.safetensors")
    else:
        (folder / "model.safetensors").symlink_to(target)


def _folder_paths(database: sqlite3.Connection) -> list[tuple[int, bytes]]:
    rows = {
        number: (parent, name) for number, parent, name in database.execute("SELECT * FROM folder")
    }

    def path(number: int) -> bytes:
        parent, name = rows[number]
        return (path(parent) + b"/" if parent else b"") + name

    return [(number, path(number)) for number in rows]
