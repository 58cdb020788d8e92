"""Revisions in a cache of the Hugging Face hub: a purge frees the blobs that no other uses."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.collector.cleanup.support import World, snapshot
from tests.collector.scan.hub_cache import revision

REPOSITORY = "models--org--m"
TOP = f"hub/{REPOSITORY}"
SHARED = {"model.safetensors": b"s" * 1000, "sub/deep.bin": b"d" * 10}


def make(world: World, name: str, **files: bytes) -> str:
    """Write a revision; return its path below the disk."""
    revision(world.disk / "hub", REPOSITORY, name, {**SHARED, **files})
    return f"{TOP}/snapshots/{name}"


def blobs(world: World) -> list[bytes]:
    folder = world.disk / TOP / "blobs"
    return sorted(blob.read_bytes() for blob in folder.iterdir())


def content(path: Path) -> dict[str, bytes]:
    """Return the files of a revision, read through its links."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if not file.is_dir()
    }


def test_one_revision_frees_its_own_blobs_only(world: World) -> None:
    first = make(world, "aaa", config=b"1", again=b"1")
    second = make(world, "bbb", config=b"22")
    before, readable = snapshot(world.disk), content(world.disk / second)
    world.plan(first)
    assert world.carry_out(dry=True) == 0
    assert snapshot(world.disk) == before
    assert world.carry_out() == 0
    assert not (world.disk / first).exists()
    assert len(blobs(world)) == 4, "nothing is freed while it can be restored"
    world.days = 15
    assert world.carry_out(empty=True) == 0
    assert world.outcomes() == ["deleted"]
    assert blobs(world) == sorted([*SHARED.values(), b"22"])
    assert content(world.disk / second) == readable


def test_both_revisions_free_the_shared_blobs_once(world: World) -> None:
    names = [make(world, "aaa", config=b"1"), make(world, "bbb", config=b"22")]
    world.plan(*names)
    assert world.carry_out() == 0
    world.days = 15
    assert world.carry_out(empty=True) == 0
    assert world.outcomes() == ["deleted", "deleted"]
    assert blobs(world) == []


def test_a_revision_is_restored(world: World) -> None:
    names = [make(world, "aaa", config=b"1"), make(world, "bbb", config=b"22")]
    before, readable = snapshot(world.disk), content(world.disk / names[0])
    world.plan(*names)
    assert world.carry_out() == 0
    assert world.carry_out(restore=[1]) == 0
    assert content(world.disk / names[0]) == readable
    world.days = 15
    assert world.carry_out(empty=True) == 0
    assert world.outcomes() == ["restored", "deleted"]
    assert content(world.disk / names[0]) == readable
    assert b"22" not in blobs(world)
    shown = snapshot(world.disk / names[0])
    assert shown == {
        name.removeprefix(f"{names[0]}/"): value
        for name, value in before.items()
        if name.startswith(f"{names[0]}/")
    }


def test_a_revision_downloaded_again_keeps_its_blobs(world: World) -> None:
    name = make(world, "aaa", config=b"1")
    world.plan(name)
    assert world.carry_out() == 0
    make(world, "aaa", config=b"1")
    readable = content(world.disk / name)
    world.days = 15
    assert world.carry_out(empty=True) == 0
    assert content(world.disk / name) == readable


def test_a_revision_in_the_trash_of_another_plan_keeps_its_blobs(world: World) -> None:
    name = make(world, "aaa", config=b"1")
    make(world, "bbb", config=b"22")
    other = world.disk / TOP / "snapshots" / ".labcarbon-trash" / "another-plan"
    world.plan(name)
    assert world.carry_out() == 0
    other.mkdir()
    (world.disk / TOP / "snapshots/bbb").rename(other / "7")
    world.days = 15
    assert world.carry_out(empty=True) == 0
    assert blobs(world) == sorted([*SHARED.values(), b"22"])


def test_hidden_links_go_with_the_revision(world: World) -> None:
    name = make(world, "aaa", config=b"1")
    world.plan(name)  # before the hidden file: the digest does not cover it
    make(world, "bbb")
    revision(world.disk / "hub", REPOSITORY, "aaa", {".gitattributes": b"lfs"})
    readable = content(world.disk / TOP / "snapshots/bbb")
    assert world.carry_out() == 0
    world.days = 15
    assert world.carry_out(empty=True) == 0
    assert blobs(world) == sorted(SHARED.values())
    assert content(world.disk / TOP / "snapshots/bbb") == readable


def _absolute(world: World, folder: Path) -> None:
    (folder / "x").symlink_to(next((world.disk / TOP / "blobs").iterdir()))


