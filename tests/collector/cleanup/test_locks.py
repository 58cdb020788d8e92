"""One call at a time carries out a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from labcarbon_collect.cleanup.journal import Journal
from labcarbon_collect.locks import AlreadyRunning

from tests.collector.cleanup.support import PLAN, World


def test_two_runs_of_one_plan(world: World) -> None:
    """Also where each has a network of its own, as containers do, and sees nothing of the
    other's socket.
    """
    world.put("a.pt", b"aaa")
    world.plan("a.pt")
    seen: list[str] = []

    def second(method: str) -> None:
        seen.append(method)
        with pytest.raises(
            AlreadyRunning, match="another labcarbon-collect apply-plan is running on this plan"
        ):
            world.carry_out()

    world.on_block = lambda size: None if seen else second("reading")
    assert world.carry_out() == 0
    assert (seen, world.outcomes()) == (["reading"], ["trashed"])
    assert world.carry_out(restore=[]) == 0, "the lock goes with the run"


def test_a_file_system_without_locks_is_accepted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*words: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", cannot)
    world.put("a.pt", b"aaa")
    world.plan("a.pt")
    assert world.carry_out() == 0


def test_the_journal_is_let_go_of(tmp_path: Path) -> None:
    first, second = Journal(tmp_path, PLAN), Journal(tmp_path, PLAN)
    first.acquire()
    with pytest.raises(AlreadyRunning):
        Journal(tmp_path, PLAN)
    with pytest.raises(AlreadyRunning):
        second.acquire()
    first.close()
    Journal(tmp_path, PLAN).close()
