"""After a kill, with the disk away or the trash gone: no line is lost track of, and none told as
what was not seen.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from labcarbon_collect.cleanup.trash import TRASH

from tests.collector.cleanup.killed_command import kill, was_killed
from tests.collector.cleanup.support import PLAN, World, snapshot


def _killed_behind(world: World, call: str, number: int = 1, **asked: Any) -> None:
    """Carry out in a process of its own that is killed behind a call of ``os``."""
    real, left = getattr(os, call), [number]

    def last(*words: Any, **more: Any) -> None:
        real(*words, **more)
        left[0] -= 1
        if not left[0]:
            kill()

    def act() -> None:
        setattr(os, call, last)
        world.carry_out(**asked)

    assert was_killed(act)


def _states(world: World, number: int = 1) -> list[str]:
    rows = [
        json.loads(row)
        for row in (world.root / "data/plans" / f"{PLAN}.jsonl").read_text().splitlines()
    ]
    return [row["state"] for row in rows if row["line"] == number]


def _forget_places(world: World) -> None:
    """The journal as an older version wrote it."""
    path = world.root / "data/plans" / f"{PLAN}.jsonl"
    rows = [json.loads(row) for row in path.read_text().splitlines()]
    path.write_text(
        "".join(json.dumps({k: v for k, v in row.items() if k != "place"}) + "\n" for row in rows)
    )


@pytest.fixture
def half(world: World) -> World:
    """A file that was renamed to the trash, and the kill came before the journal says so."""
    world.put("mnt/a.pt", b"aaa")
    world.plan("mnt/a.pt")
    _killed_behind(world, "rename")
    assert (_states(world), world.slot("mnt/a.pt", 1).exists()) == (["moving"], True)
    return world


def _is_away(world: World) -> Iterator[None]:
    (world.disk / "mnt").rename(world.root / "unmounted")
    yield
    (world.root / "unmounted").rename(world.disk / "mnt")


def _is_unmounted(world: World) -> Iterator[None]:
    """Its mount point lies there, empty."""
    away = _is_away(world)
    next(away)
    (world.disk / "mnt").mkdir()
    yield
    (world.disk / "mnt").rmdir()
    list(away)


def _has_another_disk(world: World) -> Iterator[None]:
    """One with a trash of the same plan, and files of these names."""
    away = _is_away(world)
    next(away)
    (world.disk / "mnt" / TRASH / PLAN).mkdir(mode=0o700, parents=True)
    (world.disk / "mnt" / TRASH).chmod(0o700)
    world.put("mnt/a.pt", b"aaa")
    yield
    shutil.rmtree(world.disk / "mnt")
    list(away)


def _is_open_to_others(world: World) -> Iterator[None]:
    (world.disk / "mnt" / TRASH).chmod(0o750)
    yield
    (world.disk / "mnt" / TRASH).chmod(0o700)


HOW = [_is_away, _is_unmounted, _has_another_disk, _is_open_to_others]
Hidden = Callable[[World], Iterator[None]]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("then", ["move", "restore", "empty"])
def test_a_kill_while_it_moves_and_its_disk_away_at_the_next_call(
    half: World, how: Hidden, then: str
) -> None:
    hidden = how(half)
    next(hidden)
    before = snapshot(half.disk)
    assert half.carry_out() == 1
    assert (
        half.carry_out(restore=[]) == half.carry_out(empty=True) == half.carry_out(restore=[1]) == 1
    )
    assert (_states(half), half.outcomes(), snapshot(half.disk)) == (["moving"], [""], before)
    list(hidden)
    if then == "restore":
        assert half.carry_out(restore=[]) == 0
        assert (half.outcomes(), (half.disk / "mnt/a.pt").read_bytes()) == (["restored"], b"aaa")
        return
    assert half.carry_out(empty=then == "empty") == 0
    assert (half.outcomes(), half.tombstone("mnt/a.pt")["state"]) == (["trashed"], "in the trash")
    half.days = 15
    assert half.carry_out(empty=True) == 0
    assert half.outcomes() == ["deleted"]


def test_unrecoverable_items_are_listed(half: World, capsys: pytest.CaptureFixture[str]) -> None:
    hidden = _is_unmounted(half)
    next(hidden)
    assert half.carry_out() == 1
    said = capsys.readouterr().out
    assert "left in place: 1 item" in said
    assert "is its disk mounted?" in said


def test_a_line_that_an_older_version_called_refused_while_it_lay_in_the_trash(half: World) -> None:
    entry = {"line": 1, "state": "refused", "at_us": 1, "word": "there is no folder"}
    with (half.root / "data/plans" / f"{PLAN}.jsonl").open("a") as journal:
        journal.write(json.dumps(entry) + "\n")
    assert half.carry_out() == 0
    assert half.outcomes() == ["trashed"]
    assert half.carry_out(restore=[]) == 0
    assert (half.disk / "mnt/a.pt").read_bytes() == b"aaa"


def test_related_items_wait_for_an_uncertain_move(world: World) -> None:
    """The server takes what nobody knows of for still there."""
    for name in ("mnt/hf/1", "mnt/hf/sub/2"):
        world.put(name, name)
    shutil.copytree(world.disk / "mnt/hf", world.disk / "other/hf")
    world.plan("mnt/hf", "mnt/hf/sub/2", "other/hf")
    _killed_behind(world, "rename")
    hidden = _is_away(world)
    next(hidden)
    assert world.carry_out() == 1
    assert (world.outcomes(), _states(world), _states(world, 2)) == (["", "", ""], ["moving"], [])
    assert (world.disk / "other/hf/1").exists()
    list(hidden)
    assert world.carry_out() == 0
    assert world.outcomes() == ["trashed"] * 3


def test_a_rename_that_fails_and_was_done_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a network file system may answer."""
    world.put("a.pt", b"aaa")
    world.plan("a.pt")
    rename = os.rename

    def failing(*words: Any, **more: Any) -> None:
        rename(*words, **more)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "rename", failing)
    assert world.carry_out() == 1
    monkeypatch.undo()
    assert (_states(world), world.outcomes()) == (["moving"], [""])
    assert world.carry_out() == 0
    assert world.outcomes() == ["trashed"]


