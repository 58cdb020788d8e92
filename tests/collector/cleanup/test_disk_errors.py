"""Making room on a disk that is full, and errors of a disk that are one line's."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.cleanup import journal, purge
from labcarbon_collect.cleanup.trash import TRASH
from labcarbon_collect.errors import CommandError

from tests.collector.cleanup.killed_command import kill, was_killed
from tests.collector.cleanup.support import PLAN, World, snapshot


@pytest.fixture
def went(world: World) -> World:
    """A file, a folder and another file that lie in the trash for long enough."""
    world.put("run/a.pt")
    world.put("hf/1")
    world.put("hf/x/2")
    world.put("z.pt")
    world.plan("run/a.pt", "hf", "z.pt")
    assert world.carry_out() == 0
    world.days = 20
    return world


def _folder(opened: int) -> Path:
    return Path(f"/proc/self/fd/{opened}").readlink()


def _fill(world: World, monkeypatch: pytest.MonkeyPatch, full: Path) -> None:
    """No file can be made below a folder any more."""
    real = os.open

    def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        whole = Path(_folder(dir_fd) if dir_fd is not None else "/", path)
        if flags & os.O_CREAT and full in whole.parents:
            raise OSError(28, "No space left on device", str(path))
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", opened)


def test_a_full_disk_is_emptied(went: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(went, monkeypatch, went.disk)
    assert went.carry_out(empty=True) == 0
    monkeypatch.undo()
    assert went.outcomes() == ["deleted"] * 3
    assert not list(went.disk.rglob(TRASH))
    assert [path.name for path in (went.root / "data/plans").iterdir()] == [f"{PLAN}.jsonl"]


def test_a_folder_stays_if_its_file_list_cannot_be_written(
    went: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keep = purge.save_listing

    def full(*words: Any) -> None:
        with monkeypatch.context() as patch:
            _fill(went, patch, went.root / "data")
            keep(*words)

    monkeypatch.setattr(purge, "save_listing", full)
    assert went.carry_out(empty=True) == 1
    assert "its file list cannot be written to" in capsys.readouterr().out
    assert snapshot(went.slot("hf", 2)) == {"1": b"hf/1", "x": None, "x/2": b"hf/x/2"}
    assert went.outcomes() == ["deleted", "trashed", "deleted"]
    monkeypatch.undo()
    assert went.carry_out(empty=True) == 0
    assert went.outcomes() == ["deleted"] * 3


def _failing(path: Path, number: int, real: Callable[[int], None]) -> Callable[[int], None]:
    def sync(folder: int) -> None:
        if _folder(folder) == path:
            raise OSError(number, os.strerror(number))
        real(folder)

    return sync


def test_an_error_of_one_lines_disk_is_that_lines(
    went: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "fsync", _failing(went.slot("run/a.pt", 1).parent, 5, os.fsync))
    assert went.carry_out(empty=True) == 1
    assert "Input/output error; run the same command to continue" in capsys.readouterr().out
    assert went.outcomes() == ["trashed", "deleted", "deleted"]
    monkeypatch.undo()
    assert went.carry_out(empty=True) == 0
    assert went.outcomes() == ["deleted"] * 3


def test_an_error_of_one_lines_disk_before_it_begins_is_that_lines(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tombstone is missing yet, and cannot be put."""
    for name in ("run/a.pt", "z.pt"):
        world.put(name)
    world.plan("run/a.pt", "z.pt")
    with monkeypatch.context() as patch:
        _fill(world, patch, world.disk)
        assert world.carry_out() == 0
    monkeypatch.setattr(os, "fsync", _failing(world.slot("run/a.pt", 1).parent, 5, os.fsync))
    world.carry_out(empty=True)
    assert world.tombstone("z.pt")["state"] == "in the trash"
    world.days = 20
    assert world.carry_out(empty=True) == 1
    assert world.outcomes() == ["trashed", "deleted"]


def test_a_journal_that_cannot_be_written_ends_it(
    went: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal, "_write_all", full)
    with pytest.raises(CommandError, match=f"{PLAN}.jsonl.*run the same command"):
        went.carry_out(empty=True)
    assert went.outcomes() == ["trashed"] * 3
    assert went.slot("run/a.pt", 1).exists()


def _kill_during_deletion(world: World) -> None:
    unlink = os.unlink

    def last(name: str, **folders: int) -> None:
        unlink(name, **folders)
        if "dir_fd" in folders and not (world.slot("hf", 2) / "1").exists():
            kill()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "unlink", last)
        assert was_killed(lambda: world.carry_out(empty=True))


def test_a_list_in_the_trash_by_an_earlier_version_is_understood(went: World) -> None:
    _kill_during_deletion(went)
    (kept,) = (went.root / "data/plans").glob("*.list")
    assert [row[0] for row in json.loads(kept.read_text())[1]] == ["1", "x/2"]
    assert snapshot(went.slot("hf", 2)) == {"x": None, "x/2": b"hf/x/2"}
    kept.rename(went.slot("hf", 2).with_suffix(".list"))
    assert went.carry_out(empty=True) == 0
    assert went.outcomes() == ["deleted"] * 3
    assert not list(went.disk.rglob(TRASH))


@pytest.mark.parametrize("torn", [None, "", "[]", '["folder", [[1]], []]'])
def test_a_list_that_is_lost_or_damaged_deletes_nothing(
    went: World, capsys: pytest.CaptureFixture[str], torn: str | None
) -> None:
    _kill_during_deletion(went)
    (kept,) = (went.root / "data/plans").glob("*.list")
    kept.unlink() if torn is None else kept.write_text(torn)
    assert went.carry_out(empty=True) == 1
    assert "is damaged: delete the rest manually" in capsys.readouterr().out
    assert snapshot(went.slot("hf", 2)) == {"x": None, "x/2": b"hf/x/2"}


def test_a_file_that_was_about_to_be_deleted_is_read_again(
    went: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the list of an earlier version says."""
    with monkeypatch.context() as patch:
        patch.setattr(purge, "delete", lambda *words: kill())
        assert was_killed(lambda: went.carry_out(empty=True))
    slot = went.slot("run/a.pt", 1)
    slot.write_bytes(b"precious")
    about = slot.stat()
    row = ["", about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns]
    slot.with_suffix(".list").write_text(json.dumps(["file", [row], []]))
    assert went.carry_out(empty=True) == 1
    assert slot.read_bytes() == b"precious"
    assert went.outcomes() == ["trashed", "deleted", "deleted"]
