"""Files are opened ahead of being read, so that the disk fetches what comes next: some at a
time, and none is left open.
"""

from pathlib import Path

import pytest
from labcarbon_collect.scan import file_reader as reading
from labcarbon_collect.scan.file_reader import Batch, FileReader, FileTask, ReadResult
from labcarbon_collect.scan.local_files import LocalReader, LocalTree
from labcarbon_collect.scan.rate_limit import RateLimiter

FILES = 12


class Counted(LocalTree):
    """This machine's folders; counts what is open."""

    def __init__(self, root: Path) -> None:
        super().__init__([bytes(root)])
        self.open = self.most = self.opened_all = 0

    def open_file(self, path: bytes, *, follow: bool = False) -> LocalReader:
        file = super().open_file(path, follow=follow)
        self.open += 1
        self.opened_all += 1
        self.most = max(self.most, self.open)
        close = file.close

        def closed() -> None:
            self.open -= 1
            close()

        file.close = closed  # type: ignore[method-assign]
        return file


@pytest.fixture
def tree(tmp_path: Path) -> Counted:
    for number in range(FILES):
        (tmp_path / f"{number:02}.npy").write_bytes(b"\x93NUMPY" + bytes([number]) * 5000)
    return Counted(tmp_path)


def _read(tree: Counted, folder: Path) -> list[ReadResult]:
    tasks = [FileTask(stamp, True) for stamp in tree.list_folder(bytes(folder)).files]
    reader = FileReader(tree, RateLimiter(None), include_unknown=False, dry_run=False)
    return reader.read(Batch(1, bytes(folder), "ssd", False, tasks))


@pytest.mark.parametrize("ahead", [0, 1, 3, 100])
def test_some_are_open_at_a_time_and_answers_keep_their_order(
    tree: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    plain = _read(tree, tmp_path)
    tree.most = 0
    monkeypatch.setattr(Counted, "open_ahead", ahead)
    assert _read(tree, tmp_path) == plain
    assert [read.task.stamp[0] for read in plain] == [
        b"%02d.npy" % number for number in range(FILES)
    ]
    assert tree.most == min(FILES, ahead + 1)
    assert tree.open == 0


def test_files_that_cannot_be_opened_keep_their_position(tree: Counted, tmp_path: Path) -> None:
    tasks = [FileTask(stamp, True) for stamp in tree.list_folder(bytes(tmp_path)).files]
    (tmp_path / "01.npy").unlink()
    (tmp_path / "02.npy").unlink()
    (tmp_path / "02.npy").symlink_to("03.npy")
    read = FileReader(tree, RateLimiter(None), include_unknown=False, dry_run=False).read(
        Batch(1, bytes(tmp_path), "ssd", False, tasks)
    )
    assert [each.fault for each in read] == ["", "gone", "unreadable", *[""] * (FILES - 3)]
    assert tree.open == 0


def test_all_files_are_closed_after_an_error(
    tree: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(reading, "recognise_file", ended)
    with pytest.raises(MemoryError):
        _read(tree, tmp_path)
    assert tree.opened_all > 1
    assert tree.open == 0


def test_a_change_between_opening_and_reading_is_detected(
    tree: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last is open before the first is read."""
    monkeypatch.setattr(Counted, "open_ahead", FILES)
    real = reading.recognise_file
    last = tmp_path / f"{FILES - 1:02}.npy"

    def meddled(*arguments: object, **named: object) -> object:
        if arguments[0] == "00.npy":
            last.write_bytes(b"\x93NUMPY" + b"other" * 1000)
        return real(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(reading, "recognise_file", meddled)
    assert [each.fault for each in _read(tree, tmp_path)] == [*[""] * (FILES - 1), "changed"]
