"""Random trees, random plans, random meddling: what was not an approved and unchanged line is as
it was, to the byte.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from labcarbon_collect.cleanup.trash import TRASH

from tests.collector.cleanup.support import World, read_digest, snapshot

NAMES = ["a", "b", "d/a", "d/b", "d/e/a", "d/e/b", "f/a", "f/.h"]
PLACES = [*NAMES, "d", "d/e", "f"]
CONTENTS = st.sampled_from([b"", b"x", b"y", b"xx"])
DEEDS = st.tuples(
    st.sampled_from(["write", "remove", "link", "hard", "swap"]),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    CONTENTS,
)


def _meddle(world: World, deed: tuple[str, str, str, bytes]) -> None:
    how, one, other, content = deed
    path, second = world.disk / one, world.disk / other
    if how == "write" and path.parent.is_dir() and not path.is_dir():
        path.unlink(missing_ok=True)
        path.write_bytes(content)
    elif how == "remove":
        path.unlink(missing_ok=True)
    elif how == "link" and path.parent.is_dir() and not os.path.lexists(path):
        path.symlink_to(second)
    elif how == "hard" and path.parent.is_dir() and not os.path.lexists(path) and second.is_file():
        os.link(second, path, follow_symlinks=False)
    elif how == "swap" and path.is_file() and second.is_file() and path != second:
        path.rename(world.disk / "z")
        second.rename(path)
        (world.disk / "z").rename(second)


def _ordinary(world: World) -> dict[str, bytes | str | None]:
    """All that lies on the disk but the trash, tombstones and folders."""
    return {
        name: content
        for name, content in snapshot(world.disk).items()
        if content is not None and TRASH not in name and not name.endswith("-tombstone.json")
    }


@settings(max_examples=120, deadline=None)
@given(
    files=st.dictionaries(st.sampled_from(NAMES), CONTENTS, min_size=1),
    chosen=st.lists(st.sampled_from(PLACES), min_size=1, max_size=5, unique=True),
    stays=st.sets(st.sampled_from(PLACES), max_size=2),
    deeds=st.lists(DEEDS, max_size=3),
    later=st.lists(DEEDS, max_size=2),
)
def test_no_other_content_is_ever_touched(
    files: dict[str, bytes],
    chosen: list[str],
    stays: set[str],
    deeds: list[tuple[str, str, str, bytes]],
    later: list[tuple[str, str, str, bytes]],
) -> None:
    with tempfile.TemporaryDirectory() as root:
        world = World(Path(root))
        for name, content in files.items():
            world.put(name, content)
        there = [name for name in chosen if (world.disk / name).exists()]
        world.plan(*there, stays=dict.fromkeys(stays, "pinned"))
        digests = {name: read_digest(world.disk / name)[1] for name in there}
        for deed in deeds:
            _meddle(world, deed)
        before = _ordinary(world)
        world.carry_out()
        after, outcomes = _ordinary(world), dict(zip(there, world.outcomes(), strict=True))
        gone = {name for name in before if name not in after}
        went = {name for name, outcome in outcomes.items() if outcome == "trashed"}
        assert not went & stays
        assert {name: after[name] for name in before if name not in gone} == after, (
            "what is there is as it was"
        )
        covered = {
            name
            for name in before
            if any(name == each or name.startswith(f"{each}/") for each in went)
        }
        assert gone == covered, "exactly what went is gone"
        along = {name for name in went if any(name.startswith(f"{each}/") for each in went)}
        own = went - along
        for name in own:
            slot = world.slot(name, there.index(name) + 1)
            assert read_digest(slot)[1] == digests[name], "and what went is what was approved"
            assert (world.disk / f"{name}.labcarbon-tombstone.json").exists()
            assert {
                f"{name}/{path}".rstrip("/"): content for path, content in _within(slot).items()
            } == {
                path: content
                for path, content in before.items()
                if path == name or path.startswith(f"{name}/")
            }
        for deed in later:
            _meddle(world, deed)
        before = _ordinary(world)
        world.carry_out(restore=[])
        after = _ordinary(world)
        assert before.items() <= after.items(), "nothing is overwritten by what comes back"
        for name, outcome in zip(there, world.outcomes(), strict=True):
            slot = world.slot(name, there.index(name) + 1)
            if name in own:
                assert (outcome == "trashed") == slot.exists(), "it is in the trash, or back"
            if name in own and not slot.exists():
                assert read_digest(world.disk / name)[1] == digests[name]


def _within(slot: Path) -> dict[str, bytes | str | None]:
    if slot.is_file():
        return {"": slot.read_bytes()}
    return {name: content for name, content in snapshot(slot).items() if content is not None}
