"""Hostile folders: nothing hangs, no loop is followed for ever, nothing raises."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from labcarbon_collect.files.manifests import manifest
from labcarbon_collect.files.read_limits import Budget, BudgetExceeded, Deadline

from tests.collector.fingerprint.support import MODEL, TRAIN, Folder

COMMAND = ("python", "train.py", "--data", "cats")


def test_loops_of_links_end(folder: Folder) -> None:
    folder.put("cats/a/1", "cat")
    (folder.root / "cats/a/up").symlink_to("..")
    (folder.root / "cats/self").symlink_to("self")
    (folder.root / "cats/gone").symlink_to("/nowhere")
    (folder.root / "cats/b").symlink_to("a")
    found = folder.wire(*COMMAND)["data"]
    assert found["items"][0]["files"] == 1


def test_a_link_to_a_folder_elsewhere_is_followed(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "1").write_text("cat")
    (folder.root / "cats").mkdir()
    (folder.root / "cats/all").symlink_to(tmp_path / "disk")
    before = folder.wire(*COMMAND)["data"]
    (tmp_path / "disk" / "1").write_text("dog")
    assert folder.wire(*COMMAND)["data"]["verified"] != before["verified"]


def test_pipes_devices_and_sockets_are_left_out_and_never_opened(folder: Folder) -> None:
    folder.put("cats/1", "cat")
    os.mkfifo(folder.root / "cats/pipe")
    os.mkfifo(folder.root / "conf.json")
    (folder.root / "cats/null").symlink_to("/dev/zero")
    begun = time.monotonic()
    found = folder.survey(*COMMAND, "--config", "conf.json", "--in", "/dev/zero", seconds=10)
    assert time.monotonic() - begun < 5
    assert found.wire["data"]["items"][0]["files"] == 1
    assert found.wire["params"].keys() == {"config", "in"}


def test_a_pipe_in_place_of_code_is_no_reason_to_wait(folder: Folder) -> None:
    (folder.root / "model.py").unlink()
    os.mkfifo(folder.root / "model.py")
    begun = time.monotonic()
    found = folder.survey(seconds=10)
    assert time.monotonic() - begun < 5
    assert found.wire["code"]["state"] in ("verified", "unknown")


def test_unreadable_files_are_unknown_with_a_note(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put("cats/1", "cat")

    def refused(path: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("labcarbon_collect.files.manifests.os.scandir", refused)
    found = folder.survey(*COMMAND)
    assert "data" not in found.wire
    assert "The data cannot be listed: Permission denied" in found.notes


def test_a_file_that_cannot_be_read_leaves_the_data_weak(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put("cats/1", "cat")

    def refused(path: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("labcarbon_collect.fingerprint.digests.open_regular_file", refused)
    found = folder.survey(*COMMAND)
    assert "verified" not in found.wire["data"]
    assert found.wire["data"]["weak"]


def test_names_that_are_not_utf8_are_names(folder: Folder) -> None:
    folder.put("cats/1", "cat")
    (Path(os.fsdecode(os.fsencode(folder.root / "cats") + b"/\xff\xfe"))).write_text("odd")
    (folder.root / os.fsdecode(b"d\xffgs")).mkdir()
    (Path(os.fsdecode(os.fsencode(folder.root) + b"/d\xffgs/1"))).write_text("dog")
    (folder.root / os.fsdecode(b"m\xff.py")).write_text("X = 1\n")
    found = folder.wire(
        *COMMAND, "--extra_dir", os.fsdecode(b"d\xffgs"), "--x", os.fsdecode(b"\xff")
    )
    assert [item["files"] for item in found["data"]["items"]] == [2, 1]
    found_code = folder.wire("python", os.fsdecode(b"m\xff.py"))
    assert found_code["code"]["state"] == "verified"
    assert found_code["entry_name"].isprintable()
    folder.commit()
    assert folder.wire("python", os.fsdecode(b"m\xff.py"))["code"]["commit"]


def test_a_hundred_thousand_files_are_listed_or_reported_unknown_in_time(folder: Folder) -> None:
    for shelf in range(100):
        place = folder.root / "cats" / str(shelf)
        place.mkdir(parents=True)
        for number in range(1000):
            os.close(os.open(place / f"{number}", os.O_CREAT | os.O_WRONLY))
    begun = time.monotonic()
    found = folder.survey(*COMMAND, seconds=5)
    assert time.monotonic() - begun < 15
    if "data" in found.wire:
        assert found.wire["data"]["items"][0]["files"] == 100_000
    else:
        assert any("The data cannot be listed" in note for note in found.notes)
    assert found.data
    assert found.wire["code"]["state"] == "verified"


def test_more_files_than_the_cap_are_unknown(folder: Folder) -> None:
    for number in range(5):
        folder.put(f"cats/{number}", "")
    with pytest.raises(BudgetExceeded, match="more than 3 files"):
        manifest("data", str(folder.root / "cats"), Budget(5), max_files=3)


def test_a_file_system_that_hangs_costs_what_was_given(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put("cats/1", "cat")
    real, over = os.scandir, threading.Event()

    def hangs(path: bytes) -> Iterator[os.DirEntry[bytes]]:
        over.wait(30)
        return real(path)

    monkeypatch.setattr("labcarbon_collect.files.manifests.os.scandir", hangs)
    begun = time.monotonic()
    found = folder.survey(*COMMAND, seconds=3)
    assert time.monotonic() - begun < 15
    over.set()
    assert "The data cannot be listed: it exceeded 3 s" in found.notes
    assert found.wire["code"]["state"] == "verified"


def test_code_too_large_to_read_is_unknown(folder: Folder) -> None:
    with (folder.root / "model.py").open("wb") as file:
        file.truncate(100_000_000)
    found = folder.survey(seconds=5)
    assert found.wire["code"] == {"state": "unknown"}
    assert "Code unknown: a file is larger than 16777216 bytes" in found.notes


@pytest.mark.parametrize(
    "source",
    [
        "(" * 5000,
        "x = " + "-" * 5000 + "1",
        "\0",
        "def f(:\n",
        "x = '''",
        "\ufeffx = 1\n",
        "# -*- coding: nonsense -*-\n",
    ],
)
def test_unparsable_source_still_counts(folder: Folder, source: str) -> None:
    folder.write(train_py=TRAIN, model_py=source)
    before = folder.wire()["code"]
    folder.write(model_py=source + MODEL)
    assert folder.wire()["code"]["hash"] != before["hash"]


def test_a_command_of_nothing_is_looked_at(folder: Folder) -> None:
    for command in (
        [""],
        ["python", ""],
        ["/"],
        ["."],
        ["\0"],
        ["x" * 10_000],
        ["python", "train.py", "--data", "\0"],
    ):
        assert folder.survey(*command).wire["version"] == "lc2"


def test_a_failing_part_is_absent_and_has_a_reason() -> None:
    def fail() -> None:
        raise RuntimeError

    looking = Deadline("it", fail)
    assert looking.wait(Budget(5)) is None
    assert looking.error == "RuntimeError"