@pytest.fixture
def went(world: World) -> World:
    """A file and a folder in the trash of one folder."""
    world.put("mnt/a.pt", b"aaa")
    world.put("mnt/hf/1", b"1")
    world.put("mnt/hf/2", b"2")
    world.plan("mnt/a.pt", "mnt/hf")
    assert world.carry_out() == 0
    return world


@pytest.mark.parametrize(
    ("how", "is_old"), [*((how, False) for how in HOW), (_is_away, True), (_is_unmounted, True)]
)
def test_a_disk_that_is_away_while_its_lines_lie_in_the_trash(
    went: World, how: Hidden, is_old: bool
) -> None:
    if is_old:
        _forget_places(went)
    went.days = 15
    hidden = how(went)
    next(hidden)
    before = snapshot(went.disk)
    assert went.carry_out() == went.carry_out(empty=True) == went.carry_out(restore=[]) == 1
    assert (went.outcomes(), snapshot(went.disk)) == (["trashed"] * 2, before)
    list(hidden)
    assert went.carry_out(restore=[1]) == went.carry_out(empty=True) == 0
    assert went.outcomes() == ["restored", "deleted"]
    assert (went.disk / "mnt/a.pt").read_bytes() == b"aaa"


@pytest.mark.parametrize("how", HOW)
def test_a_kill_while_it_is_deleted_and_its_disk_away_at_the_next_call(
    went: World, how: Hidden
) -> None:
    went.days = 15
    went.pin(1)
    _killed_behind(went, "unlink", empty=True)
    assert _states(went, 2)[-1] == "deleting"
    hidden = how(went)
    next(hidden)
    assert went.carry_out() == 1
    assert (_states(went, 2)[-1], went.outcomes()) == ("deleting", ["trashed"] * 2)
    list(hidden)
    assert went.carry_out(empty=True) == 0
    assert went.outcomes() == ["trashed", "deleted"]


