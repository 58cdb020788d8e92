"""Lines are read ahead in threads; what changed between reading and moving stays all the same."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.cleanup import session as plan_work
from labcarbon_collect.cleanup.client import PlanClient
from labcarbon_collect.cleanup.content import read_digest
from labcarbon_collect.cleanup.trash_items import Prefetcher

from tests.collector.cleanup.support import PLAN, World

WAIT_S = 30


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what was read, in the order in which that ended."""
    names: list[str] = []

    def read(folder: int, name: str, *rest: Any) -> str:
        found = read_digest(folder, name, *rest)
        names.append(name)
        return found

    monkeypatch.setattr(plan_work, "read_digest", read)
    return names


def test_two_items_are_read_in_parallel(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=WAIT_S)

    def read(*words: Any) -> str:
        both.wait()
        return read_digest(*words)

    for name in ("a.pt", "b.pt"):
        world.put(name)
    world.plan("a.pt", "b.pt")
    monkeypatch.setattr(plan_work, "read_digest", read)
    assert world.carry_out() == 0
    assert world.outcomes() == ["trashed", "trashed"]


def test_one_thread_reads_in_the_order_of_the_plan(world: World, reading: list[str]) -> None:
    names = ["a.pt", "b.pt", "c.pt", "d.pt"]
    for name in names:
        world.put(name)
    world.plan(*names)
    world.threads = 1
    assert world.carry_out() == 0
    assert reading == names
    assert world.outcomes() == ["trashed"] * 4


def _write_alike(path: Path) -> None:
    """Other content of the same size, and the old time of change put back."""
    times = path.stat()
    path.write_bytes(b"X" * times.st_size)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _replace(path: Path) -> None:
    """The same content in another file."""
    times, fresh = path.stat(), path.with_name("fresh")
    fresh.write_bytes(path.read_bytes())
    os.utime(fresh, ns=(times.st_atime_ns, times.st_mtime_ns))
    fresh.replace(path)


def _link(path: Path) -> None:
    path.rename(path.with_name("kept"))
    path.symlink_to("kept")


@pytest.mark.parametrize("meddle", [_write_alike, _replace, _link, Path.unlink])
def test_what_changed_after_it_was_read_ahead_stays(
    world: World, monkeypatch: pytest.MonkeyPatch, meddle: Callable[[Path], None]
) -> None:
    world.put("a.pt")
    second = world.put("b.pt")
    world.plan("a.pt", "b.pt")
    rename, was_read = os.rename, threading.Event()

    def read(folder: int, name: str, *rest: Any) -> str:
        found = read_digest(folder, name, *rest)
        if name == "b.pt":
            was_read.set()
        return found

    def renamed(*words: Any, **more: Any) -> None:
        rename(*words, **more)
        if words[0] == "a.pt":
            assert was_read.wait(WAIT_S), "the second is read while the first is moved"
            monkeypatch.setattr(os, "rename", rename)
            meddle(second)

    monkeypatch.setattr(plan_work, "read_digest", read)
    monkeypatch.setattr(os, "rename", renamed)
    assert world.carry_out() == 1
    assert world.outcomes() == ["trashed", "refused"]
    assert not world.slot("b.pt", 2).exists()
    assert os.path.lexists(second) == (meddle is not Path.unlink)


def test_a_line_that_may_not_go_any_more_was_read_in_vain(
    world: World, reading: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("a.pt")
    world.put("b.pt")
    world.plan("a.pt", "b.pt")
    world.on_block = lambda size: world.pin(2)
    monkeypatch.setattr(plan_work, "MAX_PLAN_AGE_S", -1.0)  # no answer is young enough
    world.carry_out()
    assert world.outcomes() == ["trashed", ""]
    assert sorted(reading) == ["a.pt", "b.pt"]
    assert (world.disk / "b.pt").exists()


def test_items_inside_a_folder_of_the_plan_are_not_prefetched(
    world: World, reading: list[str]
) -> None:
    world.put("hf/model.safetensors")
    world.put("hf/config.json")
    world.put("z.pt")
    world.plan("hf", "hf/model.safetensors", "z.pt")
    assert world.carry_out() == 0
    assert sorted(reading) == ["hf", "z.pt"]
    assert world.outcomes() == ["trashed"] * 3


def test_whoever_stops_waits_for_no_file(world: World) -> None:
    world.put("large.pt", b"x" * (40 << 20))
    world.plan("large.pt")
    begun, stopped, blocks = threading.Event(), threading.Event(), []

    def hashed(size: int) -> None:
        blocks.append(size)
        begun.set()
        stopped.wait(0.05)

    plan = PlanClient(world.transport, PLAN, notify=print).fetch_plan()  # type: ignore[arg-type]
    ahead = Prefetcher(plan, hashed, 2)
    ahead.start(plan.items)
    assert begun.wait(WAIT_S)
    ahead.close()
    assert len(blocks) < 40
    assert not [each for each in threading.enumerate() if each.name.startswith("read")]
