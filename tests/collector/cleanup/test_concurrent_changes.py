"""What changes while a line is read, asked for and moved: on its disk, and at the server."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from labcarbon_collect.cleanup import open_files, trash_items
from labcarbon_collect.cleanup.trash import TRASH

from tests.collector.cleanup.support import AWAY, World, snapshot


@pytest.mark.parametrize("how", ["other", "link", "written", "same"])
def test_what_is_swapped_between_reading_and_moving_is_put_back(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    monkeypatch.setattr(
        open_files, "_HAS_LEASES", False
    )  # with leases, whoever wants to write waits for the rename
    path = world.put("step1.pt", b"one")
    outside = world.put("precious", b"precious")
    world.plan("step1.pt")
    rename = os.rename

    def late(source: str, target: str, **folders: int) -> None:
        if source == "step1.pt":
            if how == "written":
                with path.open("ab") as file:
                    file.write(b"!")
            else:
                path.rename(world.disk / "aside")
                if how == "link":
                    path.symlink_to(outside)
                else:
                    path.write_bytes(b"TWO" if how == "other" else b"one")
        rename(source, target, **folders)

    monkeypatch.setattr(trash_items.os, "rename", late)
    assert world.carry_out() == 1
    assert "; it was put back" in capsys.readouterr().out
    assert outside.read_bytes() == b"precious"
    assert path.is_symlink() == (how == "link")
    if how != "link":
        assert path.read_bytes() == {"other": b"TWO", "written": b"one!", "same": b"one"}[how]
    assert not (world.disk / TRASH).exists()
    assert world.outcomes() == ["refused"]


@pytest.mark.parametrize("how", ["added", "changed", "swapped"])
def test_a_folder_that_is_meddled_with_between_reading_and_moving_is_put_back(
    world: World, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    world.put("hf/a", b"aa")
    world.put("hf/sub/b", b"bb")
    world.plan("hf")
    rename = os.rename

    def late(source: str, target: str, **folders: int) -> None:
        if source == "hf":
            if how == "added":
                world.put("hf/sub/new", b"new")
            elif how == "changed":
                about = (world.disk / "hf/a").stat()
                world.put("hf/a", b"AA")
                os.utime(world.disk / "hf/a", ns=(about.st_atime_ns, about.st_mtime_ns))
            else:
                (world.disk / "hf/a").unlink()
                (world.disk / "hf/a").symlink_to("sub/b")
        rename(source, target, **folders)

    monkeypatch.setattr(trash_items.os, "rename", late)
    assert world.carry_out() == 1
    assert (world.disk / "hf/sub/b").read_bytes() == b"bb"
    assert not (world.disk / TRASH).exists()
    assert world.outcomes() == ["refused"]


def test_content_that_cannot_be_put_back_is_never_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(open_files, "_HAS_LEASES", False)
    path = world.put("step1.pt", b"one")
    world.plan("step1.pt")
    rename = os.rename

    def late(source: str, target: str, **folders: int) -> None:
        if source == "step1.pt":
            path.write_bytes(b"NEW")
        rename(source, target, **folders)
        if source == "step1.pt":
            path.write_bytes(b"somebody else's")

    monkeypatch.setattr(trash_items.os, "rename", late)
    assert world.carry_out() == 1
    monkeypatch.undo()
    assert "it cannot be put back" in capsys.readouterr().out
    world.days = 99
    assert world.carry_out(empty=True) == 0
    assert world.slot("step1.pt", 1).read_bytes() == b"NEW"
    assert path.read_bytes() == b"somebody else's"
    assert world.carry_out(restore=[1]) == 1, "something lies there"
    path.unlink()
    assert world.carry_out(restore=[1]) == 0
    assert path.read_bytes() == b"NEW"
    assert world.outcomes() == ["refused"]


def _on_second_fetch(world: World, act: Callable[[], object]) -> None:
    """Act once, when the server is asked for the second time."""
    asked = []

    def before(method: str) -> None:
        asked.append(method)
        if len(asked) == 2:
            act()

    world.before = before


def test_a_pin_during_reading_blocks_the_move(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labcarbon_collect.cleanup.session.MAX_PLAN_AGE_S", -1.0)
    path = world.put("step1.pt", b"one")
    world.plan("step1.pt")
    _on_second_fetch(world, lambda: world.pin(1))
    assert world.carry_out() == 0
    assert path.exists()
    assert world.outcomes() == [""]


def test_a_change_during_the_request_is_detected(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even one of the same size, under the same time."""
    monkeypatch.setattr("labcarbon_collect.cleanup.session.MAX_PLAN_AGE_S", -1.0)
    path = world.put("step1.pt", b"one")
    world.plan("step1.pt")

    def changed() -> None:
        about = path.stat()
        path.write_bytes(b"ONE")
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))

    _on_second_fetch(world, changed)
    assert world.carry_out() == 1
    assert path.read_bytes() == b"ONE"
    assert world.outcomes() == ["refused"]


