"""What goes, and above all what stays."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from labcarbon_collect.cleanup.trash import TRASH

from tests.collector.cleanup.support import PLAN, World, read_digest, snapshot


def test_files_and_folders_are_moved_and_reported(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.put("run/step1.pt", b"one")
    for name in ("config.json", "a/weights.bin", "a.txt"):
        world.put(f"run/hf/{name}")
    world.put("run/step2.pt", b"two")
    world.plan("run/step1.pt", "run/hf", "run/step2.pt", stays={"run/step2.pt": "pinned"})
    before = snapshot(world.disk / "run" / "hf")
    assert world.carry_out() == 0
    assert world.slot("run/step1.pt", 1).read_bytes() == b"one"
    assert snapshot(world.slot("run/hf", 2)) == before
    assert (world.disk / "run/step2.pt").read_bytes() == b"two"
    assert world.outcomes() == ["trashed", "trashed", ""]
    trash = world.disk / "run" / TRASH
    assert [stat.S_IMODE(path.stat().st_mode) for path in (trash, trash / PLAN)] == [0o700, 0o700]
    said = world.tombstone("run/step1.pt")
    assert (said["digest"], said["bytes"], said["state"]) == (
        read_digest(world.slot("run/step1.pt", 1))[1],
        3,
        "in the trash",
    )
    assert said["lies_at"] == str(world.slot("run/step1.pt", 1))
    assert said["page"].endswith(f"/artifacts/plans/{PLAN}/")
    assert "moved to the trash: 2 items" in capsys.readouterr().out
    assert world.carry_out() == 0, "again: nothing is left to do"
    assert world.outcomes() == ["trashed", "trashed", ""]


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _socket(path: Path) -> None:
    path.unlink()
    with closing(socket.socket(socket.AF_UNIX)) as bound:
        here = Path.cwd()
        os.chdir(path.parent)  # the name of a socket is 108 bytes at most
        bound.bind(path.name)
        os.chdir(here)


@pytest.mark.parametrize(
    ("meddle", "word"),
    [
        (lambda path: path.write_bytes(b"ONE"), "its content does not match its registered hash"),
        (lambda path: path.write_bytes(b"longer"), "6 B (6 bytes), 3 bytes were registered"),
        (lambda path: path.unlink(), "nothing exists at its path"),
        (
            lambda path: os.link(path, path.with_name("other")),
            "2 hard links: deleting it would free no space",
        ),
        (_link, "it is a symbolic link"),
        (_pipe, "it is a pipe"),
        (_socket, "it is a socket"),
        (lambda path: (path.unlink(), path.mkdir()), "it is a folder, a file was registered"),
    ],
)
def test_a_file_that_is_not_as_it_was_is_left(
    world: World, capsys: pytest.CaptureFixture[str], meddle: Callable[[Path], object], word: str
) -> None:
    path = world.put("step1.pt", b"one")
    world.plan("step1.pt")
    meddle(path)
    mode = path.lstat().st_mode if path.exists() or path.is_symlink() else None
    assert world.carry_out() == 1
    assert (path.lstat().st_mode if mode is not None else None) == mode
    assert world.outcomes() == ["refused"]
    assert word in capsys.readouterr().out
    assert not (world.disk / TRASH).exists()


def _unreadable(folder: Path) -> None:
    (folder / "sub" / "x").symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("meddle", "word"),
    [
        (lambda folder: (folder / "sub" / "new").write_text("x"), "3 files, 2 were registered"),
        (
            lambda folder: (folder / ".hidden").write_text("x"),
            "it contains unregistered content: .hidden",
        ),
        (lambda folder: (folder / ".git").mkdir(), "it contains unregistered content: .git"),
        (
            lambda folder: (folder / "__pycache__").mkdir(),
            "it contains unregistered content: __pycache__",
        ),
        (lambda folder: os.mkfifo(folder / "sub" / "p"), "sub/p is a pipe"),
        (_unreadable, "sub/x is a symbolic link"),
        (
            lambda folder: (folder / "a").rename(folder / "b"),
            "its content does not match its registered hash",
        ),
        (lambda folder: os.link(folder / "a", folder.parent / "a"), "a in it has 2 hard links"),
    ],
)
def test_a_folder_with_other_content_is_left_in_place(
    world: World, capsys: pytest.CaptureFixture[str], meddle: Callable[[Path], object], word: str
) -> None:
    world.put("hf/a", "aa")
    world.put("hf/sub/b", "b")
    world.plan("hf")
    meddle(world.disk / "hf")
    size = sum(
        path.stat().st_size
        for path in (world.disk / "hf").rglob("*")
        if path.is_file() and not path.is_symlink()
    )
    world.change(1, bytes=size)
    before = snapshot(world.disk)
    assert world.carry_out() == 1
    assert snapshot(world.disk) == before
    assert word in capsys.readouterr().out


def test_a_folder_with_an_empty_subfolder_is_moved_and_restored(world: World) -> None:
    world.put("hf/a")
    (world.disk / "hf" / "empty").mkdir()
    world.plan("hf")
    before = snapshot(world.disk)
    assert world.carry_out() == 0
    assert world.carry_out(restore=[]) == 0
    assert snapshot(world.disk) == before


@pytest.mark.parametrize(
    "path", ["../{}", "{}/../x", "/x/./y", "/x//y", "relative", "/a\0b", "/\ud800"]
)
def test_paths_that_are_not_plain_are_refused(
    world: World, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    file = world.put("step1.pt")
    world.plan("step1.pt")
    world.change(1, path=path.format(file))
    before = snapshot(world.disk)
    assert world.carry_out() == 1
    assert snapshot(world.disk) == before
    assert re.search("its path (is|cannot)", capsys.readouterr().out)


def test_a_folder_above_that_is_a_link_is_not_followed(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.put("real/deep/step1.pt")
    world.plan("real/deep/step1.pt")
    (world.disk / "real").rename(world.disk / "moved")
    (world.disk / "real").symlink_to("moved")
    assert world.carry_out() == 1
    assert (world.disk / "moved/deep/step1.pt").exists()
    assert "is a symbolic link, not a folder: links are not followed" in capsys.readouterr().out


@pytest.fixture
def mounted(world: World) -> object:
    """A folder of the disk that is another one as well, where mounting is allowed."""
    world.put("elsewhere/precious", b"precious")
    point = world.disk / "hf" / "sub"
    point.mkdir(parents=True)
    done = subprocess.run(
        ["mount", "--bind", str(world.disk / "elsewhere"), str(point)],
        check=False,
        capture_output=True,
    )
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr!r}")
    yield point
    subprocess.run(["umount", str(point)], check=True)


def test_a_mount_inside_a_folder_is_not_crossed(
    world: World, mounted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.put("hf/a", b"aa")
    world.plan("hf", "hf/sub/precious", "hf/sub")
    before = snapshot(world.disk)
    assert world.carry_out() == 1
    said = capsys.readouterr().out
    assert "a file system is mounted" in said
    assert world.outcomes()[0] == "refused"
    assert world.outcomes()[2] == "refused"
    assert (world.disk / "hf/a").exists()
    del (
        before["hf/sub/precious"],
        before["elsewhere/precious"],
    )  # may go by itself: in the trash beside it, on its own disk
    after = snapshot(world.disk)
    assert {name: after.get(name) for name in before} == before


def test_a_folder_that_may_not_be_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put("ro/step1.pt", b"one")
    world.plan("ro/step1.pt")

    mkdir = os.mkdir

    def denied(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if dir_fd is not None:
            raise PermissionError(13, "Permission denied")
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", denied)  # root may write anywhere
    assert world.carry_out() == 1
    assert (world.disk / "ro/step1.pt").read_bytes() == b"one"
    assert world.outcomes() == ["refused"]


@pytest.mark.parametrize("how", ["link", "open", "file", "other"])
def test_a_trash_that_is_not_ours_is_not_used(
    world: World, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    world.put("step1.pt", b"one")
    world.plan("step1.pt")
    trash = world.disk / TRASH
    if how == "link":
        (world.disk / "away").mkdir()
        trash.symlink_to("away")
    elif how == "open":
        trash.mkdir()
        trash.chmod(0o777)
    elif how == "other":
        trash.mkdir(mode=0o700)
        monkeypatch.setattr(os, "geteuid", lambda: trash.stat().st_uid + 1)
    else:
        trash.write_text("x")
    before = snapshot(world.disk)
    assert world.carry_out() == 1
    assert snapshot(world.disk) == before


def test_a_folder_does_not_take_with_it_what_stays(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.put("hf/best.pt", b"best")
    world.put("hf/last.pt", b"last")
    world.plan("hf", "hf/best.pt", stays={"hf/best.pt": "pinned"})
    before = snapshot(world.disk)
    assert world.carry_out() == 1
    assert snapshot(world.disk) == before
    assert "hf/best.pt in it must stay (pinned)" in capsys.readouterr().out


def test_items_moved_with_their_folder_are_listed(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.put("hf/sub/last.pt", b"last")
    world.plan("hf/sub/last.pt", "hf")
    before = snapshot(world.disk)
    assert world.carry_out() == 0
    assert world.outcomes() == ["trashed", "trashed"]
    out = capsys.readouterr().out
    assert "moved with their folder: 1 item" in out
    assert (
        f"#1 4 B {world.disk}/hf/sub/last.pt: with {world.disk}/hf (item 2); it is restored with it"
        in out
    )
    assert "left in place" not in out
    assert world.carry_out() == 0, "the same again does nothing"
    assert world.carry_out(restore=[1]) == 1
    assert "--restore 2 restores both" in capsys.readouterr().out
    assert world.carry_out(restore=[]) == 0
    assert snapshot(world.disk) == before
    assert world.outcomes() == ["restored", "restored"]
    assert world.carry_out() == 0
    assert snapshot(world.disk) == before, "what was brought back does not go by this plan again"


def test_what_went_with_its_folder_is_deleted_with_it(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.put("hf/last.pt", b"last")
    world.plan("hf", "hf/last.pt")
    assert world.carry_out() == 0
    world.days = 15
    assert world.carry_out(empty=True) == 0
    assert world.outcomes() == ["deleted", "deleted"]
    assert "deleted: 1 item" in capsys.readouterr().out


def test_a_dry_run_does_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.put("step1.pt")
    world.put("step2.pt", b"two")
    world.plan("step1.pt", "step2.pt")
    world.put("step2.pt", b"TWO")
    before = snapshot(world.root)
    assert world.carry_out(dry=True, sure=False) == 1
    assert snapshot(world.root) == before
    assert "would be moved to the trash: 1 item" in capsys.readouterr().out


def test_other_files_keep_their_names_beside_a_tombstone(world: World) -> None:
    world.put("step1.pt", b"one")
    mine = world.put("step1.pt.labcarbon-tombstone.json", b"mine")
    long = world.put("x" * 250 + ".pt", b"long")
    world.plan("step1.pt", long.name)
    before = snapshot(world.disk)
    assert world.carry_out() == 0
    assert mine.read_bytes() == b"mine"
    assert (
        len([path for path in world.disk.iterdir() if path.name.endswith("-tombstone.json")]) == 3
    )
    assert world.carry_out(restore=[]) == 0
    assert snapshot(world.disk) == before


def test_nothing_runs_without_a_yes(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    from labcarbon_collect.errors import CommandError

    path = world.put("step1.pt")
    world.plan("step1.pt")
    with pytest.raises(CommandError, match="use --yes"):
        world.carry_out(sure=False)
    assert path.exists()
