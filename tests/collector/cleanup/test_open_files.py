"""What a program writes to, or could write to unseen, is neither moved nor deleted."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.cleanup import open_files, trash_items
from labcarbon_collect.cleanup.journal import Journal
from labcarbon_collect.cleanup.trash import TRASH

from tests.collector.cleanup.killed_command import kill, was_killed
from tests.collector.cleanup.support import PLAN, World, snapshot

pytestmark = pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="leases are Linux'")


def _state(world: World, line: int) -> str:
    with closing(Journal(world.root / "data/plans", PLAN)) as journal:
        return journal.state(line)


def _mapped(path: Path) -> mmap.mmap:
    """Map a file, with a page that was written to already: no later write to it changes the
    file's times.
    """
    with path.open("r+b") as file:
        found = mmap.mmap(file.fileno(), 0)
    found[0:1] = found[0:1]
    return found


def _rewrite(path: Path) -> None:
    """Other content of the same size, and the old time of change put back."""
    times = path.stat()
    path.write_bytes(b"X" * times.st_size)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.fixture(params=["a.pt", "hf"])
def line(world: World, request: pytest.FixtureRequest) -> tuple[str, Path]:
    """A plan of one line: its name, and the file of it that is written to."""
    name = str(request.param)
    path = world.put(name if name == "a.pt" else "hf/sub/1", b"A" * 100)
    world.plan(name)
    return name, path


def test_a_file_that_is_open_for_writing_stays_until_it_is_closed(
    world: World, line: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = line[1]
    with path.open("r+b"):
        assert world.carry_out(dry=True) == 1
        assert world.carry_out() == 1
        assert (
            "is open for writing by a program: stop it (fuser shows which), then run the same "
            "command" in capsys.readouterr().out
        )
        assert path.exists()
        assert not (world.disk / TRASH).exists()
    assert world.transport.read()["state"] == "approved"
    assert world.carry_out() == 0
    assert world.outcomes() == ["trashed"]


def test_a_file_open_for_reading_is_moved(world: World, line: tuple[str, Path]) -> None:
    with line[1].open("rb"):
        assert world.carry_out() == 0
        world.days = 20
        assert world.carry_out(empty=True) == 0
    assert world.outcomes() == ["deleted"]


@pytest.mark.parametrize("since", ["before", "after it was read"])
def test_a_mapped_file_is_not_moved(
    world: World, line: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, since: str
) -> None:
    name, path = line
    maps = [_mapped(path)] if since == "before" else []
    look = trash_items.list_content

    def late(folder: int, name: str, blobs: str) -> Any:
        found = look(folder, name, blobs)
        if not maps:
            maps.append(_mapped(path))
        return found

    monkeypatch.setattr(trash_items, "list_content", late)
    assert world.carry_out() == 1
    assert path.read_bytes() == b"A" * 100
    assert maps
    assert not world.slot(name, 1).exists()
    assert _state(world, 1) == "", "as if nothing was begun: no later call asks where it went"


def test_a_folder_with_a_file_that_is_opened_just_before_the_move_is_put_back(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody holds all files of a folder at once."""
    path = world.put("hf/sub/1")
    world.plan("hf")
    rename, opened = os.rename, []

    def renamed(source: str, target: str, **folders: int) -> None:
        if source == "hf":
            opened.append(os.open(path, os.O_WRONLY))
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", renamed)
    assert world.carry_out() == 1
    assert "sub/1 in it is open for writing by a program" in capsys.readouterr().out
    assert path.exists()
    assert world.outcomes() == [""]
    assert _state(world, 1) == ""
    os.close(opened.pop())
    monkeypatch.undo()
    assert world.carry_out() == 0
    assert world.outcomes() == ["trashed"]


