"""Back from the trash, and away for good."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from labcarbon_collect.cleanup import safe_paths
from labcarbon_collect.cleanup.trash import TRASH
from labcarbon_collect.errors import CommandError

from tests.collector.cleanup.support import PLAN, World, snapshot


@pytest.fixture
def went(world: World) -> World:
    """Three lines in the trash: two files, a folder."""
    world.put("run/a.pt", b"aaa")
    world.put("run/b.pt", b"bbb")
    world.put("hf/x/1", b"1")
    world.put("hf/2", b"2")
    world.plan("run/a.pt", "run/b.pt", "hf")
    assert world.carry_out() == 0
    return world


def test_all_come_back_as_they_were(went: World) -> None:
    assert went.carry_out(restore=[]) == 0
    assert snapshot(went.disk) == {
        "run": None,
        "run/a.pt": b"aaa",
        "run/b.pt": b"bbb",
        "hf": None,
        "hf/x": None,
        "hf/x/1": b"1",
        "hf/2": b"2",
    }
    assert went.outcomes() == ["restored"] * 3
    assert went.carry_out() == 0
    assert (went.disk / "run/a.pt").exists(), (
        "what was brought back does not go by the same plan again"
    )


def test_one_line_comes_back(went: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert went.carry_out(restore=[2]) == 0
    assert (went.disk / "run/b.pt").read_bytes() == b"bbb"
    assert not (went.disk / "run/a.pt").exists()
    assert went.outcomes() == ["trashed", "restored", "trashed"]
    assert went.carry_out(restore=[2]) == 1
    assert "it is not in the trash" in capsys.readouterr().out
    with pytest.raises(CommandError, match="item 77 is not in this plan"):
        went.carry_out(restore=[77])


@pytest.mark.parametrize("with_renameat2", [True, False])
@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_nothing_is_overwritten(
    went: World, monkeypatch: pytest.MonkeyPatch, kind: str, with_renameat2: bool
) -> None:
    """Also where somebody puts something there at the last moment, and where the file system has
    no such rename.
    """
    path = went.disk / "run/a.pt"
    if kind == "folder":
        path = went.disk / "hf"
    content = path / "new" if kind == "folder" else path

    def put_content(*words: object) -> None:
        content.parent.mkdir(exist_ok=True)
        content.symlink_to("b.pt") if kind == "link" else content.write_bytes(b"new")

    real = safe_paths._renameat2

    def late(*words: object) -> None:
        put_content()
        if not with_renameat2:
            raise OSError(22, "Invalid argument")
        real(*words)

    monkeypatch.setattr(safe_paths, "_renameat2", late)
    line = 3 if kind == "folder" else 1
    assert went.carry_out(restore=[line]) == 1
    monkeypatch.undo()
    assert content.is_symlink() == (kind == "link")
    if kind != "link":
        assert content.read_bytes() == b"new"
    assert went.slot("run/a.pt" if line == 1 else "hf", line).exists()
    assert went.outcomes()[line - 1] == "trashed"
    content.unlink()
    if kind == "folder":
        path.rmdir()
    assert went.carry_out(restore=[line]) == 0
    assert path.exists()


def test_items_are_restored_without_renameat2(went: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*words: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(safe_paths, "_renameat2", absent)
    assert went.carry_out(restore=[]) == 0
    assert (went.disk / "run/a.pt").stat().st_nlink == 1
    assert sorted(snapshot(went.disk)) == [
        "hf",
        "hf/2",
        "hf/x",
        "hf/x/1",
        "run",
        "run/a.pt",
        "run/b.pt",
    ]


def test_nothing_is_deleted_too_early(went: World, capsys: pytest.CaptureFixture[str]) -> None:
    went.days = 13.99
    before = snapshot(went.disk)
    assert went.carry_out(empty=True) == 0
    assert snapshot(went.disk) == before
    assert "in the trash for less than 14 days: 3 items" in capsys.readouterr().out
    assert went.outcomes() == ["trashed"] * 3


def test_expired_items_are_deleted_and_no_other_content(went: World) -> None:
    other = went.put("run/other.pt", b"other")
    went.days = 14
    assert went.carry_out(empty=True) == 0
    assert went.outcomes() == ["deleted"] * 3
    assert sorted(snapshot(went.disk)) == [
        "hf.labcarbon-tombstone.json",
        "run",
        "run/a.pt.labcarbon-tombstone.json",
        "run/b.pt.labcarbon-tombstone.json",
        "run/other.pt",
    ]
    assert other.read_bytes() == b"other"
    said = went.tombstone("run/a.pt")
    assert (said["state"], said["bytes"], "bring_back" in said, "lies_at" in said) == (
        "deleted",
        3,
        False,
        False,
    )
    assert said["deleted_at"] > said["moved_at"]
    assert went.carry_out(restore=[1]) == 1
    assert went.carry_out(empty=True) == 0
    assert went.carry_out() == 0


def test_a_later_pin_blocks_the_deletion(went: World, capsys: pytest.CaptureFixture[str]) -> None:
    went.days = 20
    went.pin(2)
    assert went.carry_out(empty=True) == 0
    assert went.slot("run/b.pt", 2).read_bytes() == b"bbb"
    assert went.outcomes() == ["deleted", "trashed", "deleted"]
    assert "blocked since approval: 1 item" in capsys.readouterr().out
    assert went.carry_out(restore=[2]) == 0
    assert (went.disk / "run/b.pt").read_bytes() == b"bbb"


def test_a_pin_during_verification_blocks_the_deletion(
    went: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labcarbon_collect.cleanup.session.MAX_PLAN_AGE_S", -1.0)
    went.days = 20
    asked = []

    def before(method: str) -> None:
        asked.append(method)
        if len(asked) == 3:  # the plan, then before reading, then before deleting
            went.pin(1)

    went.before = before
    assert went.carry_out(empty=True) == 0
    assert went.slot("run/a.pt", 1).exists()
    assert went.outcomes()[0] == "trashed"


@pytest.mark.parametrize("how", ["written", "added", "link"])
def test_what_changed_in_the_trash_is_not_deleted(went: World, how: str) -> None:
    """Somebody had it open all the time, or put something into it."""
    went.days = 20
    slot = went.slot("hf", 3)
    outside = went.put("precious", b"precious")
    if how == "written":
        (slot / "2").write_bytes(b"X")
    elif how == "added":
        (slot / "x" / "new").write_bytes(b"new")
    else:
        (slot / "x" / "1").unlink()
        (slot / "x" / "1").symlink_to(outside)
    before = snapshot(slot)
    assert went.carry_out(empty=True) == 1
    assert snapshot(slot) == before
    assert outside.read_bytes() == b"precious"
    assert went.outcomes() == ["deleted", "deleted", "trashed"]


def test_what_is_put_into_a_folder_while_it_is_deleted_is_left(
    went: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    went.days = 20
    unlink, slot = os.unlink, went.slot("hf", 3)

    def late(name: str, **folders: int) -> None:
        unlink(name, **folders)
        if not (slot / "x" / "1").exists():
            (slot / "x" / "new").write_bytes(b"new")

    monkeypatch.setattr(os, "unlink", late)
    assert went.carry_out(empty=True) == 1
    monkeypatch.undo()
    assert snapshot(slot) == {"x": None, "x/new": b"new"}
    assert went.carry_out(empty=True) == 1, "and by the next call too"
    (slot / "x" / "new").unlink()
    assert went.carry_out(empty=True) == 0
    assert not slot.exists()
    assert went.outcomes() == ["deleted"] * 3


def test_content_added_during_verification_blocks_the_deletion(went: World) -> None:
    went.days = 20
    slot = went.slot("hf", 3)

    def hashed(size: int) -> None:
        if size == 1:  # a file of the folder: the other lines have three bytes
            (slot / "x" / "new").touch()

    went.on_block = hashed
    assert went.carry_out(empty=True) == 1
    assert snapshot(slot) == {"2": b"2", "x": None, "x/1": b"1", "x/new": b""}


def test_what_is_changed_while_it_is_deleted_is_left(
    went: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    went.days = 20
    unlink, slot = os.unlink, went.slot("hf", 3)

    def late(name: str, **folders: int) -> None:
        unlink(name, **folders)
        if (slot / "x" / "1").exists() and not (slot / "2").exists():
            (slot / "x" / "1").write_bytes(b"precious")

    monkeypatch.setattr(os, "unlink", late)
    assert went.carry_out(empty=True) == 1
    assert went.carry_out(empty=True) == 1
    assert snapshot(slot) == {"x": None, "x/1": b"precious"}


def test_a_manual_restore_is_detected(went: World) -> None:
    went.slot("run/a.pt", 1).rename(went.disk / "run/a.pt")
    went.slot("run/b.pt", 2).unlink()
    assert went.carry_out() == 1
    assert (went.disk / "run/a.pt").read_bytes() == b"aaa"
    assert went.outcomes() == ["restored", "refused", "trashed"]


def test_an_unmounted_disk_does_not_count_as_empty(went: World) -> None:
    """A file system that is not mounted for a while: the journal stands."""
    (went.disk / "run").rename(went.root / "unmounted")
    went.days = 20
    assert went.carry_out() == 1
    assert went.carry_out(empty=True) == 1
    assert went.outcomes() == ["trashed", "trashed", "deleted"]
    (went.root / "unmounted").rename(went.disk / "run")
    assert went.carry_out(restore=[]) == 0
    assert (went.disk / "run/a.pt").read_bytes() == b"aaa"


@pytest.mark.parametrize("torn", [b"", b'{"line": 1, "sta', b"\xff\xfe\n[]\n{}\n"])
def test_a_journal_that_is_lost_or_torn(went: World, torn: bytes) -> None:
    """What lies in the trash can come back, and its days begin anew."""
    (journal,) = (went.root / "data/plans").iterdir()
    journal.write_bytes(torn)
    went.days = 20
    assert went.carry_out(empty=True) == 0
    assert went.slot("run/a.pt", 1).exists()
    assert [
        json.loads(row)["state"] for row in journal.read_text(errors="replace").splitlines()[-3:]
    ] == ["trashed"] * 3
    assert went.carry_out(restore=[]) == 0
    assert (went.disk / "hf/x/1").read_bytes() == b"1"
    assert went.outcomes() == ["restored"] * 3


def test_a_tombstone_that_could_not_be_put_is_put_by_the_next_call(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("a.pt", b"aaa")
    world.plan("a.pt")

    def full(*words: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safe_paths, "_renameat2", full)
    assert world.carry_out() == 0
    assert not list(world.disk.glob("*.json"))
    monkeypatch.undo()
    assert world.carry_out() == 0
    assert world.tombstone("a.pt")["state"] == "in the trash"


def test_the_trash_of_another_plan_is_left_alone(went: World) -> None:
    other = went.disk / "run" / TRASH / "other"
    other.mkdir()
    (other / "1").write_bytes(b"x")
    went.days = 20
    assert went.carry_out(empty=True) == 0
    assert (other / "1").read_bytes() == b"x"
    assert not Path(went.disk, "run", TRASH, PLAN).exists()


def test_changed_content_is_restored_by_the_printed_command(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "it's " + "a/" * 150 + "-x $HOME.pt"
    world.put(name, b"aaa")
    world.plan(name)
    assert world.carry_out() == 0
    world.slot(name, 1).write_bytes(b"new")
    world.days = 15
    assert world.carry_out(restore=[1]) == 1
    said = capsys.readouterr().out
    command = said[said.index("mv -nT ") :].splitlines()[0]
    assert shlex.split(command)[-1] == str(world.disk / name)
    subprocess.run(["/bin/sh", "-c", command], check=True)
    assert (world.disk / name).read_bytes() == b"new"
    assert world.carry_out() == 1
    assert world.outcomes() == ["refused"], "it is not what went"
    assert (world.disk / name).read_bytes() == b"new"
