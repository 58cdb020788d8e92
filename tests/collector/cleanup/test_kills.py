"""Killed at every step: what is on the disk then, and after the same command ran again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.cleanup import safe_paths

from tests.collector.cleanup.killed_command import kill, was_killed
from tests.collector.cleanup.support import World, snapshot

FILES = {
    "run/a.pt": b"aaa",
    "run/changed.pt": b"was",
    "run/pinned.pt": b"pin",
    "hf/x/1": b"1",
    "hf/x/2": b"2",
    "hf/3": b"3",
}
LINES = ("run/a.pt", "run/changed.pt", "run/pinned.pt", "hf")


def _world(root: Path) -> World:
    world = World(root)
    for name, content in FILES.items():
        world.put(name, content)
    world.plan(*LINES, stays={"run/pinned.pt": "pinned"})
    world.put("run/changed.pt", b"NOW")
    return world


class Steps:
    """Counts what changes anything outside the process, and ends it as SIGKILL does before the
    step of a number.
    """

    def __init__(self, last: int) -> None:
        self.left = last

    def step(self) -> None:
        if self.left == 0:
            kill()
        self.left -= 1

    def on(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*words: Any, **options: Any) -> Any:
            self.step()
            return call(*words, **options)

        return counted

    def torn(self, write: Callable[[int, Any], int]) -> Callable[[int, Any], int]:
        def counted(opened: int, content: Any) -> int:
            self.step()
            half = write(opened, content[: len(content) // 2])
            self.step()
            return half + write(opened, content[half:])

        return counted

    def opening(self, call: Callable[..., int]) -> Callable[..., int]:
        def counted(path: Any, flags: int, *words: Any, **options: Any) -> int:
            if flags & os.O_CREAT:
                self.step()
            return call(path, flags, *words, **options)

        return counted


def _killed_at(step: int, act: Callable[[World], object], world: World) -> bool:
    """Carry out in a process of its own that is killed at a step; whether it came that far."""

    def acted() -> None:
        steps = Steps(step)
        for name in ("rename", "unlink", "rmdir", "mkdir", "link", "fsync"):
            setattr(os, name, steps.on(getattr(os, name)))
        os.open, os.write = steps.opening(os.open), steps.torn(os.write)  # type: ignore[assignment]
        safe_paths._renameat2 = steps.on(safe_paths._renameat2)
        world.before = lambda method: steps.step()
        act(world)

    return was_killed(acted)


def _is_whole(world: World, name: str, number: int, *, may_be_gone: bool = False) -> None:
    """A line lies in its place or in the trash, whole, and not in both."""
    expected = {
        path[len(name) :].lstrip("/"): content
        for path, content in FILES.items()
        if path.startswith(name)
    }
    found = []
    for place in (world.disk / name, world.slot(name, number)):
        if place.is_file():
            found.append({"": place.read_bytes()})
        elif place.is_dir():
            found.append(
                {path: content for path, content in snapshot(place).items() if content is not None}
            )
    if may_be_gone:
        assert all(each.items() <= expected.items() for each in found)
        return
    assert found == [expected]


def _others_are_untouched(world: World) -> None:
    assert (world.disk / "run/changed.pt").read_bytes() == b"NOW"
    assert (world.disk / "run/pinned.pt").read_bytes() == b"pin"


def _move(world: World) -> object:
    return world.carry_out()


def _restore(world: World) -> object:
    return world.carry_out(restore=[])


def _empty(world: World) -> object:
    return world.carry_out(empty=True)


def _each_step(
    tmp_path: Path, begun: Callable[[World], object], act: Callable[[World], object]
) -> Any:
    """Yield a machine killed at step 0, 1, … of ``act``, until it came to its end."""
    step = 0
    while True:
        root = tmp_path / str(step)
        world = _world(root)
        begun(world)
        is_cut = _killed_at(step, act, world)
        yield world, is_cut
        shutil.rmtree(root)
        if not is_cut:
            assert step > 15, "a call of this takes more steps than that"
            return
        step += 1
        assert step < 500, "it comes to no end"


def test_moving(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for world, _ in _each_step(tmp_path, lambda world: None, _move):
        for name, number in (("run/a.pt", 1), ("hf", 4)):
            _is_whole(world, name, number)
        _others_are_untouched(world)
        world.carry_out()
        _others_are_untouched(world)
        assert world.outcomes() == ["trashed", "refused", "", "trashed"]
        for name, number in (("run/a.pt", 1), ("hf", 4)):
            _is_whole(world, name, number)
            assert world.slot(name, number).exists()
            assert world.tombstone(name)["lies_at"] == str(world.slot(name, number))
        left = sorted(path.name for path in world.slot("run/a.pt", 1).parent.iterdir())
        assert left == ["1"], "nothing else is left in the trash"


def test_restoring(tmp_path: Path) -> None:
    for world, _ in _each_step(tmp_path, _move, _restore):
        for name, number in (("run/a.pt", 1), ("hf", 4)):
            _is_whole(world, name, number)
        world.carry_out(restore=[])
        _others_are_untouched(world)
        assert world.outcomes() == ["restored", "refused", "", "restored"]
        assert snapshot(world.disk) == {
            **FILES,
            "run/changed.pt": b"NOW",
            "run": None,
            "hf": None,
            "hf/x": None,
        }


def test_restoring_where_no_rename_is_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a file has two names for a moment, and a kill may come just there."""

    def absent(*words: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(safe_paths, "_renameat2", absent)
    for world, _ in _each_step(tmp_path, _move, _restore):
        assert b"aaa" in snapshot(world.disk).values()
        world.carry_out(restore=[])
        assert world.outcomes() == ["restored", "refused", "", "restored"]
        assert (world.disk / "run/a.pt").stat().st_nlink == 1
        assert snapshot(world.disk) == {
            **FILES,
            "run/changed.pt": b"NOW",
            "run": None,
            "hf": None,
            "hf/x": None,
        }


def test_emptying(tmp_path: Path) -> None:
    def later(world: World) -> None:
        _move(world)
        world.days = 15

    for world, is_cut in _each_step(tmp_path, later, _empty):
        for name, number in (("run/a.pt", 1), ("hf", 4)):
            _is_whole(world, name, number, may_be_gone=True)
        _others_are_untouched(world)
        world.carry_out(empty=True)
        _others_are_untouched(world)
        assert world.outcomes() == ["deleted", "refused", "", "deleted"]
        tombstones = ["hf.labcarbon-tombstone.json", "run/a.pt.labcarbon-tombstone.json"]
        assert sorted(snapshot(world.disk)) == sorted(
            [*tombstones, "run", "run/changed.pt", "run/pinned.pt"]
        )
        assert {world.tombstone(name)["state"] for name in ("hf", "run/a.pt")} == {"deleted"}
        assert is_cut or world.tombstone("hf")["deleted_at"]
        assert len(list((world.root / "data/plans").iterdir())) == 1, (
            "no list is left beside the journal"
        )


def test_restoring_what_was_about_to_be_deleted(tmp_path: Path) -> None:
    """Deletion was begun of some lines at most: the others come back, and leave no list either."""

    def later(world: World) -> None:
        _move(world)
        world.days = 15

    for world, _ in _each_step(tmp_path, later, _empty):
        world.carry_out(restore=[])
        _others_are_untouched(world)
        for number, name in ((1, "run/a.pt"), (4, "hf")):
            if world.outcomes()[number - 1] == "restored":
                _is_whole(world, name, number)
        if world.outcomes()[3] != "trashed":
            assert len(list((world.root / "data/plans").iterdir())) == 1