def test_an_objection_before_the_report_restores_the_item(world: World) -> None:
    paths = [world.put(f"step{n}.pt") for n in range(1, 6)]
    world.plan(*(path.name for path in paths))
    world.before = lambda method: (
        world.object_to(2) if method == "POST" and world.outcomes() == [""] * 5 else None
    )
    assert world.carry_out() == 1
    assert paths[1].exists()
    assert not paths[0].exists()
    assert world.outcomes() == ["trashed", "", "trashed", "trashed", "trashed"]
    world.before = lambda method: None
    assert world.carry_out() == 0, "it is not told for ever"


def test_a_plan_withdrawn_meanwhile_restores_all_items(world: World) -> None:
    paths = [world.put(f"step{n}.pt") for n in range(1, 4)]
    world.plan(*(path.name for path in paths))

    def withdraw(method: str) -> None:
        if method == "POST":
            world.transport.write({**world.transport.read(), "state": "withdrawn"})

    before = snapshot(world.disk)
    world.before = withdraw
    assert world.carry_out() == 1
    assert snapshot(world.disk) == before


def test_of_the_same_content_the_server_decides_each_time(world: World) -> None:
    """Two copies were approved as two of three; the third is gone meanwhile: only one may go,
    whatever was asked first.
    """
    for name in ("a.pt", "b.pt"):
        world.put(name, b"same")
    world.plan("a.pt", "b.pt")

    def before(method: str) -> None:
        if method == "GET" and world.outcomes()[0] == "trashed":
            world.change(2, goes=False, stays="it is the last by now")

    world.before = before
    assert world.carry_out() == 0
    assert (world.disk / "b.pt").exists()
    assert world.outcomes() == ["trashed", ""]


def test_a_copy_in_a_folder_counts_as_one_of_its_content(world: World) -> None:
    """The folder goes after the copy beside it, and only once the server was asked whether it is
    the last by now.
    """
    world.put("a.pt", b"same")
    world.put("hf/a.pt", b"same")
    world.put("hf/config.json", b"{}")
    world.plan("a.pt", "hf", "hf/a.pt")

    def before(method: str) -> None:
        if method == "GET" and world.outcomes()[0] == "trashed":
            world.change(3, goes=False, stays="it is the last by now")

    world.before = before
    assert world.carry_out() == 1
    assert (world.disk / "hf" / "a.pt").exists()
    assert world.outcomes()[0] == "trashed"
    assert "trashed" not in world.outcomes()[1:]


def test_an_empty_report_completes_the_plan(world: World) -> None:
    """What was approved is kept by now: with nothing else to tell, the server would not hear of
    it.
    """
    paths = [world.put(f"step{n}.pt") for n in (1, 2)]
    world.plan(*(path.name for path in paths))
    world.pin(1)
    assert world.carry_out(dry=True) == 0
    world.pin(2)
    assert world.carry_out(dry=True) == 0
    assert world.transport.read()["state"] == "approved", "a dry run tells nothing"
    assert world.carry_out(sure=False) == 0, "and nobody is asked whether to go on"
    assert (world.transport.read()["state"], world.outcomes()) == ("applied", ["", ""])
    posts: list[str] = []
    world.before = posts.append
    assert world.carry_out() == 0
    assert posts == ["GET"], "once"


def test_a_server_that_is_away_hears_later_that_nothing_is_left_to_go(world: World) -> None:
    world.put("step1.pt")
    world.plan("step1.pt")
    world.pin(1)
    world.faults = [None, *[AWAY] * 5]
    assert world.carry_out() == 1
    assert world.transport.read()["state"] == "approved"
    world.faults = []
    assert world.carry_out() == 0
    assert world.transport.read()["state"] == "applied"