def _outside(world: World, folder: Path) -> None:
    (folder / "x").symlink_to(Path(*[".."] * 4, "mine.bin"))
    world.put("mine.bin", b"m")


def _linked_folder(world: World, folder: Path) -> None:
    (folder / "x").symlink_to("../../blobs")


def _missing(world: World, folder: Path) -> None:
    (folder / "x").symlink_to("../../blobs/missing")


def _hidden_file(world: World, folder: Path) -> None:
    (folder / ".x").write_bytes(b"x")


def _hard_link(world: World, folder: Path) -> None:
    os.link((folder / "config").resolve(), world.disk / "second-name")


@pytest.mark.parametrize(
    "change", [_absolute, _outside, _linked_folder, _missing, _hidden_file, _hard_link]
)
def test_anything_else_in_a_revision_stays(world: World, change: Any) -> None:
    name = make(world, "aaa", config=b"1")
    world.plan(name)
    change(world, world.disk / name)
    before = snapshot(world.disk)
    assert world.carry_out() == 1
    assert world.outcomes() == ["refused"]
    assert snapshot(world.disk) == before


@pytest.mark.parametrize("since", ["registered", "trashed"])
def test_a_changed_blob_stays(world: World, since: str) -> None:
    name = make(world, "aaa", config=b"1")
    blob = (world.disk / name / "config").resolve()
    world.plan(name)
    if since == "registered":
        blob.write_bytes(b"2")
        assert world.carry_out() == 1
        assert world.outcomes() == ["refused"]
        return
    assert world.carry_out() == 0
    blob.write_bytes(b"2")
    world.days = 15
    assert world.carry_out(empty=True) == 1
    assert world.outcomes() == ["trashed"]
    assert b"2" in blobs(world)


def test_an_interrupted_purge_continues(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [make(world, "aaa", config=b"1"), make(world, "bbb", config=b"22")]
    world.plan(names[0])
    assert world.carry_out() == 0
    world.days = 15
    unlink = os.unlink
    for first in (True, False):
        calls = []

        def failing(
            path: Any, calls: list[Any] = calls, first: bool = first, **options: Any
        ) -> None:
            calls.append(path)
            if len(calls) == (1 if first else 2):
                raise OSError(5, "Input/output error")
            unlink(path, **options)

        monkeypatch.setattr(os, "unlink", failing)
        assert world.carry_out(empty=True) == 1
        assert world.outcomes() == ["trashed"]
    monkeypatch.setattr(os, "unlink", unlink)
    assert world.carry_out(empty=True) == 0
    assert world.outcomes() == ["deleted"]
    assert blobs(world) == sorted([*SHARED.values(), b"22"])
    assert content(world.disk / names[1])["config"] == b"22"


def test_an_unreadable_revision_keeps_all_blobs(world: World) -> None:
    name = make(world, "aaa", config=b"1")
    world.plan(name)
    assert world.carry_out() == 0
    world.days = 15
    walk = os.fwalk

    def unreadable(*arguments: Any, **options: Any) -> Any:
        options["onerror"](PermissionError(13, "Permission denied"))
        return walk(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fwalk", unreadable)
        assert world.carry_out(empty=True) == 1
    assert len(blobs(world)) == 3
    assert world.carry_out(empty=True) == 0
    assert blobs(world) == []


REVISIONS = st.lists(
    st.dictionaries(st.sampled_from("vwxyz"), st.integers(1, 5), min_size=1),
    min_size=1,
    max_size=4,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(revisions=REVISIONS, data=st.data())
def test_a_purge_frees_exactly_what_no_other_revision_uses(
    world: World, revisions: list[dict[str, int]], data: st.DataObject
) -> None:
    shutil.rmtree(world.root)
    world.disk.mkdir(parents=True)
    names = []
    for number, files in enumerate(revisions):
        contents = {file: b"%d" % size * size**2 for file, size in files.items()}
        revision(world.disk / "hub", REPOSITORY, f"r{number}", contents)
        names.append(f"{TOP}/snapshots/r{number}")
    chosen = data.draw(st.sets(st.integers(0, len(names) - 1), min_size=1))
    rest = [world.disk / name for number, name in enumerate(names) if number not in chosen]
    readable = [content(folder) for folder in rest]
    world.plan(*(names[number] for number in sorted(chosen)))
    world.days = 0
    assert world.carry_out() == 0
    world.days = 15
    assert world.carry_out(empty=True) == 0
    assert [content(folder) for folder in rest] == readable
    assert set(blobs(world)) == {value for files in readable for value in files.values()}