def test_nobody_opens_a_file_for_writing_while_it_is_moved(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.put("a.pt")
    world.plan("a.pt")
    rename, tried = os.rename, []

    def renamed(source: str, target: str, **folders: int) -> None:
        if source == "a.pt":
            with pytest.raises(BlockingIOError):
                os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            tried.append(source)
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", renamed)
    assert world.carry_out() == 0
    assert tried, "and the signal that somebody waits did not end us"
    world.slot("a.pt", 1).open("r+b").close()


def test_a_change_during_the_journal_write_is_detected(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.put("a.pt", b"A" * 100)
    world.plan("a.pt")
    note = Journal.append

    def late(journal: Journal, number: int, state: str, **facts: Any) -> None:
        note(journal, number, state, **facts)
        if state == "moving":
            _rewrite(path)

    monkeypatch.setattr(Journal, "append", late)
    assert world.carry_out() == 1
    assert path.read_bytes() == b"X" * 100
    assert world.outcomes() == ["refused"]


@pytest.fixture
def went(world: World, line: tuple[str, Path]) -> tuple[World, Path]:
    """A line that lies in the trash for long enough: the machine, and the file of it that is
    written to.
    """
    assert world.carry_out() == 0
    world.days = 20
    name, path = line
    return world, world.slot(name, 1) / path.relative_to(world.disk / name)


def _between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act after all was verified, before anything is deleted."""
    note = Journal.append

    def late(journal: Journal, number: int, state: str, **facts: Any) -> None:
        note(journal, number, state, **facts)
        if state == "deleting":
            act()

    monkeypatch.setattr(Journal, "append", late)


def test_what_is_rewritten_after_it_was_verified_is_not_deleted(
    went: tuple[World, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world, path = went
    _between(monkeypatch, lambda: _rewrite(path))
    for _ in range(2):
        assert world.carry_out(empty=True) == 1
        assert path.read_bytes() == b"X" * 100
    monkeypatch.undo()
    path.unlink()
    world.carry_out(empty=True)
    assert world.outcomes() == ["deleted"]


def test_what_is_rewritten_after_a_kill_is_not_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of which a part is deleted already: nobody can tell its digest any more."""
    world.put("hf/1", b"1" * 100)
    world.put("hf/2", b"2" * 100)
    world.plan("hf")
    world.carry_out()
    world.days = 20
    unlink = os.unlink

    def last(name: str, **folders: int) -> None:
        unlink(name, **folders)
        if name == "1":
            kill()

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", last)
        assert was_killed(lambda: world.carry_out(empty=True))
    assert _state(world, 1) == "deleting"
    left = world.slot("hf", 1) / "2"
    _rewrite(left)
    assert world.carry_out(empty=True) == 1
    assert snapshot(world.slot("hf", 1)) == {"2": b"X" * 100}


@pytest.mark.parametrize("when", ["before", "between"])
def test_a_mapped_file_is_not_deleted(
    went: tuple[World, Path], monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    world, path = went
    maps = [_mapped(path)] if when == "before" else []
    if when == "between":
        _between(monkeypatch, lambda: maps.append(_mapped(path)))
    assert world.carry_out(empty=True) == 1
    assert path.read_bytes() == b"A" * 100
    if when == "before":
        maps.pop().close()
        assert world.carry_out(empty=True) == 0, "run the same command"
        assert world.outcomes() == ["deleted"]


def test_what_a_program_writes_to_can_come_back(
    went: tuple[World, Path], line: tuple[str, Path]
) -> None:
    world, path = went
    with path.open("r+b"):
        assert world.carry_out(restore=[]) == 0
    assert line[1].exists()


@pytest.mark.parametrize(
    "number", [errno.EINVAL, errno.EACCES, errno.ENOLCK, errno.ENOTSUP, errno.EPERM]
)
def test_a_kernel_without_leases_allows_the_move(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    _leases_fail(monkeypatch, number)
    world.put("a.pt")
    world.plan("a.pt")
    assert world.carry_out() == 0
    assert world.outcomes() == ["trashed"]


def test_an_unexpected_lease_error_blocks_the_item(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _leases_fail(monkeypatch, errno.EIO)
    world.put("a.pt")
    world.plan("a.pt")
    assert world.carry_out() == 1
    assert (world.disk / "a.pt").exists()


@pytest.mark.parametrize(
    ("kind", "goes"), [("nfs4", True), ("cifs", True), ("ext4", False), ("", False)]
)
def test_a_refused_lease_on_a_network_file_system_is_ignored(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str, goes: bool
) -> None:
    _leases_fail(monkeypatch, errno.EAGAIN)
    monkeypatch.setattr(open_files, "_file_system", lambda opened: kind)
    world.put("a.pt")
    world.plan("a.pt")
    assert world.carry_out() == (0 if goes else 1)


def test_the_file_system_of_an_open_file() -> None:
    with Path("/proc/self/mountinfo").open() as told:
        assert open_files._file_system(told.fileno()) == "proc"


def _leases_fail(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def no_lease(opened: int, what: int, word: int = 0) -> int:
        if what == fcntl.F_SETLEASE:
            raise OSError(number, os.strerror(number))
        return 0

    monkeypatch.setattr(open_files.fcntl, "fcntl", no_lease)


def test_somebody_who_waits_to_write_does_not_end_us(world: World) -> None:
    """And waits for a moment only."""
    path = world.put("a.pt")
    opened = os.open(path, os.O_RDONLY)
    try:
        with open_files.read_lease(opened, "it"):
            waiting = threading.Thread(target=lambda: path.open("ab").close())
            waiting.start()
            time.sleep(0.1)
            assert waiting.is_alive()
        waiting.join(10)
        assert not waiting.is_alive()
    finally:
        os.close(opened)
