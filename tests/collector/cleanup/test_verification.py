"""How a line is read: to its listed end, whoever else writes, and whether or not anybody can be
told of it.
"""

from __future__ import annotations

import io
import os
import sys

import pytest
from labcarbon_collect import progress
from labcarbon_collect.cleanup.content import read_digest
from labcarbon_collect.cleanup.listings import File, LinkedFile, list_content
from labcarbon_collect.cleanup.safe_paths import ItemBlocked
from labcarbon_collect.commands.apply_plan import _ReadProgress

from tests.collector.cleanup.support import World


class Full(io.StringIO):
    """A log on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_failed_progress_display_does_not_affect_a_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("a.pt")
    world.put("b.pt")
    world.plan("a.pt", "b.pt")
    monkeypatch.setattr(progress, "_PLAIN_INTERVAL_S", 0.0)
    monkeypatch.setattr(sys, "stderr", Full())
    read = _ReadProgress()
    read.start(8)
    world.on_block = read
    assert world.carry_out() == 0
    assert world.outcomes() == ["trashed", "trashed"]


def test_an_error_of_the_block_callback_is_not_a_file_error(world: World) -> None:
    """Whatever it raises."""
    world.put("a.pt")
    folder = os.open(world.disk, os.O_RDONLY)

    def broken(size: int) -> None:
        raise OSError(28, "No space left on device")

    try:
        with pytest.raises(OSError, match="No space"):
            read_digest(folder, "a.pt", list_content(folder, "a.pt"), broken)
    finally:
        os.close(folder)


def test_a_file_that_grows_is_read_no_further_than_it_was_long(world: World) -> None:
    path = world.put("log", b"x" * (3 << 20))
    folder, read = os.open(world.disk, os.O_RDONLY), []

    def hashed(size: int) -> None:
        read.append(size)
        assert len(read) < 20, "it is read for as long as it grows"
        os.truncate(path, path.stat().st_size + (2 << 20))

    try:
        with pytest.raises(ItemBlocked, match="it changed while it was read"):
            read_digest(folder, "log", list_content(folder, "log"), hashed)
    finally:
        os.close(folder)
    assert sum(read) <= (3 << 20) + (1 << 20)


def test_a_file_entry_needs_little_memory() -> None:
    for file in (File(b"a", 1, 2, 3, 4), LinkedFile(b"a", 1, 2, 3, 4, b"blob")):
        assert not hasattr(file, "__dict__")