@pytest.mark.parametrize("how", HOW)
def test_a_kill_while_it_comes_back_and_its_disk_away_at_the_next_call(
    went: World, how: Hidden, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("labcarbon_collect.cleanup.restore.rename_exclusive", lambda *words: kill())
        assert was_killed(lambda: went.carry_out(restore=[1]))
    assert _states(went)[-1] == "restoring"
    hidden = how(went)
    next(hidden)
    assert went.carry_out() == 1
    assert (_states(went)[-1], went.outcomes()) == ("restoring", ["trashed"] * 2)
    list(hidden)
    assert went.carry_out(restore=[]) == 0
    assert went.outcomes() == ["restored"] * 2


def test_after_a_restart_the_disk_may_have_another_number(went: World) -> None:
    """What lies in the trash is proof enough, and so is the trash itself of what was taken out
    of it.
    """
    path = went.root / "data/plans" / f"{PLAN}.jsonl"
    rows = [json.loads(row) for row in path.read_text().splitlines()]
    path.write_text(
        "".join(json.dumps({**row, "place": [7, *row["place"][1:]]}) + "\n" for row in rows)
    )
    went.slot("mnt/a.pt", 1).rename(went.disk / "mnt/a.pt")
    assert went.carry_out(restore=[]) == 0
    assert went.outcomes() == ["restored"] * 2


def test_a_copied_disk_is_identified_by_its_trash(went: World) -> None:
    shutil.copytree(went.disk / "mnt", went.root / "copied")
    shutil.rmtree(went.disk / "mnt")
    (went.root / "copied").rename(went.disk / "mnt")
    assert went.carry_out() == 0
    shutil.rmtree(went.disk / "mnt" / TRASH)
    assert went.carry_out() == 1
    assert went.outcomes() == ["refused"] * 2, "it is the same folder, and its trash is gone"


def test_an_item_that_did_not_move_waits_for_no_disk(half: World) -> None:
    """It went back, and somebody pinned it: the folder may have any other number by the next
    call.
    """
    half.slot("mnt/a.pt", 1).write_bytes(b"changed")
    half.pin(1)
    assert half.carry_out() == 0
    assert ((half.disk / "mnt/a.pt").read_bytes(), _states(half)[-1]) == (b"changed", "")
    assert not (half.disk / "mnt" / TRASH).exists()
    (half.disk / "mnt").rename(half.root / "moved")
    shutil.copytree(half.root / "moved", half.disk / "mnt")
    assert half.carry_out() == 0
    assert half.outcomes() == [""]


@pytest.mark.parametrize("content", [b"aaa", b"other", None])
def test_a_trash_that_was_removed_by_hand(
    went: World, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has the name then is read before it is called back."""
    shutil.rmtree(went.disk / "mnt" / TRASH)
    if content is not None:
        went.put("mnt/a.pt", content)
    assert went.carry_out() == 1
    assert went.outcomes() == ["restored" if content == b"aaa" else "refused", "refused"]
    assert ("the content at its path is different: it changed" in capsys.readouterr().out) == (
        content == b"other"
    )
    if content is not None:
        assert (went.disk / "mnt/a.pt").read_bytes() == content
    assert went.carry_out() == 0


@pytest.mark.parametrize("content", [b"aaa", b"xyz"])
def test_a_restore_before_a_kill_is_verified_before_its_report(went: World, content: bytes) -> None:
    with (went.root / "data/plans" / f"{PLAN}.jsonl").open("a") as journal:
        journal.write(
            json.dumps({"line": 1, "state": "restoring", "at_us": 1, "was_held": False}) + "\n"
        )
    went.slot("mnt/a.pt", 1).unlink()
    went.put("mnt/a.pt", content)
    assert went.carry_out() == (0 if content == b"aaa" else 1)
    assert went.outcomes() == ["restored" if content == b"aaa" else "refused", "trashed"]
